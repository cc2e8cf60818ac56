// What launches leave behind for Python: findings, counters.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/diagnostic.h"
#include "run_log.h"
#include "settings.h"

namespace pallasim::python {

// Process-wide; every function may be called from any thread.
int64_t launch_count();

// Keeps findings for take_findings (the oldest are dropped beyond a bound).
void note_finding(const ir::Diagnostic&);
std::vector<ir::Diagnostic> take_findings();

// What a call from XLA failed with. XLA hands on nothing but text: the number in it is that under which the error is
// kept for Python. Notes the error as a finding, too.
class Failure : public ir::DiagnosticError {
 public:
  explicit Failure(ir::Diagnostic);
  std::string text() const;  // the report, with the number in its last line

 private:
  int64_t number_;
};
// The error of that number; none where it has been dropped beyond a bound.
std::optional<ir::Diagnostic> failure(int64_t number);
// The latest that the latest request to stop caused, for the first who asks.
std::optional<ir::Diagnostic> interrupted_failure();

// Calls `tell` for the findings of launches that end, from the launch's thread; null: they go to standard error as they
// are. Returns when no call of the former one is under way.
using Tell = void (*)(const std::vector<ir::Diagnostic>&);
void tell_with(Tell tell);

// Launches that began and have not ended.
int64_t running_launches();

// A launch begins.
void note_launch();
// It ended; prints go to the standard output in order. Throws the first finding where `Delivery::Raise` asks for it.
// `stop`: why the launch ended before its end; the caller throws it.
void note_report(Run run, interp::Report, const interp::Options&, Delivery, const ir::Diagnostic* stop = nullptr);

// The latest launches that ended, oldest first, and the last of them (or one of number 0).
std::vector<Run> runs();
Run last_run();

// Launches of one kernel that ended since the last call.
struct KernelTime {
  int64_t launches = 0, checked = 0;  // of those so many with every access looked at
  double seconds = 0;
};
// By kernel. Beyond a bound of names nobody took, the others count as one, "".
std::map<std::string, KernelTime> take_kernel_times();

// Keeps what a launch recorded for take_grid_points and take_calls.
void keep_recorded(const Settings&, interp::Recorder);
// Grid points of the oldest run of that recording that ended and was not taken yet; empty where there is none. Of runs
// that nobody takes the oldest are dropped beyond a bound.
using GridPoints = std::vector<interp::GridPoint>;
GridPoints take_grid_points(int64_t recording);
// Likewise what its debug_callbacks were given.
std::vector<interp::HostCall> take_calls(int64_t recording);

}  // namespace pallasim::python
