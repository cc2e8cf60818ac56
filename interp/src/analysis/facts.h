// What the plan depends on as a whole: asked of the module before anything is emitted.
#pragma once
#include "pallasim/hw/machine.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Whether a body reaches into other devices of the mesh around the kernel, by signals or copies.
bool reaches_devices(const ir::Module&);

// Whether programs of the grid may wait for each other, or race on purpose: on machines where they exist at the same
// time, by atomic operations, or by a loop that reads a scalar which another program may write.
bool programs_may_wait(const ir::Module&, const ir::Body&, const hw::MachineModel&);

// Whether the body makes semaphores or barriers of its own, or asks for the launch's.
bool makes_semaphores(const ir::Body&);

}  // namespace pallasim::interp::analysis
