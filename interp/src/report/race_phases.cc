// Checked runs: a phase of a barrier that may end before somebody saw the end of the one before, in another schedule.
#include <fmt/format.h>

#include <algorithm>

#include "../plan/kinds.h"
#include "causes.h"
#include "race_detector.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {
namespace {

// The first step that waits for, or arrives at, barriers of the block; null where none does.
const Step* step_with(const Plan& plan, int block, bool waits) {
  for (const Step& s : plan.steps) {
    if (plan.loc_of(s) < 0) continue;
    for (const SyncUse& u : sync_uses(s)) {
      const bool looks = u.role == SyncUse::Role::Await || u.role == SyncUse::Role::Poll;
      if (u.object == Wait::Kind::Barrier && u.block == block && looks == waits) return &s;
    }
  }
  return nullptr;
}

}  // namespace

// Whether products run on the tensor pipe. Their commits arrive behind the wait of who issued them, which the order of
// threads does not show: nothing is said of such kernels' phases.
static bool has_tensor_products(const Plan& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.kind == Kind::tcgen05_mma; });
}

// A waiter knows a phase by its parity: it has to see the end of each before the next one ends, in every schedule.
void RaceDetector::check_phase(int64_t barrier) {
  const Execution& ex = this->ex();
  const std::vector<int32_t> late = order_.may_miss(barrier);
  if (late.empty() || ex.barriers[barrier].named || has_tensor_products(plan_)) return;
  int block = -1;
  const std::string name = object_name(ex, Wait::Kind::Barrier, barrier, &block);
  if (!missed_.insert(block).second) return;
  const Thread& waiter = thread(late.front());
  const Step* wait = step_with(plan_, block, true);
  const Step* arrival = step_with(plan_, block, false);
  if (!wait) return;
  const int64_t phase = ex.barriers[barrier].phase - 1;
  ir::Diagnostic d = diagnostic_at(waiter, wait, "PS-BAR-002",
                                   fmt::format("phase {} of {} may end before {} sees the end of phase {}", phase, name,
                                               name_of(waiter), phase - 1));
  d.site.what = "the wait is here";
  if (arrival) {
    ir::Site side = ir::site_of(*ex.locs, plan_.loc_of(*arrival));
    side.what = "an arrival is here";
    d.also.push_back(std::move(side));
  }
  d.numbers.push_back(
      "no arrival of the later phase has to come behind the wait: another schedule ends both before it");
  d.hint =
      "who arrives for the next phase has to know that all who wait saw the end of this one: by a barrier that they "
      "arrive at behind their wait; another slot or phase may be meant";
  d.about.push_back(about_barriers(block));
  findings_.push_back({std::move(d), {about_barriers(block)}});
}

}  // namespace pallasim::interp
