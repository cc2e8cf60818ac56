// Any machine: what a kernel means where nothing else is known. It has the meanings of JAX's own interpreter.
#include "machines.h"

namespace pallasim::hw {

const MachineModel& generic_machine() {
  using ir::Scope, ir::Space;
  constexpr SpaceInfo kCore{.owner = Scope::Thread};
  static const MachineModel m{
      .spaces = {{},
                 {{Space::Vmem, kCore},
                  {Space::Smem, kCore},
                  {Space::Semaphore, {.owner = Scope::Thread, .layout = Layout::Count}}}},
      .negative_indices = NegativeIndex::FromEnd,
      .left_in_semaphores = ir::Severity::Warning,
      .checks = {.aliased_inputs = true},
  };
  return m;
}

}  // namespace pallasim::hw
