#include "pipeline_detector.h"

#include <fmt/format.h>

#include <algorithm>

#include "../ops/bodies.h"
#include "pallasim/hw/machine.h"
#include "report.h"

namespace pallasim::interp {
namespace {

// How many blocks of a window the core holds at a time.
int64_t copies_of(const ir::Operand& o, const hw::MachineModel& m) {
  if (const ir::Attr* mode = ir::find(o.attrs, "pipeline"); mode && mode->is_call("buffered") && !mode->items.empty())
    return std::max<int64_t>(mode->items[0].i, 1);
  return m.window_copies;
}

std::string tuple(const std::vector<int64_t>& x) {
  return fmt::format("({}{})", fmt::join(x, ", "), x.size() == 1 ? "," : "");
}

}  // namespace

PipelineDetector::PipelineDetector(const Plan& plan, FlightDetector& flights) : plan_(plan), flights_(flights) {
  const hw::MachineModel& m = *plan.first().model;
  // Windows that the engine copies are looked at as copies.
  if (!m.grid_pipeline || !m.in_order() || !plan.module.meshes.empty() || plan.module.bodies.size() != 1) return;
  const int inputs = static_cast<int>(plan.module.operands.size()) - plan.module.count(ir::Operand::Kind::Output);
  for (const Window& w : plan.first().windows) {
    const ir::Operand& o = plan.module.operands[static_cast<size_t>(w.operand)];
    if (w.map.index.empty() || w.modelled() || ir::is_sync(w.dtype) || m.spaces[o.space].owner != ir::Scope::Thread)
      continue;
    windows_[static_cast<size_t>(w.operand)] = {&w, copies_of(o, m), -1};
  }
  for (const ir::Alias& a : plan.module.aliases)
    if (const auto in = windows_.find(static_cast<size_t>(a.input)),
        out = windows_.find(static_cast<size_t>(inputs + a.output));
        in != windows_.end() && out != windows_.end())
      in->second.partner = inputs + a.output;
}

void PipelineDetector::on_point(const PointEvent& e) {
  Step& s = steps_[e.thread];
  ++s.number;
  s.point.assign(e.ids.begin(), e.ids.end());
}

void PipelineDetector::on_window(const WindowEvent& e) {
  const auto of = windows_.find(e.operand);
  if (of == windows_.end()) return;
  const Moved& m = of->second;
  const Window& w = *m.window;
  const memory::Clip c = ops::clip_window(w, e.place);
  if (c.empty) return;
  std::deque<Block>& shown = shown_[{e.thread, e.operand}];
  const std::vector<int64_t> place(e.place, e.place + w.places());
  const Step& now = steps_[e.thread];
  if (!shown.empty() && shown.back().place == place) {
    shown.back().last = now.number;
    return;
  }
  Block block{place,
              memory::shadow::Box(c.array_offset * w.element_bytes, c.count, w.strides.data(),
                                  static_cast<int>(w.dims.size()), w.element_bytes),
              now.number, now.number, now.point};
  // The slot that the next fetch, or the kernel's next writes, go to.
  if (const int64_t held = std::max<int64_t>(m.copies, 2); std::ssize(shown) >= held - 1)
    flights_.refilled(w, shown[shown.size() - static_cast<size_t>(held - 1)].box, e.thread);
  if (m.partner >= 0) fetched(e, m, block);
  shown.push_back(std::move(block));
  if (shown.size() > kMostKept) shown.pop_front();
}

// A fetch begins while the steps run for which the core holds further blocks; what an output's block holds has arrived
// in the array when its slot is needed again.
void PipelineDetector::fetched(const WindowEvent& e, const Moved& m, const Block& block) {
  const auto partner = static_cast<size_t>(m.partner);
  if (findings_.count(e.operand)) return;
  const auto of = shown_.find({e.thread, partner});
  if (of == shown_.end()) return;
  const int64_t settled = block.first - (m.copies - 1) - windows_.at(partner).copies;
  for (const Block& written : of->second)
    if (written.first < block.first && written.last > settled && overlap(written.box, block.box))
      return report(e, block, written);
}

void PipelineDetector::report(const WindowEvent& e, const Block& fetched, const Block& written) {
  const ir::Module& m = plan_.module;
  const ir::Operand &in = m.operands[e.operand], &out = m.operands[static_cast<size_t>(windows_[e.operand].partner)];
  const auto line = [&](const ir::Operand& o) {
    return o.index_map && !o.index_map->region.ops.empty() ? o.index_map->region.ops.back().loc : ir::LocId{-1};
  };
  ir::Diagnostic d = diagnostic_at(
      thread(e.thread), line(in), "PS-PIPE-002",
      fmt::format("a block of {} is fetched around the write-back of {}, which is the same memory", in.name, out.name));
  if (ir::Site side = ir::site_of(*ex().locs, line(out)); line(out) >= 0) {
    side.what = fmt::format("the blocks of {}", out.name);
    d.also.push_back(std::move(side));
  }
  d.numbers.push_back(
      fmt::format("{} has the block from element {} on at grid point {}, {} wrote to it until {} step{} "
                  "before",
                  in.name, tuple(fetched.place), tuple(fetched.point), out.name,
                  std::max<int64_t>(fetched.first - written.last, 0), fetched.first - written.last == 1 ? "" : "s"));
  d.numbers.push_back(
      fmt::format("the core holds {} blocks of {} and {} of {}: the fetch begins before that block is "
                  "back, or while it goes",
                  windows_[e.operand].copies, in.name,
                  windows_.at(static_cast<size_t>(windows_[e.operand].partner)).copies, out.name));
  d.hint = "keep what a later step needs in scratch memory, or give the input an array that is not aliased";
  findings_.emplace(e.operand, std::move(d));
  order_.push_back(e.operand);
}

void PipelineDetector::finish(std::vector<ir::Diagnostic>& out) {
  for (auto& [operand, d] : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
