// Executions that no launch uses, kept warm: launching a plan again allocates nothing.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "../ops/execution.h"

namespace pallasim::interp {

// One per process; the least recently used go when their arenas exceed the limit. Safe from several OS threads.
class IdleExecutions {
 public:
  static constexpr int64_t kLimit = 512LL << 20;  // bytes
  static constexpr size_t kMostOfAPlan = 16;

  std::unique_ptr<Execution> take(const Plan&);  // null: none is idle
  void give(std::unique_ptr<Execution>);
  void forget(const Plan&);  // before the plan ends
  int64_t bytes() const;
  int64_t bytes_of(const Plan&) const;

 private:
  struct Entry {
    std::unique_ptr<Execution> execution;
    int64_t bytes;
  };
  using Place = std::list<Entry>::iterator;
  std::unique_ptr<Execution> remove(Place);  // from the list alone
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the last one used first
  std::list<Entry> spare_;    // their places in the list, for those to come
  std::unordered_map<const Plan*, std::vector<Place>> places_;
  int64_t bytes_ = 0;
};
IdleExecutions& idle_executions();

// Bytes that an execution holds: arenas, shared scratch, threads.
int64_t bytes_held(const Execution&);

}  // namespace pallasim::interp
