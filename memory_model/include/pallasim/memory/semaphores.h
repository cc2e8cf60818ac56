// Counting semaphores of one launch: signal adds, wait blocks until the count suffices and then takes from it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/memory/units.h"

namespace pallasim::memory {

// The semaphores of one allocation: `count` of them for every unit of a level.
struct SemaphoreBlock {
  std::string name;  // as in the kernel's signature, may be empty
  int64_t count = 1;
  Level owner = Level::Thread;
  bool bytes = false;  // counts the bytes of copies
  int64_t first = 0;   // within the device's

  bool private_to_thread() const { return owner == Level::Thread || owner == Level::Warp; }
};

// Ids: device by device, of each block the semaphores of its first owner, then those of the next. Threads are counted
// over all devices.
class SemaphoreLayout {
 public:
  // Returns the block's index.
  int add(std::string name, int64_t count, Level owner, bool bytes = false);
  const std::vector<SemaphoreBlock>& blocks() const { return blocks_; }
  // The units of one device; ids are known from then on.
  void set_units(Units);
  int64_t total(int64_t devices) const { return devices * per_device_; }
  bool empty() const { return blocks_.empty(); }
  // Of the unit that the thread belongs to.
  int64_t id(int block, int64_t index, int64_t thread) const;
  int64_t id_of_unit(int block, int64_t index, int64_t device, int64_t unit) const;  // unit: within the device
  int64_t owners(int block) const;                                                   // on one device
  // "sems[3] of thread 1", "sem of device 2"; `block` receives the block, -1 where the id is none.
  std::string name(int64_t id, int64_t devices, int* block) const;
  // The first thread of the unit that it belongs to; -1 where the id is none.
  int64_t first_thread(int64_t id, int64_t devices) const;

 private:
  struct Place {
    int block = -1;  // -1: the id is none
    int64_t index = 0, unit = 0;
  };
  Place place(int64_t id) const;
  std::vector<SemaphoreBlock> blocks_;
  Units units_;
  int64_t threads_ = 1, per_device_ = 0;
};

class Semaphores {
 public:
  explicit Semaphores(int64_t count = 0)
      : counts_(static_cast<size_t>(count)), signalled_(counts_.size()), waiters_(static_cast<size_t>(count)) {}
  size_t size() const { return counts_.size(); }
  void reset();
  int64_t count(int64_t id) const { return counts_[static_cast<size_t>(id)]; }
  int64_t signalled(int64_t id) const { return signalled_[static_cast<size_t>(id)]; }  // in all
  void set(int64_t id, int64_t value) { counts_[static_cast<size_t>(id)] = value; }
  bool has_waiters(int64_t id) const { return !waiters_[static_cast<size_t>(id)].empty(); }
  // Adds and moves everybody who waits to `woken`; they try again.
  void signal(int64_t id, int64_t amount, std::vector<int32_t>* woken);
  // False: the count is below `value`, and `thread` waits now.
  bool wait(int64_t id, int64_t value, bool decrement, int32_t thread);
  bool operator==(const Semaphores&) const = default;

 private:
  std::vector<int64_t> counts_, signalled_;
  std::vector<std::vector<int32_t>> waiters_;
};

}  // namespace pallasim::memory
