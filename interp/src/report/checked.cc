// Checked runs: traffic per ref.
#include "checked.h"

#include <fmt/format.h>

#include <algorithm>

#include "../ops/bodies.h"
#include "pallasim/hw/machine.h"
#include "report.h"

namespace pallasim::interp {

TrafficDetector::TrafficDetector(const Plan& plan) : traffic(plan.module.operands.size()) {
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
void TrafficDetector::on_launch(const LaunchEvent&) {
  for (const Window& w : ex().plan->first().windows) {
    if (!w.map.index.empty()) continue;
    const std::vector<int64_t> origin(w.places(), 0);
    for (const Thread& t : ex().threads)
      if (t.arena) shows(ex().core_of(t), w, origin.data());
  }
}

void TrafficDetector::on_window(const WindowEvent& e) {
  const Thread& t = thread(e.thread);
  for (const Window& w : t.body->windows)
    if (static_cast<size_t>(w.operand) == e.operand) return shows(ex().core_of(t), w, e.place);
}

void TrafficDetector::shows(int core, const Window& w, const int64_t* place) {
  if (!is_moved(*ex().plan, w)) return;
  std::vector<int64_t> now(place, place + w.places());
  const auto [at, first] = shown_.try_emplace({core, &w});
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

void TrafficDetector::write_back(const Window& w, const std::vector<int64_t>& place) {
  Traffic& of = traffic[static_cast<size_t>(w.operand)];
  ++of.write_backs;
  of.bytes_written_back += block_bytes(w, place.data());
}

void TrafficDetector::finish(std::vector<ir::Diagnostic>&) {
  for (const auto& [which, place] : shown_)
    if (which.second->is_output) write_back(*which.second, place);
}

void TrafficDetector::see(Seen& seen) { count(seen.access); }

void TrafficDetector::count(const Access& a) {
  if (a.unwritten) return;
  int64_t bytes = a.element_bytes;
  for (int d = 0; d < a.rank; ++d) bytes *= a.dims[d];
  count(a.buffer, a.offset, a.write, bytes, a.boxes);
}

void TrafficDetector::count(uint32_t buffer, int64_t offset, bool write, int64_t bytes, int64_t boxes) {
  size_t i = buffer - kFirstOperandBuffer;
  if (buffer == kTempBuffer) {
    i = traffic.size();
    for (const Stage& s : stages_)
      if (offset >= s.begin && offset < s.end) i = s.operand;
  }
  if (i >= traffic.size()) return;
  Traffic& t = traffic[i];
  (write ? t.writes : t.reads) += boxes;
  (write ? t.bytes_written : t.bytes_read) += bytes * boxes;
}

}  // namespace pallasim::interp
