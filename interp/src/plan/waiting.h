// Barriers, and threads that threads spawn: payloads and steps.
#pragma once
#include "cluster.h"
#include "payload.h"
#include "step_info.h"

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
  ClusterSet reaches;               // whose barriers an arrival goes to
  // Of a named barrier: arrivals of warps that a phase takes, 0: it is none. `sees`: the arrival is of the phase whose
  // end the thread then waits for.
  int64_t takes = 0;
  bool sees = false;
};

// Threads of a mesh inside a thread: they begin behind the step, with the scalars and refs of who spawns them.
struct SpawnPayload {
  std::vector<int64_t> extents;      // of the mesh's axes, row-major
  std::vector<uint32_t> axis_slots;  // i64, of a child: its place on each axis
  uint32_t temps = 0;                // the buffer of a child's own temporaries
  int64_t temp_bytes = 0;
  int64_t count() const {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return n;
  }
};

namespace ops {
extern const StepInfo kBarrierArrive, kBarrierWait, kBarrierTest, kNamedArrive;
// The forms of an arrival and of a wait: in runs of scalar steps where the barrier is the thread's own.
const StepInfo& arrival(const BarrierPayload&);
const StepInfo& passage(const BarrierPayload&);
// Payload BarrierPayload.
const Step* barrier_arrive(Thread&, const Step*);
const Step* named_arrive(Thread&, const Step*);  // at a named barrier
const Step* barrier_wait(Thread&, const Step*);
const Step* barrier_test(Thread&, const Step*);  // dst: bool slot: the phase ended, and now the thread saw it
extern const StepInfo kJoin;
const Step* spawn(Thread&, const Step*);  // payload SpawnPayload; jump: the join; the region lies between
const Step* join(Thread&, const Step*);   // until no child runs any more
}  // namespace ops

}  // namespace pallasim::interp
