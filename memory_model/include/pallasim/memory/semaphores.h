// Counting semaphores of one launch: signal adds, wait blocks until the count suffices and then takes from it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pallasim::memory {

// The semaphores of one allocation. Thread-owned blocks exist once per thread, the others once per device.
struct SemaphoreBlock {
  std::string name;      // as in the kernel's signature, may be empty
  int64_t first = 0;     // shared: id of the first one; thread-owned: its place within the thread's
  int64_t count = 1;
  bool per_thread = true;
  bool bytes = false;    // counts the bytes of copies
};

// Ids: of each device its shared semaphores, then those of its threads. Threads are counted over all devices.
class SemaphoreLayout {
 public:
  // Returns the block's index.
  int add(std::string name, int64_t count, bool per_thread, bool bytes = false);
  const std::vector<SemaphoreBlock>& blocks() const { return blocks_; }
  void set_threads(int64_t per_device) { threads_ = per_device; }
  int64_t total(int64_t threads) const { return threads / threads_ * shared_ + per_thread_ * threads; }
  bool empty() const { return blocks_.empty(); }
  int64_t id(int block, int64_t index, int64_t thread) const;
  // "sems[3] of thread 1", "sem of device 2"; `block` receives the block, -1 where the id is none.
  std::string name(int64_t id, int64_t threads, int* block) const;

 private:
  std::vector<SemaphoreBlock> blocks_;
  int64_t of_device() const { return shared_ + per_thread_ * threads_; }
  int64_t shared_ = 0, per_thread_ = 0, threads_ = 1;
};

class Semaphores {
 public:
  explicit Semaphores(int64_t count = 0) : counts_(static_cast<size_t>(count)), waiters_(static_cast<size_t>(count)) {}
  size_t size() const { return counts_.size(); }
  void reset();
  int64_t count(int64_t id) const { return counts_[static_cast<size_t>(id)]; }
  void set(int64_t id, int64_t value) { counts_[static_cast<size_t>(id)] = value; }
  bool has_waiters(int64_t id) const { return !waiters_[static_cast<size_t>(id)].empty(); }
  // Adds and moves everybody who waits to `woken`; they try again.
  void signal(int64_t id, int64_t amount, std::vector<int32_t>* woken);
  // False: the count is below `value`, and `thread` waits now.
  bool wait(int64_t id, int64_t value, bool decrement, int32_t thread);
  bool operator==(const Semaphores&) const = default;

 private:
  std::vector<int64_t> counts_;
  std::vector<std::vector<int32_t>> waiters_;
};

}  // namespace pallasim::memory
