// One file per machine.
#pragma once
#include "pallasim/hw/machine.h"

namespace pallasim::hw {

// Of arrays that do not fit in a device.
inline constexpr const char* kArraysAdvice = "shard the arrays over several devices, or pass smaller ones";

const MachineModel& generic_machine();
const MachineModel& tpu();                 // its TensorCores
const MachineModel& sparsecore(CoreKind);  // its subcores
const MachineModel& triton();
const MachineModel& mosaic_gpu();

}  // namespace pallasim::hw
