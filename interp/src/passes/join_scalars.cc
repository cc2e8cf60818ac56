// Scalar steps behind each other run by themselves (plan/scalar_forms.h): Step::threaded of all steps.
#include <algorithm>

#include "../plan/plan.h"
#include "../plan/scalar_forms.h"
#include "../plan/steps.h"
#include "pallasim/interp/rewrites.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

bool is_scalar(const Step& s) { return s.form && s.form->scalar; }

// Which operands of `s` are what the step before it made, whichever step that is; bits as in ScalarForms::threaded.
unsigned handed_over(const std::vector<const Step*>& before, const std::vector<bool>& ends, const Step& s) {
  const ScalarForms& to = *s.form->scalar;
  const std::array<uint32_t, 2> slots = to.operands(s);
  unsigned given = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (!before.empty() && std::all_of(before.begin(), before.end(), [&](const Step* b) {
          return !ends[static_cast<size_t>(b->id)] && is_scalar(*b) && b->dst == slots[i] &&
                 to.takes[i] <= b->form->scalar->gives;
        }))
      given |= 1U << i;
  return given;
}

}  // namespace

int64_t join_scalars(Plan& p) {
  std::vector<Step>& steps = p.steps;
  p.joined = true;
  std::vector<std::vector<const Step*>> before(steps.size() + 1);
  for (const Step& s : steps)
    for (const int32_t next : successors(s)) before[static_cast<size_t>(next)].push_back(&s);
  std::vector<bool> ends(steps.size());  // where the engine goes on
  int64_t following = 0, values = 0;
  int length = 0;  // of the run that ends before the step
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& s = steps[i];
    // What jumps hands over to steps before it, too, and is no end.
    if (!is_scalar(s) || (length >= kLongestRun && !s.jump && row(s).flow == Flow::Next)) {
      s.threaded = p.observed_threads ? p.functions->end_observed : p.functions->end_threaded;
      ends[i] = true;
      length = 0;
      continue;
    }
    const unsigned given = handed_over(before[i], ends, s);
    s.threaded = s.form->scalar->threaded[given];
    following += length++ > 0;
    values += given != 0;
  }
  count(Rewrite::FollowingScalar, following);
  count(Rewrite::HandedOver, values);
  return following;
}

}  // namespace pallasim::interp::passes
