// Which arithmetic a chip's matrix unit uses for a dot of given types and precision.
#pragma once
#include "../../plan/payload/arithmetic.h"
#include "lowering.h"

namespace pallasim::interp {

MatrixUnit matrix_unit(Emitter&, const Op&, const Contraction&);
// Of a product that is added to an accumulator (wgmma).
MatrixUnit accumulating_unit(Emitter&, const Contraction&);

}  // namespace pallasim::interp
