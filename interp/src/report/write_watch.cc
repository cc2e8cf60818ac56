// Checked runs of TPU kernels: what was written, and what was read before that.
#include <fmt/format.h>

#include <algorithm>

#include "../plan/array.h"
#include "checked.h"
#include "../ops/elements.h"
#include "report.h"

namespace pallasim::interp {
namespace {

std::string index_text(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t d = dims.size(); d-- > 0;) at[d] = element % dims[d], element /= dims[d];
  return ops::shape_text(at);
}

}  // namespace

WriteWatch::WriteWatch(const Plan& plan) : plan_(plan) {}

// Outputs that begin as nobody's, copies of their blocks, and scratch of every thread.
void WriteWatch::track(Execution& ex) {
  tracking_ = true;
  auto add = [&](const std::byte* begin, int64_t bytes, std::string name, const Window* output, const Window* stage, int thread, std::vector<int64_t> dims = {}) {
    if (bytes > 0) regions_[begin] = {begin, std::move(name), std::vector<bool>(static_cast<size_t>(bytes)), output, stage, thread, std::move(dims)};
  };
  for (const Window& w : plan_.windows) {
    if (!w.is_output || ir::is_sync(w.dtype) || is_aliased_output(plan_.module, w.operand)) continue;
    const std::string& name = plan_.module.operands[static_cast<size_t>(w.operand)].name;
    for (const Thread& t : ex.threads) {
      if (t.index % plan_.num_threads == 0) add(t.bases[w.buffer], ops::count(w.dims) * w.element_bytes, name, &w, nullptr, -1, w.dims);
      if (w.staged && !w.slots) add(t.bases[kTempBuffer] + w.stage_offset, w.block_elements * w.element_bytes, name, nullptr, &w, t.index);
    }
  }
  for (const Thread& t : ex.threads) {
    size_t i = 0;
    for (const ir::Scratch& s : plan_.module.scratch) {
      const bool own = s.type->scope == ir::Scope::Thread || s.type->scope == ir::Scope::Warp;
      if (ir::is_sync(s.type->dtype) || !own || i >= plan_.poison.size()) continue;
      const Plan::Poison& p = plan_.poison[i++];
      std::vector<int64_t> dims;
      for (const ir::Dim& d : s.type->dims) dims.push_back(d.size);
      add(t.bases[kTempBuffer] + p.offset, p.count * ir::byte_size(p.dtype), s.name, nullptr, nullptr, t.index, std::move(dims));
    }
  }
}

void WriteWatch::on_fresh(Execution& ex, const Thread& t, int64_t offset, int64_t bytes, const std::string& name) {
  if (!tracking_) track(ex);
  const std::byte* begin = t.bases[kTempBuffer] + offset;
  // Memory is given out again: what lay there is no more.
  for (auto it = regions_.begin(); it != regions_.end();) {
    const Region& r = it->second;
    const bool gone = r.thread == t.index && r.begin < begin + bytes && begin < r.begin + r.written.size();
    it = gone ? regions_.erase(it) : std::next(it);
  }
  regions_[begin] = {begin, name, std::vector<bool>(static_cast<size_t>(bytes)), nullptr, nullptr, t.index, {}};
}

WriteWatch::Region* WriteWatch::region_of(const std::byte* at) {
  auto it = regions_.upper_bound(at);
  if (it == regions_.begin()) return nullptr;
  Region& r = std::prev(it)->second;
  return at < r.begin + r.written.size() ? &r : nullptr;
}

// A write to the copy of a block is one to the array, as far as the block lies in it.
void WriteWatch::mark_stage(Execution& ex, const Access& a, const Region& stage, const std::vector<ByteRun>& runs) {
  const Window& w = *stage.stage;
  const Thread& t = ex.threads[static_cast<size_t>(a.thread)];
  const auto array = regions_.find(t.bases[w.buffer]);
  if (array == regions_.end()) return;
  int64_t place[2 * memory::kMaxRank];
  for (uint32_t d = 0; d < w.places(); ++d) place[d] = t.slot<int64_t>(w.index_slots + 16 * d);
  for (const ByteRun& run : runs)
    for (const std::byte* at = run.begin; at < run.end; at += w.element_bytes) {
      int64_t rest = (at - stage.begin) / w.element_bytes, element = 0;
      bool inside = true;
      for (size_t d = 0; d < w.dims.size(); ++d) {
        const int64_t in_block = rest / w.block_strides[d], i = place[d] + in_block;
        rest %= w.block_strides[d];
        inside = inside && i >= 0 && i < w.dims[d] && in_block < w.extent_at(place, d);
        element += i * w.strides[d];
      }
      if (!inside) continue;
      for (int b = 0; b < w.element_bytes; ++b) array->second.written[static_cast<size_t>(element * w.element_bytes + b)] = true;
    }
}

