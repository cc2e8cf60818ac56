// Operations whose result is made where it is wanted (destination-passing), as data: each waits for its one use, which
// gives it the memory.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "../../plan/array.h"
#include "value.h"

namespace pallasim::interp {

class Emitter;

struct Into {
  struct Product {  // of the two operands, whose strides it has
    Contraction contraction;
    MatrixUnit unit;
  };
  struct Reshaped {};  // the operand's elements in row-major order
  struct Concatenated {
    size_t axis;
  };
  struct Padded {  // by the second operand: element i of the first one lies at first + step * i
    std::vector<int64_t> first, count, step;
    bool apart;  // padding lies between elements, too
  };
  struct Tiled {
    std::vector<int64_t> reps;
  };
  struct Stacked {
    size_t axis;
  };
  struct Whole {  // by a step on whole arrays
    ArrayBody body;
  };
  std::variant<Product, Reshaped, Concatenated, Padded, Tiled, Stacked, Whole> form;

  // It has to be contiguous.
  bool wants_dense() const { return std::holds_alternative<Reshaped>(form) || std::holds_alternative<Whole>(form); }
};

// The steps that write all of `dst`, which no argument shows.
void emit_into(Emitter&, const Into&, const std::vector<Val>& args, const Val& dst);

// Elements `first` + `step` * i of an array, for i within `dims`; without steps: side by side.
Val box(const Val& array, const std::vector<int64_t>& first, const std::vector<int64_t>& dims,
        const std::vector<int64_t>& step = {});

}  // namespace pallasim::interp
