// OS threads that work for a launch.
#pragma once
#include "../ops/parts.h"

namespace pallasim::interp {

int default_workers();  // one per CPU

// Calls task(0) to task(n - 1) on at most so many OS threads, and returns when all have ended. Tasks do not throw.
void on_workers(int workers, int n, const std::function<void(int)>& task);

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
