// Ctrl-C while kernels run: Python's own handler is a flag that nobody looks at until the kernel is over.
#pragma once
#include <cstdint>

namespace pallasim::python {

// A launch of the XLA execution `run` begins: from now on SIGINT also stops launches, before Python's handler (or
// whoever's there) has it. Nothing happens where the signal ends the process or is ignored. True: the execution was
// stopped already, between two of its launches, and this one must not begin.
bool watch_interrupts(int64_t run);

}  // namespace pallasim::python
