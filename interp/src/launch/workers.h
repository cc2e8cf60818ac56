// OS threads that work for a launch.
#pragma once
#include <atomic>

#include "../ops/parts.h"

namespace pallasim::interp {

int default_workers();  // one per CPU

// TBB orders its tasks after the thread that starts them and before its going on, but ThreadSanitizer does not see into
// its library. This is the same order where it sees it; what hands a task to us is not looked at.
class HandOver {
 public:
  void give() { edge_.fetch_add(1, std::memory_order_release); }
  void take() { edge_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> edge_{0};
};
#define PALLASIM_UNSEEN __attribute__((no_sanitize("thread")))

// Those that take parts of steps of a grid in one piece.
class StepWorkers : public Helpers {
 public:
  explicit StepWorkers(int count) : count_(count) {}
  int count() const override { return count_; }
  void run(int n, const std::function<void(int)>& part) override;

 private:
  const int count_;
};

}  // namespace pallasim::interp
