// Barriers: they have phases, not counts. A phase ends when everybody arrived and no bytes are due any more; then the
// next begins. mbarriers, barriers of a cluster, of subcores, named barriers and joins are kinds of it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/memory/units.h"

namespace pallasim::memory {

struct Barrier {
  int64_t expected = 1;   // arrivals per phase, at least 1
  int64_t arrived = 0;    // in this phase
  int64_t bytes_due = 0;  // negative: bytes came before they were expected
  int64_t phase = 0;      // phases that ended
  int64_t observed = 0;   // phases whose end somebody saw: 1 + the last of them
  int64_t carried = 0;    // phases that an asynchronous operation took part in: 1 + the last of them
  int64_t arrivals = 0;   // that were dropped too
  uint64_t arrivers = 0;  // a bit for each thread that arrived, by its number modulo 64
  // Waiters know a phase by its parity alone: to who is two phases behind, the barrier looks as if nothing had ended.
  bool parity = false;
  // Named barriers: a phase takes as many arrivals as its first one says, and who arrived may see the end at any time.
  bool named = false;
  bool tensor = false;  // it orders what the tensor pipe is told (orders_tensor_core)
  // One of those that an arrival of a cluster reaches: its CTAs may wait for the first one's alone.
  bool of_cluster = false;
  bool operator==(const Barrier&) const = default;
};

// Misuse, as data; `barrier` is an id of Barriers.
struct BarrierFinding {
  enum class Kind : uint8_t {
    OverArrival,   // `amount` arrivals more than the phase expects; they are dropped
    Unwaited,      // phase `phase` ended, and nobody waited for the end of the one before; of a cluster's at the end
                   // where nobody waited at all
    PassedPhase,   // thread `thread` waits for phase `phase`, but `amount` later ones ended, too
    Unobserved,    // at the end: nobody saw the ends of the last `amount` phases
    Released,      // the same of phases that threads alone ended: no operation's end went unseen
    OthersWait,    // the same of one of a cluster, of which another one is waited for
    BytesLeft,     // at the end: `amount` bytes are due, or came that nobody expected (negative)
    ArrivalsLeft,  // at the end: `amount` arrivals of a phase that did not end
    OtherCount  // of a named barrier: thread `thread` says that phase `phase` takes `amount` arrivals, others did not
  };
  Kind kind;
  int64_t barrier = 0, phase = 0, amount = 0;
  int32_t thread = -1;  // who came too often, or late; -1: no thread did it
  bool operator==(const BarrierFinding&) const = default;
};

// The barriers of a launch, with who waits for them.
class Barriers {
 public:
  explicit Barriers(std::vector<Barrier> barriers = {}) : barriers_(std::move(barriers)), waiters_(barriers_.size()) {}
  size_t size() const { return barriers_.size(); }
  const Barrier& operator[](int64_t id) const { return barriers_[static_cast<size_t>(id)]; }
  // A barrier as at its start: nobody arrived, phase 0. Who waits stays.
  void init(int64_t id, int64_t expected);

  // Each returns whether the phase ended by it; then who waits is moved to `woken` and tries again. `thread`: -1 where
  // an asynchronous operation arrives. Bytes are not negative; those of one call come at once.
  bool arrive(int64_t id, int64_t count, int32_t thread, std::vector<int32_t>* woken) {
    Barrier& b = barriers_[static_cast<size_t>(id)];
    const int64_t most = b.expected - b.arrived;
    if (count > most) [[unlikely]]
      note({BarrierFinding::Kind::OverArrival, id, b.phase, count - most, thread});
    b.arrived += std::min(count, most);
    b.arrivals += count;
    if (thread >= 0) b.arrivers |= uint64_t{1} << (thread % 64);
    if (thread < 0) b.carried = b.phase + 1;
    return settle(id, woken);
  }
  bool expect(int64_t id, int64_t bytes, std::vector<int32_t>* woken);
  bool deliver(int64_t id, int64_t bytes, std::vector<int32_t>* woken);
  // An arrival that brings an expectation of bytes; no phase ends between the two.
  bool arrive_expecting(int64_t id, int64_t bytes, int32_t thread, std::vector<int32_t>* woken);

  // Of a named barrier: the phase takes `expected` arrivals, as who arrives next says.
  void take(int64_t id, int64_t expected, int32_t thread);

