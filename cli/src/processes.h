// Pieces of work in processes of their own: one that hangs, dies or takes all memory ends alone.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace pallasim::cli {

struct ProcessLimits {
  int jobs = 1;
  double seconds = 0;  // of one piece; 0: no limit
  int64_t bytes = 0;   // of its memory; 0: no limit
};

// How a piece of work ended.
struct Ended {
  enum class How : uint8_t { Done, Died, OverTime, Stopped };
  How how = How::Done;
  std::string said;  // what the work returned
  std::string why;   // of Died: "signal 11, Segmentation fault"
  double seconds = 0;
};

// Does `work(i)` for each i below `n` in the order of i, and tells `each` as they end. False where `stop` said so: what
// runs then is ended. The process must not have started threads: its copies go on as it stands here.
bool run_apart(size_t n, const ProcessLimits&, const std::function<std::string(size_t)>& work,
               const std::function<void(size_t, Ended)>& each, const std::function<bool()>& stop);

}  // namespace pallasim::cli
