// Which operations run, as data: one table of rows per family, at the end of the family's file.
#pragma once
#include <span>

#include "../values/emitter.h"

namespace pallasim::interp {

// Emits the steps of an operation and defines its results.
using Lowering = void (*)(Emitter&, const Op&);

struct Row {
  OpCode code;
  Lowering lower;
};
using Rows = std::span<const Row>;

// The lowering of an operation; null where there is none: it is refused by name.
Lowering lowering(OpCode);

// Lowers all operations of a region but its yield.
void compile_region(Emitter&, const Region&);

Rows array_rows();
Rows asm_rows();
Rows async_rows();
Rows barrier_rows();
Rows control_rows();
Rows convolve_rows();
Rows debug_rows();
Rows elementwise_rows();
Rows gather_rows();
Rows launch_control_rows();
Rows memory_rows();
Rows mxu_rows();
Rows peer_rows();
Rows random_rows();
Rows reduce_rows();
Rows shape_rows();
Rows sparsecore_rows();
Rows spawn_rows();
Rows sync_rows();
Rows tensor_rows();
Rows tma_rows();
Rows wgmma_rows();

}  // namespace pallasim::interp
