// What launches leave behind for Python: findings, the last report, counters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::python {

// Process-wide; every function may be called from any thread.
void note_launch();
int64_t launch_count();

// Keeps findings for take_findings (the oldest are dropped beyond a bound) and the text of the last report.
void note_finding(const ir::Diagnostic&);
std::vector<ir::Diagnostic> take_findings();
std::string last_report();
bool last_finding(ir::Diagnostic* out);  // false: there was none

// Findings of a run that ended; prints go to the standard output in order. Kept for take_grid_points and take_calls under the
// numbers of `Options::record_grid` and `record_calls`.
void note_report(interp::Report, const interp::Options& = {});

// The rendered report of a failure, which is also kept as a finding.
std::string note_failure(const ir::Diagnostic&);

// Schedule token and counts of the last launch that ended; `races` also of one that failed.
struct LastRun {
  std::string token;
  int64_t steps = 0, grid_points = 0;
  int threads = 0, units = 0;
  bool races = false;  // a data race or a false `parallel` claim was found
  std::vector<interp::Traffic> traffic;  // checked runs only
};
LastRun last_run();

// Grid points of the oldest run with `Options::record_grid = recording` that ended and was not taken yet; empty where there
// is none. Of runs that nobody takes the oldest are dropped beyond a bound.
using GridPoints = std::vector<interp::Report::Point>;
GridPoints take_grid_points(int64_t recording);
// Likewise what its debug_callbacks were given.
std::vector<interp::HostCall> take_calls(int64_t recording);

}  // namespace pallasim::python
