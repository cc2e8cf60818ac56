// Listeners of checked runs: traffic per ref, and whether `parallel` axes keep their promise.
#include "checked.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "../ops/bodies.h"
#include "pallasim/hw/machine.h"
#include "report.h"

namespace pallasim::interp {

TrafficListener::TrafficListener(const Plan& plan) : traffic(plan.module.operands.size()) {
  for (size_t i = 0; i < traffic.size(); ++i) traffic[i].name = plan.module.operands[i].name;
}

void TrafficListener::on_access(Execution& ex, const Access& a) {
  if (a.unwritten) return;
  size_t i = a.buffer - kFirstOperandBuffer;
  if (a.buffer == kTempBuffer) {
    // A staged window counts as its operand.
    i = traffic.size();
    for (const Window& w : ex.plan->windows) {
      int64_t bytes = w.element_bytes * std::max(w.slots, 1);
      for (int64_t n : w.extent) bytes *= n;
      if (w.staged && a.offset >= w.stage_offset && a.offset < w.stage_offset + bytes) i = static_cast<size_t>(w.operand);
    }
  }
  if (i >= traffic.size()) return;
  int64_t bytes = a.element_bytes;
  for (int d = 0; d < a.rank; ++d) bytes *= a.dims[d];
  Traffic& t = traffic[i];
  (a.write ? t.writes : t.reads) += 1;
  (a.write ? t.bytes_written : t.bytes_read) += bytes;
}

ParallelClaim::ParallelClaim(const Plan& plan) : plan_(plan), programs_(!plan.model->in_order()) {
  for (size_t g = 0; g < plan.module.grid.size(); ++g)
    if (programs_ ? !plan.concurrent : plan.module.grid[g].semantics == "parallel") axes_.push_back(g);
}

void ParallelClaim::on_grid_point(Execution& ex, const Thread& t, std::span<const int64_t> point) {
  const auto thread = static_cast<size_t>(t.index);
  if (thread >= units_.size()) units_.resize(thread + 1, 0);
  units_[thread] = 0;
  for (size_t g : axes_) units_[thread] = units_[thread] * ex.grid[g] + point[g];
}

// The operand, or the scratch, that the access is to; null where nobody else can share it.
ParallelClaim::Shadow* ParallelClaim::shadow_of(const Access& a) {
  const size_t operands = plan_.windows.size();
  if (a.buffer >= kFirstOperandBuffer) {
    const size_t i = a.buffer - kFirstOperandBuffer;
    if (i >= operands) return nullptr;
    Shadow& s = shadows_[{-1, i}];
    if (s.name.empty()) s.name = plan_.module.operands[static_cast<size_t>(plan_.windows[i].operand)].name;
    return &s;
  }
  size_t i = 0;
  for (const ir::Scratch& scratch : plan_.module.scratch) {
    if (ir::is_sync(scratch.type->dtype) || i >= plan_.poison.size()) continue;
    const Plan::Poison& p = plan_.poison[i++];
    if (a.offset < p.offset || a.offset >= p.offset + p.count * ir::byte_size(p.dtype)) continue;
    Shadow& s = shadows_[{a.owner < 0 ? a.thread : a.owner, operands + i}];
    s.name = scratch.name;
    s.begin = p.offset;
    return &s;
  }
  return nullptr;
}

void ParallelClaim::grow(const Execution& ex, Shadow* s, size_t marks) {
  if (marks <= s->marks.size()) return;
  marks_ += static_cast<int64_t>(marks - s->marks.size());
  const int64_t bytes = memory::mul(marks_, sizeof(Mark));
  if (bytes > ex.options->max_memory) {
    ir::Diagnostic d;
    d.code = "PS-SIZE-001";
    d.kernel = plan_.module.name;
    d.message = fmt::format("too much memory: what a checked run remembers of {}, {} bytes; the limit is {}", s->name, bytes,
                            ex.options->max_memory);
    d.hint = "check a smaller case, or raise max_memory";
    throw ir::DiagnosticError(std::move(d));
  }
  s->marks.resize(marks);
}

// Marks of narrower elements than those seen before.
void ParallelClaim::refine(const Execution& ex, Shadow* s, int64_t grain) {
  if (s->grain == 0) s->grain = grain;
  if (s->grain % grain == 0 && s->grain != grain) {
    const auto parts = static_cast<size_t>(s->grain / grain);
    const size_t n = s->marks.size();
    grow(ex, s, n * parts);
    for (size_t i = n * parts; i-- > 0;) s->marks[i] = s->marks[i / parts];
    s->grain = grain;
  }
}

void ParallelClaim::on_access(Execution& ex, const Access& a) {
  if (axes_.empty()) return;
  Shadow* s = shadow_of(a);
  if (!s) return;
  refine(ex, s, std::gcd(a.element_bytes, (a.offset - s->begin) | a.element_bytes));
  int64_t index[16] = {};
  int64_t count = 1;
  for (int d = 0; d < a.rank; ++d) count *= a.dims[d];
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = a.offset - s->begin;
    for (int d = 0; d < a.rank; ++d) at += index[d] * a.strides[d] * a.element_bytes;
    const auto first = static_cast<size_t>(at / s->grain);
    const size_t end = first + static_cast<size_t>(a.element_bytes / s->grain);
    if (end > s->marks.size()) grow(ex, s, end);
    for (size_t m = first; m < end; ++m) mark(ex, a, *s, &s->marks[m]);
    for (int d = a.rank; d-- > 0;) {
      if (++index[d] < a.dims[d]) break;
      index[d] = 0;
    }
  }
}

