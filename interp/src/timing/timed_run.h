// A run in virtual time: who has the smallest clock goes on, and what is under way ends when its time has come.
#pragma once
#include <vector>

#include "clocks.h"

namespace pallasim::interp {

struct TimedRun {
  std::vector<bool> skips;  // by step: what only makes values
  int64_t most_steps = 0;   // 0: no limit; beyond it PS-LIVE-002
  // Where programs are alike: whether those of an SM end together, so that the last ones of a grid go to whole SMs and
  // others stay empty, or whether each SM has as many of the last ones as others. As it comes: whoever ends takes one.
  enum class Ends { AsItComes, Together, Spread } ends = Ends::AsItComes;
};
// Steps that make values and nothing that anybody goes by: control, addresses and synchronisation do without them.
std::vector<bool> value_steps(const Plan&);

// All threads of `exec` to their end. Throws PS-DEAD-001 where nobody can go on, and what steps throw.
void run_timed(Execution& exec, Clocks&, const TimedRun&);

}  // namespace pallasim::interp