void WriteWatch::touch(Execution& ex, const Access& a, Region& r, const std::vector<ByteRun>& runs) {
  bool any = false;
  for (const ByteRun& run : runs) {
    const auto begin = run.begin - r.begin, end = std::min<std::ptrdiff_t>(run.end - r.begin, static_cast<std::ptrdiff_t>(r.written.size()));
    if (begin < 0) return;
    if (a.write) std::fill(r.written.begin() + begin, r.written.begin() + std::max(begin, end), !a.unwritten);
    else any = any || std::find(r.written.begin() + begin, r.written.begin() + std::max(begin, end), true) != r.written.begin() + std::max(begin, end);
  }
  if (a.write) {
    if (r.stage && !a.unwritten) mark_stage(ex, a, r, runs);
    return;
  }
  if (any && !r.stage) return report_part(ex, a, r, runs);
  // In the copy of a block parts that nobody wrote are ordinary: the block ends at the array's edge.
  if (any || !reported_.insert(r.name).second) return;
  const bool output = r.output || r.stage;
  ir::Diagnostic d = diagnostic_at(ex.threads[static_cast<size_t>(a.thread)], a.step, "PS-UNINIT-001",
                                   fmt::format("{} is read before anybody wrote to it", r.name));
  d.severity = ir::Severity::Warning;
  d.numbers.push_back(output ? "an output begins with whatever memory held" : "scratch memory begins with whatever it held before");
  d.hint = "set it first, at the first grid point that uses it: @pl.when(pl.program_id(0) == 0)";
  findings_.push_back(std::move(d));
}

// Some elements of what is read were never written. A kernel may well throw them away: a note.
void WriteWatch::report_part(Execution& ex, const Access& a, const Region& r, const std::vector<ByteRun>& runs) {
  const std::string key = "part of " + r.name;
  if (reported_.count(key)) return;
  int64_t all = 0, missing = 0, first = -1;
  for (const ByteRun& run : runs)
    for (const std::byte* at = run.begin; at < run.end; at += a.element_bytes, ++all) {
      const auto byte = static_cast<size_t>(at - r.begin);
      if (byte >= r.written.size() || r.written[byte]) continue;
      ++missing;
      if (first < 0) first = static_cast<int64_t>(byte) / a.element_bytes;
    }
  if (missing == 0) return;
  reported_.insert(key);
  ir::Diagnostic d = diagnostic_at(ex.threads[static_cast<size_t>(a.thread)], a.step, "PS-UNINIT-002",
                                   fmt::format("{} of {} elements that are read from {} were never written", missing, all, r.name));
  d.severity = ir::Severity::Note;
  if (!r.dims.empty()) d.numbers.push_back(fmt::format("the first is {}", index_text(first, r.dims)));
  d.hint = "they hold whatever memory held: nothing that is kept may depend on them";
  findings_.push_back(std::move(d));
}

void WriteWatch::on_access(Execution& ex, const Access& a) {
  if (!tracking_) track(ex);
  const std::byte* at = address(ex, a);
  Region* r = region_of(at);
  if (r) touch(ex, a, *r, byte_runs(at, a.dims, a.strides, a.rank, a.element_bytes));
}

void WriteWatch::finish(Execution& ex, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
  const bool ended = !ex.threads.empty() && std::all_of(ex.threads.begin(), ex.threads.end(), [](const Thread& t) { return t.stop == Stop::Done; });
  if (!ended) return;
  if (!tracking_) track(ex);
  for (const auto& [at, r] : regions_) {
    if (!r.output) continue;
    const int64_t size = r.output->element_bytes, n = static_cast<int64_t>(r.written.size()) / size;
    int64_t missing = 0, first = -1;
    for (int64_t i = 0; i < n; ++i)
      if (!r.written[static_cast<size_t>(i * size)]) missing += 1, first = first < 0 ? i : first;
    if (missing == 0) continue;
    ir::Diagnostic d;
    d.code = "PS-OUT-001";
    d.severity = ir::Severity::Warning;
    d.kernel = plan_.module.name;
    d.message = missing == n ? fmt::format("nothing of output {} was written", r.name) : fmt::format("{} of {} elements of output {} were never written", missing, n, r.name);
    if (missing < n) d.numbers.push_back(fmt::format("the first is {}", index_text(first, r.output->dims)));
    d.hint = "they hold whatever memory held; do the blocks of the grid cover the array, and does every path store?";
    out.push_back(std::move(d));
  }
}

}  // namespace pallasim::interp
