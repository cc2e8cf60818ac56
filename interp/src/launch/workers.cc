#include "workers.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <thread>

#include "float_environment.h"

namespace pallasim::interp {

int default_workers() {
  static const int n = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return n;
}

void StepWorkers::run(int n, const std::function<void(int)>& part) {
  HandOver hand_over;
  hand_over.give();
  tbb::parallel_for(
      0, n,
      [&](int i) PALLASIM_UNSEEN {
        hand_over.take();
        const FloatEnvironment environment;
        part(i);
        hand_over.give();
      },
      tbb::simple_partitioner());
  hand_over.take();
}

}  // namespace pallasim::interp
