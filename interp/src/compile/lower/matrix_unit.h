// Which arithmetic a chip's matrix unit uses for a dot of given types and precision.
#pragma once
#include "lowering.h"

namespace pallasim::interp {

MatrixUnit matrix_unit(Emitter&, const Op&, const Contraction&);

}  // namespace pallasim::interp
