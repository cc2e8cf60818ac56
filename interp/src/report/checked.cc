// Listeners of checked runs: traffic per ref, and whether `parallel` axes keep their promise.
#include "checked.h"

#include <fmt/format.h>

#include <algorithm>

#include "../ops/bodies.h"
#include "pallasim/hw/machine.h"
#include "report.h"

namespace pallasim::interp {

TrafficWatch::TrafficWatch(const Plan& plan) : traffic(plan.module.operands.size()) {
  for (size_t i = 0; i < traffic.size(); ++i) {
    traffic[i].name = plan.module.operands[i].name;
    traffic[i].space = ir::name(plan.module.operands[i].space);
  }
  for (const Window& w : plan.first().windows) {
    const Window::Stage* stage = w.stage();
    if (!stage) continue;
    int64_t bytes = w.element_bytes * (w.modelled() ? w.modelled()->slots : 1);
    for (int64_t n : w.map.extent) bytes *= n;
    stages_.push_back({stage->offset, stage->offset + bytes, static_cast<size_t>(w.operand)});
  }
}

namespace {

// Whether blocks of the operand go from the device's memory to a core's and back.
bool is_moved(const Plan& p, const Window& w) {
  const ir::Operand& o = p.module.operands[static_cast<size_t>(w.operand)];
  return p.first().model->in_order() && p.module.meshes.empty() && !ir::is_sync(w.dtype) &&
         o.kind != ir::Operand::Kind::Prefetch && (o.space == ir::Space::Vmem || o.space == ir::Space::Smem);
}

// As they lie in memory, without the padding of tiles.
int64_t block_bytes(const Window& w, const int64_t* place) {
  int64_t elements = 1;
  if (w.map.index.empty()) {  // the whole array
    for (const int64_t n : w.dims) elements = memory::mul(elements, n);
  } else {
    const memory::Clip c = ops::clip_window(w, place);
    if (c.empty) return 0;
    for (size_t d = 0; d < w.dims.size(); ++d) elements = memory::mul(elements, c.count[d]);
  }
  return (memory::mul(elements, ir::bit_width(w.dtype)) + 7) / 8;
}

}  // namespace

// Arrays that are given whole come in once and go back once.
void TrafficWatch::on_start(Execution& ex) {
  for (const Window& w : ex.plan->first().windows) {
    if (!w.map.index.empty()) continue;
    const std::vector<int64_t> origin(w.places(), 0);
    for (const Thread& t : ex.threads)
      if (t.arena) on_window(ex, t, w, origin.data());
  }
}

void TrafficWatch::on_window(Execution& ex, const Thread& t, const Window& w, const int64_t* place) {
  if (!is_moved(*ex.plan, w)) return;
  std::vector<int64_t> now(place, place + w.places());
  const auto [at, first] = shown_.try_emplace({ex.core_of(t), &w});
  if (!first && at->second == now) return;
  if (w.is_output) {
    if (!first) write_back(w, at->second);
  } else {
    Traffic& of = traffic[static_cast<size_t>(w.operand)];
    ++of.fetches;
    of.bytes_fetched += block_bytes(w, place);
  }
  at->second = std::move(now);
}

void TrafficWatch::write_back(const Window& w, const std::vector<int64_t>& place) {
  Traffic& of = traffic[static_cast<size_t>(w.operand)];
  ++of.write_backs;
  of.bytes_written_back += block_bytes(w, place.data());
}

void TrafficWatch::finish(Execution&, std::vector<ir::Diagnostic>&) {
  for (const auto& [which, place] : shown_)
    if (which.second->is_output) write_back(*which.second, place);
}

void TrafficWatch::see(Execution&, Seen& seen) {
  const Access& a = seen.access;
  if (a.unwritten) return;
  size_t i = a.buffer - kFirstOperandBuffer;
  if (a.buffer == kTempBuffer) {
    i = traffic.size();
    for (const Stage& s : stages_)
      if (a.offset >= s.begin && a.offset < s.end) i = s.operand;
  }
  if (i >= traffic.size()) return;
  int64_t bytes = a.element_bytes;
  for (int d = 0; d < a.rank; ++d) bytes *= a.dims[d];
  Traffic& t = traffic[i];
  (a.write ? t.writes : t.reads) += 1;
  (a.write ? t.bytes_written : t.bytes_read) += bytes;
}

ClaimWatch::ClaimWatch(const Plan& plan, const Options& o, Instances& instances)
    : plan_(plan), instances_(instances), programs_(!plan.first().model->in_order()), claims_(o.max_memory) {
  for (size_t g = 0; g < plan.module.grid.size(); ++g)
    if (programs_ ? !plan.threads.concurrent : plan.module.grid[g].semantics == "parallel") axes_.push_back(g);
}

void ClaimWatch::on_grid_point(Execution& ex, const Thread& t, std::span<const int64_t> point) {
  const auto thread = static_cast<size_t>(t.index);
  if (thread >= units_.size()) units_.resize(thread + 1, 0);
  units_[thread] = 0;
  for (size_t g : axes_) units_[thread] = units_[thread] * ex.grid[g] + point[g];
}

// Operands, and scratch: every core has its own, so that only a value carried from one coordinate to another tells.
void ClaimWatch::see(Execution& ex, Seen& seen) {
  const Access& a = seen.access;
  const bool operand = a.buffer >= kFirstOperandBuffer;
  if (operand && a.buffer - kFirstOperandBuffer >= plan_.module.operands.size()) return;
  if (!operand) {
    const memory::Allocation* scratch = plan_.memory.allocations.at(a.buffer, a.offset);
    if (!scratch || scratch->lifetime != memory::Allocation::Lifetime::Launch) return;
  }
  const auto thread = static_cast<size_t>(a.thread);
  const int64_t unit = thread < units_.size() ? units_[thread] : 0;
  const size_t before = claims_.found().size();
  const bool fits = claims_.access(unit, seen.shadow(), !operand);
  const std::string name =
      before < claims_.found().size() || !fits ? allocation_name(plan_, a.buffer, a.offset) : std::string();
  for (size_t i = before; i < claims_.found().size(); ++i)
    if (reported_.insert(name).second) report(ex, a, claims_.found()[i], unit, name);
  if (!fits) too_much_remembered(ex, name, claims_.limit()->bytes);
}

void ClaimWatch::report(Execution& ex, const Access& a, const memory::shadow::Shared& found, int64_t unit,
                        const std::string& name) {
  int64_t earlier = found.earlier.unit, now = unit;
  const Thread& t = ex.threads[static_cast<size_t>(a.thread)];
  std::string axes;
  for (size_t g : axes_) axes += (axes.empty() ? "" : ", ") + std::to_string(g);
  ir::Diagnostic d = diagnostic_at(
      t, a.loc, programs_ ? ir::Code("PS-PAR-002") : ir::Code("PS-PAR-001"),
      programs_
          ? fmt::format("race: programs that run at once share elements of {}", name)
          : fmt::format("false parallel claim: grid points that differ on axis {} share elements of {}", axes, name));
  d.site.what = a.write ? "written here" : "read here";
  const std::string_view did = found.earlier_wrote ? "written" : "read";
  std::string other, differing;
  for (size_t i = axes_.size(); i-- > 0;) {
    const int64_t n = ex.grid[axes_[i]];
    other = fmt::format("axis {} = {}{}", axes_[i], earlier % n, other.empty() ? "" : ", " + other);
    if (earlier % n != now % n) differing = fmt::format("{}{}", axes_[i], differing.empty() ? "" : ", " + differing);
    earlier /= n;
    now /= n;
  }
  d.numbers.push_back(fmt::format("{} before by the {} with {}", did, programs_ ? "program" : "grid points", other));
  ir::Site side = ir::site_of(plan_.module, instances_.line(plan_, found.earlier.site).loc);
  side.what = fmt::format("and {} before here", did);
  d.also.push_back(side);
  d.hint = programs_ ? "give every program elements of its own, or use atomics; this run kept the order of the grid"
                     : fmt::format(
                           "declare axis {} arbitrary, or give each of its points a block of its own; this run "
                           "kept the order of the grid",
                           differing);
  findings_.push_back(std::move(d));
}

void ClaimWatch::finish(Execution&, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
