// Devices that reach into each other meet: XLA calls each of them on a thread of its own, and one launch runs them all.
#pragma once
#include <cstdint>
#include <span>

#include "launch_call.h"

namespace pallasim::python {

// Blocks until every device of the program's launch came for `run` (XLA's number of one execution) and the last of them
// ran the kernel for all. Throws what the launch throws, for each device; PS-DEV-001 where devices stay away;
// PS-INT-001 where a request to stop comes first.
void run_together(const Program&, int64_t run, const interp::DeviceCall&);

// PS-INT-001 of a launch that has not begun.
ir::Diagnostic interrupted(const Program&);

}  // namespace pallasim::python
