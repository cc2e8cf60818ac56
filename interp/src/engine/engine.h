// The engine: whose turn it is, and when a run is over.
#pragma once
#include <string>

#include "../ops/execution.h"

namespace pallasim::interp {

// Runs all threads of `exec` to their end under the options' policy. Returns the schedule token.
std::string run_threads(Execution& exec, const RunOptions& options);

// Runs `thread` for at most `budget` steps.
Stop run(Execution&, Thread& thread, int64_t budget);

}  // namespace pallasim::interp
