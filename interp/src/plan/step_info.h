// What a step does that others reason about: reports, deadlocks, races and schedules ask this and never the function of
// a step.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "step.h"

namespace pallasim::interp {

struct ScalarForms;

// One use of a block of semaphores or barriers by a step.
struct SyncUse {
  enum class Role : uint8_t {
    Signal,   // adds to it
    Written,  // a copy that the step starts adds to it when its destination is written
    Read,     // … when its source was read
    Await,    // takes from it
    Poll,     // looks at it in a loop that may wait for a change
  };
  static constexpr int64_t kAnyBytes = -1;  // known at run time only
  Role role = Role::Signal;
  int block = -1;                             // index into PlanMemory::semaphores
  bool elsewhere = false;                     // names a core or a device: not the thread's own
  int64_t bytes = 0;                          // Await of a copy's bytes: how many; 0: a count
  Wait::Kind object = Wait::Kind::Semaphore;  // or Barrier: `block` is an index into PlanMemory::barriers
};

// The sides of an asynchronous operation that a step starts, as reports name them; empty names: no ref of the kernel.
struct SideNames {
  std::string reads, writes;
};

struct StepInfo {
  enum class Flow : uint8_t {
    Next,   // to the step behind it, or to its jump where it has one
    Jump,   // to its jump alone
    Table,  // to one of the steps that its payload lists, a std::vector<int32_t> of step ids
    End,    // nowhere
  };
  const char* name = "";
  StepFn fn = nullptr;
  Flow flow = Flow::Next;
  void (*sync)(const Step&, std::vector<SyncUse>*) = nullptr;  // null: uses no semaphore
  SideNames (*starts)(const Step&) = nullptr;                  // null: starts nothing asynchronous
  bool proxy = false;                   // reads and writes shared memory by the asynchronous proxy
  bool trips = false;                   // of a loop whose trips have no order: begins it or a trip, or ends it
  bool adds = false;                    // adds to what lies in memory
  bool reaches = false;                 // itself touches memory that another thread has for itself
  const ScalarForms* scalar = nullptr;  // null: no scalar step
};

extern const StepInfo kPlainStep;   // works on memory and slots alone
extern const StepInfo kAddingStep;  // and adds to memory

std::vector<SyncUse> sync_uses(const Step&);
// Steps that a thread may come to next, by id.
std::vector<int32_t> successors(const Step&);

}  // namespace pallasim::interp
