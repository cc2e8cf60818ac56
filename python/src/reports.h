// What launches leave behind for Python: findings, the last report, counters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::python {

// What becomes of the warnings and notes of a launch: told at once (each place once), kept for take_findings only, or
// the first of them fails the launch.
enum class Delivery : uint8_t { Warn, Collect, Raise };

// One launch that ended, well or not.
struct Run {
  int64_t number = 0;  // launches are counted from 1
  std::string kernel, chip, token;
  double seconds = 0;
  bool planned = false;     // its plan was made for it; else an earlier launch had left it in the cache
  double plan_seconds = 0;  // what that took; 0 where it was not
  int64_t steps = 0, grid_points = 0;
  int threads = 0, units = 0;
  bool races = false;  // a data race or a false `parallel` claim was found
  bool checked = false;
  std::vector<ir::Diagnostic> findings;  // by cause; of a launch that failed its error alone
  bool failed = false;
  std::vector<interp::Traffic> traffic;  // checked runs only
};

// Process-wide; every function may be called from any thread.
int64_t launch_count();

// Keeps findings for take_findings (the oldest are dropped beyond a bound) and the text of the last report.
void note_finding(const ir::Diagnostic&);
std::vector<ir::Diagnostic> take_findings();
std::string last_report();
// The finding whose report `text` begins with: the latest of such. False: there is none among those that are
// remembered.
bool finding_of(const std::string& text, ir::Diagnostic* out);

// Calls `tell` for the findings of launches that end, from the launch's thread; null: they go to standard error as they
// are. Returns when no call of the former one is under way.
using Tell = void (*)(const std::vector<ir::Diagnostic>&);
void tell_with(Tell tell);

// A launch begins.
void note_launch();
// It ended; prints go to the standard output in order. Kept for take_grid_points and take_calls under the numbers of
// `Options::record_grid` and `record_calls`. Throws the first finding where `Delivery::Raise` asks for it. `stop`: why
// the launch ended before its end; the caller throws it.
void note_report(Run run, interp::Report, const interp::Options&, Delivery, const ir::Diagnostic* stop = nullptr);

// The rendered report of a failure, which is also kept as a finding.
std::string note_failure(const ir::Diagnostic&);

// The latest launches that ended, oldest first, and the last of them (or one of number 0).
std::vector<Run> runs();
Run last_run();

// Grid points of the oldest run with `Options::record_grid = recording` that ended and was not taken yet; empty where
// there is none. Of runs that nobody takes the oldest are dropped beyond a bound.
using GridPoints = std::vector<interp::Report::Point>;
GridPoints take_grid_points(int64_t recording);
// Likewise what its debug_callbacks were given.
std::vector<interp::HostCall> take_calls(int64_t recording);

}  // namespace pallasim::python
