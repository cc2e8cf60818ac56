// All that the machine is at a moment but the bytes of its memory, as a value: it can be copied, compared and put back,
// and points into no memory of the host. (Places in the plan, which nobody changes, are pointers to its steps.)
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../plan/plan.h"
#include "elided_copies.h"
#include "pallasim/memory/barriers.h"
#include "pallasim/memory/interval_set.h"
#include "pallasim/memory/streams.h"

namespace pallasim::interp {

// Whose buffer another number stands for (PlanMemory::aliases): a thread's, or an operand of a device, which outlives
// its threads.
struct BufferAlias {
  int32_t thread = 0;   // or ~device
  uint32_t buffer = 0;  // 0: of nobody yet
  static BufferAlias of_operand(int32_t device, uint32_t buffer) { return {~device, buffer}; }
  bool operator==(const BufferAlias&) const = default;
};

// The threads of an execution are bound to its memory; a copy of them is not, until Execution::rebind.
class Threads : public std::vector<Thread> {
 public:
  Threads() = default;
  Threads(const Threads& o) : std::vector<Thread>(o) { unbind(); }
  Threads& operator=(const Threads& o) {
    std::vector<Thread>::operator=(o);
    unbind();
    return *this;
  }
  Threads(Threads&&) = default;
  Threads& operator=(Threads&&) = default;
  ~Threads() = default;
  bool operator==(const Threads& o) const {
    return std::equal(begin(), end(), o.begin(), o.end(),
                      [](const ThreadState& a, const ThreadState& b) { return a == b; });
  }

 private:
  void unbind() {
    for (Thread& t : *this) static_cast<ThreadBinding&>(t) = {};
  }
};

// An output of Window::init_deferred, which is poisoned where copies wrote nothing once the run is over.
struct DeferredInit {
  uint32_t buffer;  // of the one device
  int64_t bytes;
  ir::DType dtype;
  memory::IntervalSet written;
  bool operator==(const DeferredInit&) const = default;
};

// What a thread found that looked for something and let others go on, where a policy chooses.
struct Looks {
  int64_t changes = 0;  // Turn::changes when its last turn was over
  int64_t others = 0;   // how often others changed something since it first looked
  bool vain = false;    // it has seen the same before, and nothing has changed since
  struct Look {
    int64_t others = 0;
    uint64_t slots = 0;  // a hash of what it knew
    int64_t times = 0;   // that others had changed nothing
    bool operator==(const Look&) const = default;
  };
  std::map<int32_t, Look> at;  // by step
  bool operator==(const Looks&) const = default;
};

// Whose turn it is.
struct Turn {
  std::deque<int32_t> ready;          // threads that can run
  int64_t changes = 0;                // turns that changed something, counted where a policy chooses
  std::map<int32_t, Looks> looks;     // by thread
  int64_t idle = 0;                   // steps since something changed
  int64_t taken = 0;                  // turns that a policy chose and that changed something
  std::vector<uint64_t> policy = {};  // what its later choices depend on
  // The thread whose turn it is now, and what it was when that began: a debugger may look in the middle of a turn.
  struct Now {
    int32_t thread = -1;  // -1: nobody's
    int64_t left = 0;     // steps that it may run
    int64_t steps = 0;    // of all threads until then
    Wait wait;
    const Step* pc = nullptr;
    bool operator==(const Now&) const = default;
  } now = {};
  bool operator==(const Turn&) const = default;
};

// A cluster that a request took before it began.
struct ClusterClaim {
  int32_t device, cluster;
  int32_t step, thread;  // that asked
  bool seen;             // somebody read the answer
  // A thread that read what had come over the answer before its CTA looked, and its program then.
  int32_t missed = -1;
  int64_t missed_at = 0;
  bool operator==(const ClusterClaim&) const = default;
};

// What CTAs know of requests for clusters. Claims are numbered as they came; -1: none.
struct ClusterAnswers {
  struct At {
    int64_t unread = -1;   // whose answer lies there, and the CTA has not read it
    int64_t covered = -1;  // another answer came over that one's before
    bool operator==(const At&) const = default;
  };
  struct Place {
    int64_t cta;
    uint32_t buffer;
    int64_t offset;
    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, At> at;
  std::set<int64_t> refused;  // CTAs that have read that there is no cluster left
  void forget(int64_t cta) {
    std::erase_if(at, [&](const auto& a) { return a.first.cta == cta; });
    refused.erase(cta);
  }
  bool operator==(const ClusterAnswers&) const = default;
};

struct State {
  // Those of the units in their order, then room for those that each of them may spawn.
  Threads threads;
  std::vector<std::vector<BufferAlias>> aliases;  // by arena, then by place among PlanMemory::aliases
  std::vector<ElidedCopies> elided;               // of each unit, PlanMemory::elidable
  memory::Semaphores semaphores;
  memory::Barriers barriers;
  memory::Streams streams;    // of each engine one per thread
  size_t barriers_told = 0;   // findings of `barriers` that were reported
  memory::AsyncQueue copies;  // operations in flight
  int64_t copies_issued = 0;
  std::vector<DeferredInit> deferred_init;
  // Of programs: how many each device has (0: together), and the first that no thread of it has got yet; of each place
  // among the resident ones the last one that began there; arenas of ended ones.
  int64_t points = 0;
  std::vector<int64_t> next_points;  // by device
  std::vector<int64_t> begun;
  std::vector<int32_t> free_arenas;
  std::vector<ClusterClaim> claims;
  ClusterAnswers answers;
  std::vector<int32_t> woken;
  int64_t steps = 0;
  int64_t spins = 0;        // reads of a waiting loop that found nothing new, since something was written
  bool progressed = false;  // memory was written or a semaphore signalled since the last look
  Turn turn;

  bool operator==(const State&) const = default;
};
// Where two of them differ, in a word; empty: nowhere.
std::string difference(const State&, const State&);

}  // namespace pallasim::interp
