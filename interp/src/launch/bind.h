// What a launch is given: arrays are held against the module, outputs prepared.
#pragma once
#include <vector>

#include "session.h"

namespace pallasim::interp {

// The operands of one device in the module's order. `grid` receives the bound extents, `points` their product,
// `deferred_init` (may be null) the outputs whose poison can wait (Window::init_deferred). Without values outputs stay
// as they are. Throws PS-ARG-001.
std::vector<std::byte*> bind_device(const Plan&, Session&, const DeviceCall&, const Options&,
                                    std::vector<int64_t>* grid, int64_t* points, std::vector<int>* deferred_init,
                                    bool values);

// An output that nobody has written.
void poison_output(const Plan&, const Options&, size_t operand, std::byte* at);

}  // namespace pallasim::interp
