// Elementwise operations as values that wait for their consumer.
#pragma once
#include <vector>

#include "../../plan/payload/arithmetic.h"
#include "emitter.h"

namespace pallasim::interp {

// An operation that its consumer may inline.
Val node(Emitter&, ir::OpCode, ir::DType operand, ir::DType result, std::vector<Val> args, std::vector<int64_t> dims,
         const StripParams&);
// A scalar or a splat where all arguments are, else a node. `defines`: the value that is defined as it (new_scalar).
Val elementwise_value(Emitter&, ir::OpCode, ir::DType operand, const ir::Type& result, std::vector<Val> args,
                      const StripParams&, ir::ValueId defines = kNoResult);
Val convert_value(Emitter&, const Val&, ir::DType to, ir::ValueId defines = kNoResult);
// The step that computes `v` into `dst`.
void emit_elementwise(Emitter&, const Val& dst, const Val& v, bool writes_memory);
// What it does. `joined`: dimensions that lie side by side in all operands are one.
// `sources`: receives the operations, in their order; may be null.
EltProgram elementwise_program(Emitter&, const Val& dst, const Val& v, bool joined,
                               std::vector<const ir::Op*>* sources);

}  // namespace pallasim::interp
