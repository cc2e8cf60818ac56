// A run is a capsule and options; what comes of it is an outcome, which is JSON where it crosses a border.
#pragma once
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pallasim/capsule/compare.h"
#include "pallasim/capsule/launches.h"
#include "pallasim/interp/progress.h"

namespace pallasim::capsule {

using Json = nlohmann::ordered_json;

struct ReplayOptions {
  int64_t launch = 0;  // 1-based; 0: all
  Tolerance tolerance;
  int repeat = 1;
  // Findings and predicted times that were recorded are held against those of this run, too.
  bool compare_findings = false, compare_times = false;
  double time_rtol = 0;
  Launches::Adapt adapt = [](interp::Options recorded) { return recorded; };
  // Who shows how far a launch of that kernel is; forgotten when it ends.
  std::function<std::shared_ptr<interp::Progress>(const std::string& kernel)> progress;
};

struct OutputOutcome {
  std::string name;
  Array array;
  int64_t differing = 0;
  double greatest_difference = 0;
};

// One recorded launch, repeated.
struct LaunchOutcome {
  size_t number = 0;  // in the capsule, from 1
  std::string kernel;
  int64_t device = 0;
  std::string error;    // code of what ended it
  std::string verdict;  // in words
  bool ran = false;     // to its end
  std::vector<std::string> prints;
  std::string token;
  int64_t steps = 0;
  bool compared = false, same = false;  // with the recording
  std::vector<OutputOutcome> outputs;
};

// A launch of one device, or of all that reach into each other.
struct Replayed {
  std::string chip;  // "" for none
  std::vector<std::string> prints;
  std::vector<ir::Diagnostic> findings;  // differences from the recording among them
  std::vector<double> seconds;           // of each repetition
  std::vector<LaunchOutcome> launches;
};

// Repeats a capsule's launches in order, in one session, as the recorded process had them. Throws what is no failure of
// a kernel: a capsule or an option that is wrong, PS-SIZE-001, an interrupt.
void replay(const Capsule&, const std::string& file_name, int64_t max_bytes, const ReplayOptions&,
            const std::function<void(Replayed&)>& each);

// A run: a capsule and options in, JSON out, as `pallasim run CAPSULE --json` prints it.
struct Outcome {
  Json json;
  std::vector<ir::Diagnostic> findings;     // all of them
  std::vector<ir::Diagnostic> differences;  // from the recording, and the errors that they come from
  int exit = 0;
  // Launches whose outputs or ends, findings and predicted times were held against recorded ones.
  int64_t launches = 0, with_findings = 0, with_times = 0;
};
// Throws as replay does, and PS-IO-001 and 003.
Outcome run_capsule(const std::string& path, int64_t max_memory, const ReplayOptions&);

// Keys and their order: docs/cli.md, which `pallasim run --json` holds.
Json to_json(const LaunchOutcome&);
// capsule, recorded_by, omitted; launches and findings are still to come.
Json outcome_json(const Capsule&, const std::string& file);
// Text that is not UTF-8 loses what is not.
Json to_json_object(const ir::Diagnostic&);

}  // namespace pallasim::capsule
