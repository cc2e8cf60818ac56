// Literals as numbers: for comments, messages and the builder. Exact: every narrow float is a double.
#pragma once
#include <cstdint>

#include "pallasim/ir/dtype.h"

namespace pallasim::ir {

// The value of the float `bits` of dtype `t`; a NaN's payload is not kept.
double bits_to_double(DType t, uint64_t bits);

// The bits of `value` rounded to nearest even in dtype `t` (any value dtype but complex and keys). Floats that overflow
// become infinity, or NaN or the largest value where the format has no infinity, as ml_dtypes rounds; integers wrap.
uint64_t double_to_bits(DType t, double value);

// The bits of an integer in dtype `t`: integers wrap, bool is value != 0, floats round.
uint64_t int_to_bits(DType t, int64_t value);

}  // namespace pallasim::ir
