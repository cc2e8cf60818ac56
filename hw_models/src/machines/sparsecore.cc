// The subcores of a TPU's SparseCores. Their programs mean what they mean on its TensorCores; their memories are
// others.
#include "machines.h"

namespace pallasim::hw {

const MachineModel& sparsecore(CoreKind core) {
  using ir::Scope, ir::Space;
  static const MachineModel scalar = [] {
    MachineModel m = tpu();
    // No published figure says what a scalar subcore has of them.
    for (Space s : {Space::Vmem, Space::Smem, Space::Cmem}) m.spaces[s].capacity = {};
    return m;
  }();
  static const MachineModel vector = [] {
    MachineModel m = scalar;
    m.spaces[Space::Vmem] = {
        .owner = Scope::Thread,
        .name = "VMEM",
        .capacity = {.figure = "subcore_vmem_bytes",
                     .holder = "a vector subcore",
                     .advice = "take smaller blocks, or leave the array in HBM and copy parts of it"}};
    return m;
  }();
  return core == CoreKind::ScalarSubcore ? scalar : vector;
}

}  // namespace pallasim::hw
