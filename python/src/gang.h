// Devices that reach into each other meet: XLA calls each of them on a thread of its own, and one launch runs them all.
#pragma once
#include <cstdint>
#include <span>

#include "launch_call.h"

namespace pallasim::python {

// Blocks until every device of the program's launch came for `run` (XLA's number of one execution) and the last of them ran
// the kernel for all. Throws what the launch throws, for each device; CallError (gang.cc) where devices stay away.
void run_together(const Program&, int64_t run, const interp::DeviceCall&);

}  // namespace pallasim::python
