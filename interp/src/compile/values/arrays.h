// Steps on whole arrays: operands become dense memory, one step does the rest (plan/array.h).
#pragma once
#include <vector>

#include "../../plan/array.h"
#include "emitter.h"

namespace pallasim::interp {

struct ArrayResult {
  ir::DType dtype;
  std::vector<int64_t> dims;
};
std::vector<Val> emit_array(Emitter&, const std::vector<Val>& args, const std::vector<ArrayResult>& results, ArrayBody);
// Into places that are dense, and that no argument shows.
void emit_array_into(Emitter&, const std::vector<Val>& args, const std::vector<Val>& places, ArrayBody);
}  // namespace pallasim::interp
