// A thread's turn.
#include <algorithm>

#include "../plan/scalar_forms.h"
#include "engine.h"
#include "footprint_judge.h"

namespace pallasim::interp {

namespace {

// A step may be a product of large matrices: few of them between looks at the user's Ctrl-C.
constexpr int64_t kStepsPerLook = 16;

template <bool joined, bool watched, bool judged>
Stop run_steps(Execution& ex, Thread& t, int64_t budget) {
  const Step* s = t.pc;
  t.stop = Stop::None;
  constexpr int64_t kMayJump = kJumpedSteps * static_cast<int64_t>(sizeof(Step));
  int64_t left = budget, n = 0;
  const uint64_t epoch = ex.host.interrupt_epoch;
  // Each run counts as the step where it ends. Those before that are counted here: by how far behind the first one it
  // is, and by how far runs jumped back.
  int64_t before = 0;  // bytes of steps
  const auto look = [&] {
    const int64_t more = joined ? (before + kMayJump - t.left) / static_cast<int64_t>(sizeof(Step)) : 0;
    before = 0;
    t.left = kMayJump;
    ex.steps += more;
    left -= more;
  };
  t.left = kMayJump;
  try {
    while (left > 0 && g_interrupt_epoch.load(std::memory_order_relaxed) == epoch) {
      n = std::min<int64_t>(left, kStepsPerLook);
      left -= n;
      ex.steps += n;
      do {
        if constexpr (watched) ex.events->step(t, *s);
        const Step* next = joined ? s->threaded(t, s, t.handed) : judged ? run_judged(t, s) : s->fn(t, s);
        if constexpr (joined)
          before += reinterpret_cast<const std::byte*>(t.last) - reinterpret_cast<const std::byte*>(s);
        if (!next) {
          look();
          ex.steps -= n - 1;
          return t.stop;
        }
        s = next;
      } while (--n > 0);
      look();
    }
  } catch (...) {
    look();
    ex.steps -= n - 1;
    t.pc = s;
    throw;
  }
  t.pc = s;
  return Stop::None;
}

}  // namespace

Stop run(Execution& ex, Thread& t, int64_t budget) {
  if (ex.joined) return run_steps<true, false, false>(ex, t, budget);  // runs tell where they end
  if (ex.options->verify_footprints) return run_steps<false, true, true>(ex, t, budget);
  return ex.observed ? run_steps<false, true, false>(ex, t, budget) : run_steps<false, false, false>(ex, t, budget);
}

}  // namespace pallasim::interp
