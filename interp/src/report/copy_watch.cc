// Checked runs: accesses to memory that an asynchronous copy still uses.
#include <fmt/format.h>

#include <algorithm>

#include "checked.h"
#include "../ops/bodies.h"
#include "report.h"

namespace pallasim::interp {

std::vector<ByteRun> byte_runs(const std::byte* at, const int64_t* dims, const int64_t* strides, int rank, int element_bytes) {
  // Minor dimensions that follow each other without gaps are one run.
  int64_t length = element_bytes;
  int outer = rank;
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] * element_bytes == length)) length *= dims[--outer];
  int64_t count = 1;
  for (int d = 0; d < rank; ++d)
    if (dims[d] <= 0) return {};
  for (int d = 0; d < outer; ++d) count *= dims[d];
  std::vector<ByteRun> r;
  r.reserve(static_cast<size_t>(count));
  int64_t index[memory::kMaxRank] = {};
  for (int64_t n = 0; n < count; ++n) {
    int64_t element = 0;
    for (int d = 0; d < outer; ++d) element += index[d] * strides[d];
    const std::byte* begin = at + element * element_bytes;
    if (!r.empty() && r.back().end == begin) r.back().end += length;
    else r.push_back({begin, begin + length});
    for (int d = outer; d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
  if (!std::is_sorted(r.begin(), r.end(), [](const ByteRun& a, const ByteRun& b) { return a.begin < b.begin; }))
    std::sort(r.begin(), r.end(), [](const ByteRun& a, const ByteRun& b) { return a.begin < b.begin; });
  return r;
}

bool overlap(const std::vector<ByteRun>& a, const std::vector<ByteRun>& b) {
  if (a.empty() || b.empty() || a.back().end <= b.front().begin || b.back().end <= a.front().begin) return false;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end <= b[j].begin) ++i;
    else if (b[j].end <= a[i].begin) ++j;
    else return true;
  }
  return false;
}

void CopyWatch::on_copy(Execution& ex, const memory::AsyncCopy& c, const Step& s) {
  auto runs = [&](const memory::Place& p, const int64_t* dims, const int64_t* strides) {
    const std::byte* at = ex.threads[static_cast<size_t>(p.thread)].bases[p.buffer] + p.offset;
    return byte_runs(at, dims, strides, c.rank, ir::byte_size(c.dtype));
  };
  flights_.push_back({&s, c.src_sem, c.dst_sem, c.src_count, c.dst_count, runs(c.src, c.dims, c.src_strides),
                      runs(c.dst, c.dst_dims(), c.dst_strides)});
}

void CopyWatch::on_taken(Execution&, int64_t semaphore, int64_t amount) {
  auto take = [&](int64_t sem, int64_t* owed) {
    if (sem != semaphore) return;
    const int64_t n = std::min(amount, *owed);
    amount -= n;
    *owed -= n;
  };
  for (Flight& f : flights_) {
    take(f.src_sem, &f.src_owed);
    take(f.dst_sem, &f.dst_owed);
  }
  std::erase_if(flights_, [](const Flight& f) { return f.dst_owed <= 0; });
}

void CopyWatch::on_access(Execution& ex, const Access& a) {
  if (flights_.empty()) return;
  const std::byte* at = address(ex, a);
  const std::vector<ByteRun> runs = byte_runs(at, a.dims, a.strides, a.rank, a.element_bytes);
  for (const Flight& f : flights_) {
    if (overlap(runs, f.dst)) report(ex, a, f, true);
    else if (a.write && f.src_owed > 0 && overlap(runs, f.src)) report(ex, a, f, false);
  }
}

void CopyWatch::report(Execution& ex, const Access& a, const Flight& f, bool dst) {
  if (!reported_.insert({f.step, a.step}).second) return;
  const SideNames copy = f.step->info->starts(*f.step);
  const std::string& name = dst ? copy.writes : copy.reads;
  const bool by_copy = a.step->info->starts != nullptr;
  const char* what = a.write ? "written" : "read";
  ir::Diagnostic d = diagnostic_at(
      ex.threads[static_cast<size_t>(a.thread)], a.step, "PS-RACE-001",
      fmt::format("{} is {}{} while a copy that nobody awaited yet {} it", name.empty() ? "memory" : name, what, by_copy ? " by a copy" : "",
                  dst ? "writes" : "reads"));
  d.severity = ir::Severity::Warning;
  ir::Site side = ir::site_of(plan_.module, f.step->loc);
  side.what = "the copy was started here";
  d.also.push_back(std::move(side));
  d.numbers.push_back(fmt::format("the copy moves {} to {}, {} bytes of it are not awaited", copy.reads.empty() ? "a ref" : copy.reads,
                                  copy.writes.empty() ? "a ref" : copy.writes, dst ? f.dst_owed : f.src_owed));
  d.hint = dst ? "wait for the copy before its destination is used; another slot of the buffer may be meant"
               : "wait for the copy before its source is changed; another slot of the buffer may be meant";
  findings_.push_back(std::move(d));
}

void CopyWatch::finish(Execution&, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
