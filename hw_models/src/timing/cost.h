// What the cost models of machines share: sorts of arithmetic, sizes of values.
#pragma once
#include "pallasim/hw/timing.h"

namespace pallasim::hw {

enum class Sort : uint8_t {
  Free,     // no instruction, or one that costs nothing beside the others: shapes in registers, hints, constants
  Simple,   // one instruction per element
  Convert,  // of an element type
  Divide,
  Exp,
  Exp2,
  Log,
  Tanh,
  Logistic,
  Root,
  Trigonometric,
  Long,     // a function of many instructions
  Integer,  // division of integers
  Move,     // elements change their lanes
  Reduce,
  Scan,
  Sort_,
  Product,
  Load,
  Store,
  Random,
  Control,
};
Sort sort_of(ir::OpCode);
// The name of its figure: "simple", "exp2", …
std::string_view figure_of(Sort);

// The type of operand or result `i`; null where there is none, or where it is no static tensor.
const ir::Type* operand_type(const ir::Op&, const ir::Graph&, size_t i);
const ir::Type* result_type(const ir::Op&, const ir::Graph&, size_t i = 0);
// What a load or store moves: its result, or the value that is stored.
const ir::Type* moved_type(const ir::Op&, const ir::Graph&);
// Of memory that operand 0 refers to.
ir::Space space_of(const ir::Op&, const ir::Graph&);

inline int64_t ceil_div(int64_t a, int64_t b) { return b > 0 ? (a + b - 1) / b : a; }

// Of a dot_general.
ProductShape product_shape(const ir::Op&, const ir::Graph&);

std::unique_ptr<CostModel> tpu_cost_model(const ir::Module&, const Profile&, const TimingFigures&);
std::unique_ptr<CostModel> gpu_cost_model(const ir::Module&, const Profile&, const TimingFigures&, int64_t warps);

}  // namespace pallasim::hw
