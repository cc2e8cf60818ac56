#include "workers.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "float_environment.h"

namespace pallasim::interp {

int default_workers() {
  static const int n = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return n;
}

namespace {

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

}  // namespace

void on_workers(int workers, int n, const std::function<void(int)>& task) {
  HandOver hand_over;
  hand_over.give();
  const auto loop = [&] {
    tbb::parallel_for(
        0, n,
        [&](int i) PALLASIM_UNSEEN {
          hand_over.take();
          task(i);
          hand_over.give();
        },
        tbb::simple_partitioner());
  };
  if (workers == default_workers()) {
    loop();
  } else {
    tbb::task_arena arena(workers);
    arena.execute(loop);
  }
  hand_over.take();
}

// An arena of its own would cost more than a part: who asks for other numbers of workers gets as many parts.
void StepWorkers::run(int n, const std::function<void(int)>& part) {
  on_workers(default_workers(), n, [&](int i) {
    const FloatEnvironment environment;
    part(i);
  });
}

}  // namespace pallasim::interp
