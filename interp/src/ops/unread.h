// What the report says of a block outside of its array that the kernel has not read.
#pragma once
#include "execution.h"

namespace pallasim::interp::ops {

// PS-OOB-002 as a warning, once per step: of the block that `index` names in dimension `d` no element lies in the
// array.
void note_block_outside(const Thread&, const Step*, const Window&, size_t d, int64_t index);

}  // namespace pallasim::interp::ops
