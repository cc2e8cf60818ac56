#include "lane_detector.h"

#include <fmt/format.h>

#include "../ops/meeting_lanes.h"
#include "../plan/payload/movement.h"
#include "pallasim/hw/machine.h"
#include "race_words.h"
#include "report.h"

namespace pallasim::interp {

LaneDetector::LaneDetector(const Plan& p) : looks_(p.first().model->spaces.has(hw::BlockAccess::Pointer)) {}

void LaneDetector::on_step(const StepEvent& e) {
  const Step& s = step(e.step);
  if ((s.kind != Kind::gather && s.kind != Kind::store_rows) || findings_.count(s.id)) return;
  Thread& t = ex().threads[static_cast<size_t>(e.thread)];
  const std::optional<ops::MeetingLanes> lanes = ops::meeting_lanes(t, s);
  if (!lanes) return;
  const GatherPayload& p = s.kind == Kind::gather ? payload<Kind::gather>(s) : payload<Kind::store_rows>(s).access;
  const std::string name = p.name.empty() ? "memory" : p.name;
  ir::Diagnostic d = diagnostic_at(
      t, &s, "PS-RACE-005", fmt::format("lanes of one store write different values to the same element of {}", name));
  const std::string at = elements_text(*ex().plan, p.ref.buffer, {lanes->offset, lanes->offset + p.size});
  d.numbers.push_back(fmt::format("lanes {} and {} write {}{}", index_text(lanes->first, p.dims),
                                  index_text(lanes->second, p.dims), at.empty() ? "one element" : at,
                                  lanes->elements > 1 ? fmt::format(", {} pairs do so", lanes->elements) : ""));
  d.numbers.push_back("which of them stays is not defined");
  d.hint = "mask all lanes but one, or add atomically: plgpu.atomic_add";
  findings_.emplace(s.id, std::move(d));
  order_.push_back(s.id);
}

void LaneDetector::finish(std::vector<ir::Diagnostic>& out) {
  for (auto& [step, d] : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
