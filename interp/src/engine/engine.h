// The engine: whose turn it is, and when a run is over.
#pragma once
#include <string>

#include "../ops/execution.h"

namespace pallasim::interp {

// Runs all threads of `exec` to their end under the options' policy. Returns the schedule token.
std::string run_threads(Execution& exec, const RunOptions& options);

// Why a run cannot go on, or must not. The words are in report/; all throw DiagnosticError. `token` replays the
// schedule.
[[noreturn]] void deadlock(Execution&, const std::string& token);  // PS-DEAD-001: threads wait, nothing else can happen
[[noreturn]] void waiting_programs(Execution&, const Thread&,
                                   const std::string& token);  // PS-LIVE-003: for a value that nobody writes
[[noreturn]] void polling_threads(Execution&, const Thread&,
                                  const std::string& token);  // PS-LIVE-001: for a signal that nobody sends
[[noreturn]] void no_progress(Execution&, const Thread&, int64_t idle_steps, const std::string& token);  // PS-LIVE-001
[[noreturn]] void step_limit(Execution&, const Thread&, const std::string& token);   // PS-LIVE-002: Options::max_steps
[[noreturn]] void interrupted(Execution&, const Thread&, const std::string& token);  // PS-INT-001
[[noreturn]] void restored_differs(const Execution&, int64_t step, const std::string& what);  // PS-BUG-003
// PS-BUG-004: `byte` of a buffer of the thread.
[[noreturn]] void footprint_differs(const Thread&, const Step*, const std::string& what, int64_t byte);
[[noreturn]] void too_many_programs(const Execution&, int64_t bytes_each);  // PS-SIZE-001: Options::max_memory

}  // namespace pallasim::interp
