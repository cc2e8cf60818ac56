// Recording of launches for capsules: what each read, wrote, and how it ended.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::python {

struct RecordedArray {
  ir::DType dtype;
  std::vector<int64_t> dims;
  std::string bytes;  // in the layout of interp::Buffer; results of a launch that failed have none
};

struct RecordedLaunch {
  std::shared_ptr<const interp::Plan> plan;
  std::string options;
  int device = 0;
  std::vector<RecordedArray> args, results;
  std::string error, report;  // code and text, empty where it ended well
};

struct Recording {
  std::vector<RecordedLaunch> launches;  // in the order in which they began
  int64_t omitted = 0;                   // launches after the limit was reached, and those that had not ended
};

// Process-wide: launches of every thread are recorded from here on. False: a recording is under way already.
bool start_recording(int64_t max_bytes);
// What was recorded; nothing without start_recording.
Recording stop_recording();

// Around one launch: copies the arguments before it, results or the failure after it. Does nothing when nothing is
// recorded.
class LaunchRecorder {
 public:
  LaunchRecorder(const std::shared_ptr<const interp::Plan>&, const std::string& options, int device,
                 std::span<const interp::Buffer> args);
  void ended(std::span<const interp::Buffer> results);
  void failed(const ir::Diagnostic&, std::span<const interp::Buffer> results);

 private:
  bool on_ = false;
  RecordedLaunch launch_;
  uint64_t recording_ = 0;
  size_t place_ = 0;
};

}  // namespace pallasim::python
