// The executable form: flat steps over a per-thread arena of slots. A slot holds a scalar in its compute type or a
// byte offset, never a pointer, so a thread copies as bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "pallasim/interp/kernels.h"
#include "pallasim/ir/module.h"
#include "pallasim/memory/address.h"

namespace pallasim::interp {

class Plan;
struct Body;
struct Execution;
struct Step;
struct StepForm;
struct Thread;
enum class Kind : uint8_t;  // kinds.h

// Returns the next step, or nullptr with thread.stop set.
using StepFn = const Step* (*)(Thread&, const Step*);
// The same in a run of steps; the value is what the scalar step before it made, its bytes in the lowest ones.
using ThreadedFn = const Step* (*)(Thread&, const Step*, uint64_t value);

struct Step {
  StepFn fn = nullptr;
  ThreadedFn threaded = nullptr;          // where scalar steps run by themselves (scalar_forms.h)
  const void* payload = nullptr;          // owned by the plan: a PayloadOf<kind> (kinds.h), or nothing
  uint32_t dst = 0, a = 0, b = 0, c = 0;  // slots, or whatever the kind's row says
  int64_t imm = 0;
  const Step* jump = nullptr;  // target of a branch
  int32_t id = 0;              // position in the plan
  Kind kind{};
  bool adds = false;               // to what lies in memory
  const StepForm* form = nullptr;  // which body of its kind it has; null where the kind has one
};

using memory::Addr;

// What happens to a loop whose trips have no order.
enum class Trips : uint8_t { Begin, Next, End };

// Paused: by a debugger, within a turn that goes on later as if nothing had been.
enum class Stop : uint8_t { None, Done, Blocked, Yielded, Paused };

// What a blocked thread waits for.
struct Wait {
  enum class Kind : uint8_t {
    None,
    Semaphore,  // until its count is `value`
    Barrier,    // until its phase `value` has ended
    Group,      // until all but `value` of its groups are complete
    Join,       // until none of the thread's children runs any more; `value` of them did when it began to wait
  };
  Kind kind = Kind::None;
  int64_t object = -1;  // id in State::semaphores, ::barriers or ::streams
  int64_t value = 0;
  bool reads = false;  // Group: as far as their reads go
  bool operator==(const Wait&) const = default;
};

// Where the host has a thread's memory.
struct ThreadBinding {
  std::byte* arena = nullptr;         // null: it has none, as it did not begin or has ended
  std::byte* const* bases = nullptr;  // by buffer index; bases[0] == arena
  Execution* exec = nullptr;
  std::byte* strips = nullptr;  // scratch registers of the OS thread that runs this one
};

// One emulated hardware thread but for its slots, which are bytes of an arena.
struct ThreadState {
  const Step* pc = nullptr;
  // Of runs of steps (scalar_forms.h): bytes of steps that they may still jump back over before the engine looks for
  // requests to stop, the last step, and what that one hands to the step at which the engine goes on.
  int64_t left = 0;
  const Step* last = nullptr;
  uint64_t handed = 0;
  const Body* body = nullptr;  // what it runs
  Wait wait;                   // Blocked: what is awaited
  uint32_t temps = 0;          // the buffer of its own temporaries
  int64_t point = -1;    // of a program: its grid point, or its cluster's place, row-major; -1: it runs the whole box
  int32_t index = 0;     // in Execution::threads
  int32_t unit = 0;      // whose place it has among Execution::units: its own, or that of its eldest parent
  int32_t home = -1;     // the arena that it has or had last: a place among Execution::arenas; -1: none yet, or no more
  int32_t parent = -1;   // who spawned it: an index in Execution::threads
  int32_t children = 0;  // of those it spawned, how many run
  int32_t warp = -1;     // which warp of its warpgroup it is; -1: all of them
  int64_t issued = 0;    // asynchronous operations that it started
  Stop stop = Stop::None;
  bool operator==(const ThreadState&) const = default;
};

struct Thread : ThreadBinding, ThreadState {
  template <typename T>
  T& slot(uint32_t s) const {
    return *reinterpret_cast<T*>(arena + s);
  }
  std::byte* resolve(const Addr& a) const {
    return bases[a.buffer] + a.offset + (a.dyn == Addr::kNoSlot ? 0 : slot<int64_t>(a.dyn));
  }
};

// Registers lie a little over 4 KiB apart, so that equal positions do not fall on one cache set.
inline constexpr int kStripBytes = kStrip * 8 + 128;
inline constexpr int kMaxEntries = 64;  // pointer table of one strip program

}  // namespace pallasim::interp
