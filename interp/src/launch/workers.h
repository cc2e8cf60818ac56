// OS threads that work for a launch.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "../ops/parts.h"

namespace pallasim::interp {

int default_workers();  // one per CPU

// Calls task(0) to task(n - 1) on at most so many OS threads, and returns when all have ended. Tasks do not throw.
void on_workers(int workers, int n, const std::function<void(int)>& task);

// Those that take parts of steps of a grid in one piece. Who took one looks out for the next for a while, so that
// steps that follow each other find their helpers awake, and takes the same share of them, which its caches hold.
// None outlives this object.
class StepWorkers : public Helpers {
 public:
  explicit StepWorkers(int count);
  ~StepWorkers() override;
  StepWorkers(const StepWorkers&) = delete;
  StepWorkers& operator=(const StepWorkers&) = delete;
  int count() const override { return count_; }
  void run(int n, const std::function<void(int)>& part) override;

 private:
  struct Tasks;
  // Parts that lie side by side; there are at most as many as a word has bits.
  struct Job {
    const std::function<void(int)>* part;
    int parts, units;
  };
  bool take(int worker);  // and run a unit that nobody has, from the worker's own on; false: there is none
  void help(int worker);  // until nothing came for a while, or the end
  void call_helpers(int n);

  const int count_;
  Job job_{};
  std::atomic<uint64_t> untaken_{0};  // units of the job
  std::atomic<int> done_{0};          // units of the job
  std::atomic<int> helpers_{0};       // that are awake, or on their way
  std::atomic<bool> ended_{false};
  std::unique_ptr<Tasks> tasks_;
};

}  // namespace pallasim::interp
