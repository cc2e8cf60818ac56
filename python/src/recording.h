// Recording of launches for capsules: what each read, wrote, and how it ended.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
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

// What a launch would take on a chip.
struct PredictedTime {
  std::string chip;
  double seconds = 0;
};

struct RecordedLaunch {
  interp::CachedPlan plan;
  std::string options;
  int device = 0;
  std::vector<RecordedArray> args, results;
  std::string error, report;             // code and text, empty where it ended well
  std::vector<ir::Diagnostic> findings;  // warnings and notes
  std::optional<PredictedTime> predicted;
  bool done = false;
};

struct Recording {
  std::vector<std::shared_ptr<const RecordedLaunch>> launches;  // in the order in which they began
  int64_t omitted = 0;  // launches after `max_bytes` of arrays were reached, and those that had not ended
};

// Process-wide: launches of every thread are recorded from here on. Recordings may nest and overlap.
uint64_t start_recording(int64_t max_bytes);
// Ends the recording of that number. Empty for an unknown one.
Recording stop_recording(uint64_t number);

// Around one launch: copies the arguments before it, results or the failure after it. Does nothing when nothing is
// recorded.
class LaunchRecorder {
 public:
  LaunchRecorder(const interp::CachedPlan&, const std::string& options, int device,
                 std::span<const interp::Buffer> args, std::span<const interp::Buffer> results);
  // What is known beside the arrays, before the end.
  void saw(const std::vector<ir::Diagnostic>& findings, const std::optional<PredictedTime>&);
  void ended(std::span<const interp::Buffer> results);
  void failed(const ir::Diagnostic&, std::span<const interp::Buffer> results);

 private:
  void finish(std::span<const interp::Buffer> results, bool content, std::string error, std::string report);

  std::shared_ptr<RecordedLaunch> launch_;
};

}  // namespace pallasim::python
