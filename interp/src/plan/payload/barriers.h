// Barriers.
#pragma once
#include "../step.h"
#include "units.h"

namespace pallasim::interp {

// A barrier of the thread's own block, and what an operation brings to it.
struct BarrierPayload {
  int block = -1;     // index into PlanMemory::barriers
  Addr index;         // offset and dyn count barriers, not bytes
  uint32_t seen = 0;  // first of i64 slots, one per barrier of the block: phases whose ends the thread saw
  // Of a spawned thread: what it saw besides, in its parent's i64 slots, child by child: a warp keeps what it saw from
  // one spawn to the next, and sees what its warpgroup does, too.
  uint32_t besides = Addr::kNoSlot;
  int64_t count = 1;  // of arrivals
  struct Bytes {
    int64_t fixed = 0;
    uint32_t slot = Addr::kNoSlot;  // i32 slot where they are known at run time only
  } expects, brings;                // that the phase waits for, too; that came
  bool polls = false;               // a look in a loop that may wait for a change
  UnitSet reaches;                  // whose barriers an arrival goes to
  // Of a named barrier: arrivals of warps that a phase takes, 0: it is none. `sees`: the arrival is of the phase whose
  // end the thread then waits for.
  int64_t takes = 0;
  bool sees = false;
};

}  // namespace pallasim::interp
