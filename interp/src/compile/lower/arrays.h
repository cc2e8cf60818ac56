// Whole-array operations: operands become dense memory, one step does the rest (plan/array.h).
#pragma once
#include "../values/arrays.h"
#include "lowering.h"

namespace pallasim::interp {

// Result types of these operations are taken as written: what does not fit together is refused before anything is
// bound.
void require(Emitter&, const Op&, bool holds, const char* what);

// All operands to all results.
void define_array(Emitter&, const Op&, ArrayBody);
// The same at once: a body that does more than to give results.
void define_arrays(Emitter&, const Op&, ArrayBody);

}  // namespace pallasim::interp