  // `seen`: phases of this barrier whose ends the waiter saw; kept by the waiter, 0 at first. True: phase `seen` ended,
  // and `seen` is one more. False: `thread` waits now.
  bool wait(int64_t id, int64_t* seen, int32_t thread);
  // As wait, for who looks and goes on: nobody is put to wait.
  bool test(int64_t id, int64_t* seen, int32_t thread) {
    Barrier& b = barriers_[static_cast<size_t>(id)];
    const int64_t later = b.phase - *seen - 1;
    if (later < 0) return false;
    if (later > 0 && !b.named) [[unlikely]]
      note({BarrierFinding::Kind::PassedPhase, id, *seen, later, thread});
    if (b.parity && later % 2 != 0) return false;
    ++*seen;
    b.observed = std::max(b.observed, *seen);
    return true;
  }
  bool has_waiters(int64_t id) const { return !waiters_[static_cast<size_t>(id)].empty(); }

  // Of what happened so far, in order; the first thousand.
  const std::vector<BarrierFinding>& findings() const { return findings_; }
  // What is left of a barrier when its life ends.
  std::vector<BarrierFinding> left_over(int64_t id) const;
  bool operator==(const Barriers&) const = default;

 private:
  bool settle(int64_t id, std::vector<int32_t>* woken) {
    Barrier& b = barriers_[static_cast<size_t>(id)];
    if (b.arrived < b.expected || b.bytes_due != 0) return false;
    if (b.observed < b.phase && !b.named && !(b.of_cluster && b.observed == 0)) [[unlikely]]
      note({BarrierFinding::Kind::Unwaited, id, b.phase, 0, -1});
    ++b.phase;
    b.arrived = 0;
    if (auto& w = waiters_[static_cast<size_t>(id)]; !w.empty()) {
      woken->insert(woken->end(), w.begin(), w.end());
      w.clear();
    }
    return true;
  }
  void note(const BarrierFinding& f);
  std::vector<Barrier> barriers_;
  std::vector<std::vector<int32_t>> waiters_;
  std::vector<BarrierFinding> findings_;
};

// The barriers of one allocation: `count` of them for every unit of a level, of one mesh or of all.
struct BarrierBlock {
  std::string name;  // as in the kernel's signature, may be empty
  int64_t count = 1;
  Level owner = Level::Device;
  int mesh = -1;  // -1: all
  int64_t expected = 1;
  bool parity = false, named = false, tensor = false, of_cluster = false;
  int64_t first = 0;  // within the device's
  int32_t loc = -1;   // of the module: what made it; -1: nobody knows
  bool operator==(const BarrierBlock&) const = default;
};

// Ids: device by device, of each block the barriers of its first owner, then those of the next.
class BarrierLayout {
 public:
  explicit BarrierLayout(Units units = Units()) : units_(std::move(units)) {}
  // Returns the block's index. `first` is not looked at.
  int add(BarrierBlock);
  const std::vector<BarrierBlock>& blocks() const { return blocks_; }
  int64_t total() const { return per_device_ * units_.devices(); }
  bool empty() const { return blocks_.empty(); }
  // `unit`: of the block's level, and of its mesh where it names one.
  int64_t id(int block, int64_t index, int64_t unit) const;
  // The barrier of the unit that the thread belongs to.
  int64_t id_of_thread(int block, int64_t index, int64_t thread) const {
    const BarrierBlock& b = blocks_[static_cast<size_t>(block)];
    const int64_t threads = threads_per_owner_[static_cast<size_t>(block)];
    if (threads == 0) return id(block, index, units_.unit_of(b.owner, thread));
    return b.first + (thread < threads ? 0 : thread / threads) * b.count + index;
  }
  // "bars[3] of thread 1", "bar of device 2"; `block` receives the block, -1 where the id is none.
  std::string name(int64_t id, int* block) const;
  Barriers make() const;
  bool operator==(const BarrierLayout&) const = default;

 private:
  int64_t owners(const BarrierBlock&) const;  // on one device
  Units units_;
  std::vector<BarrierBlock> blocks_;
  // Of each block: threads per owner where one mesh of one device makes an owner's number a quotient, else 0.
  std::vector<int64_t> threads_per_owner_;
  int64_t per_device_ = 0;
};

}  // namespace pallasim::memory
