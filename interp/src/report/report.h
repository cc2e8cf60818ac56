// Findings in words: what reports of several kinds share.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "../ops/execution.h"

namespace pallasim::interp {

// The diagnostic of a step of a thread: kernel, line, thread, grid point.
ir::Diagnostic diagnostic_at(const Thread&, const Step*, ir::Code, std::string message);
// Throws it.
[[noreturn]] void fail(const Thread&, const Step*, ir::Code, std::string message, std::vector<std::string> numbers = {},
                       std::string hint = {});
// PS-SIZE-001: what a checked run remembers of `what` exceeds Options::max_memory.
[[noreturn]] void too_much_remembered(const Execution&, const std::string& what, int64_t bytes);
// "thread 3"; of several devices "device 1" or "thread 3 of device 1".
std::string name_of(const Thread&);
// "file:line" of a location.
std::string where(const Plan&, ir::LocId);
// Who signals the semaphores of these blocks, a line each.
std::vector<std::string> signallers(const Plan&, const std::set<int>& blocks);

}  // namespace pallasim::interp
