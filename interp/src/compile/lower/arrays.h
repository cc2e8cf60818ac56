// Whole-array operations: operands become dense memory, one step does the rest (plan/array.h).
#pragma once
#include <vector>

#include "../../plan/array.h"
#include "../../plan/payload/array.h"
#include "lowering.h"

namespace pallasim::interp {

// Result types of these operations are taken as written: what does not fit together is refused before anything is
// bound.
void require(Emitter&, const Op&, bool holds, const char* what);

struct ArrayResult {
  ir::DType dtype;
  std::vector<int64_t> dims;
};
std::vector<Val> emit_array(Emitter&, const std::vector<Val>& args, const std::vector<ArrayResult>& results, ArrayBody);
// Into places that are dense, and that no argument shows.
void emit_array_into(Emitter&, const std::vector<Val>& args, const std::vector<Val>& places, ArrayBody);
// All operands to all results.
void define_array(Emitter&, const Op&, ArrayBody);
// The same at once: a body that does more than to give results.
void define_arrays(Emitter&, const Op&, ArrayBody);

}  // namespace pallasim::interp