void ParallelClaim::mark(Execution& ex, const Access& a, const Shadow& s, Mark* m) {
  const auto thread = static_cast<size_t>(a.thread);
  const int64_t unit = thread < units_.size() ? units_[thread] : 0;
  // Every core has scratch of its own: only a value carried from one coordinate to another tells.
  const bool operand = a.buffer >= kFirstOperandBuffer;
  const bool after_write = m->writer >= 0 && m->writer != unit && (operand || !a.write);
  const bool after_read = operand && a.write && m->reader >= 0 && m->reader != unit;
  if ((after_write || after_read) && reported_.insert(s.name).second)
    report(ex, a, s.name, after_write ? m->writer : m->reader, after_write ? m->written : m->read, after_write);
  (a.write ? m->writer : m->reader) = static_cast<int32_t>(unit);
  (a.write ? m->written : m->read) = a.step->loc;
}

void ParallelClaim::report(Execution& ex, const Access& a, const std::string& name, int64_t earlier, ir::LocId loc, bool wrote) {
  const Thread& t = ex.threads[static_cast<size_t>(a.thread)];
  std::string axes;
  for (size_t g : axes_) axes += (axes.empty() ? "" : ", ") + std::to_string(g);
  ir::Diagnostic d = diagnostic_at(
      t, a.step, programs_ ? "PS-PAR-002" : "PS-PAR-001",
      programs_ ? fmt::format("race: programs that run at once share elements of {}", name)
                : fmt::format("false parallel claim: grid points that differ on axis {} share elements of {}", axes, name));
  d.severity = ir::Severity::Warning;
  d.site.what = a.write ? "written here" : "read here";
  const std::string_view did = wrote ? "written" : "read";
  std::string other;
  for (size_t i = axes_.size(); i-- > 0;) {
    other = fmt::format("axis {} = {}{}", axes_[i], earlier % ex.grid[axes_[i]], other.empty() ? "" : ", " + other);
    earlier /= ex.grid[axes_[i]];
  }
  d.numbers.push_back(fmt::format("{} before by the {} with {}", did, programs_ ? "program" : "grid points", other));
  ir::Site side = ir::site_of(plan_.module, loc);
  side.what = fmt::format("and {} before here", did);
  d.also.push_back(side);
  d.hint = programs_ ? "give every program elements of its own, or use atomics; this run kept the order of the grid"
                     : "declare the axis arbitrary, or give each of its points a block of its own; this run kept the order of the grid";
  findings_.push_back(std::move(d));
}

void ParallelClaim::finish(Execution&, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
