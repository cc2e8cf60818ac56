// Arithmetic on elements: strip programs, reductions, products.
#pragma once
#include <string>
#include <vector>

#include "../step.h"
#include "pallasim/hw/chips.h"

namespace pallasim::interp {

// How a matrix unit multiplies (Options::Numerics::Device); see ops/matrix_unit.cc.
struct MatrixUnit {
  enum class Format : uint8_t { Operand, Bf16, Tf32, Tf32Cut, F16 };  // Tf32: to nearest; Tf32Cut: toward zero
  bool plain = true;                                                  // as everywhere else
  Format format = Format::Operand;                                    // what f32 operands are split into
  int parts = 1;                                                      // per operand
  int passes = 1;  // products of parts that are summed, the smallest first
  hw::TensorSum sum = hw::TensorSum::Unknown;
  bool aligned() const { return sum != hw::TensorSum::Unknown; }
};
struct EltOperand {
  Addr addr;
  LoadFn load = nullptr;         // null: the memory form is the register form
  std::vector<int64_t> strides;  // elements, per loop dim
  int element_bytes = 4;
  uint16_t entry = 0;  // pointer table entry
  bool one = false;    // of each row one element, which is the same for all of its strips (StripParams::scalars)
};
struct EltSplat {
  uint32_t slot;
  CType ctype;
  uint16_t entry;
  bool one = false;  // used where it lies, as StripParams::scalars
};
struct EltOp {
  ir::OpCode code{};
  uint8_t arity = 0;  // of a, b, c so many are operands
  StripFn fn = nullptr;
  ConvertFn convert = nullptr;  // instead of fn
  uint16_t dst, a, b, c;        // pointer table entries
  StripParams params;
};
struct EltProgram {
  std::vector<int64_t> dims;  // loop dims, outermost first; the last is the strip dimension
  std::vector<EltOperand> operands;
  std::vector<EltSplat> splats;
  std::vector<EltOp> ops;
  Addr dst;
  std::vector<int64_t> dst_strides;  // elements
  int dst_bytes = 4;
  StoreFn store = nullptr;     // null: the last operation writes memory directly
  uint16_t result = 0;         // entry that holds the result
  int entries = 0;             // pointer table length
  int strips = 0;              // strip registers used
  bool complex = false;        // 16-byte registers: half strips
  bool writes_memory = false;  // dst is a ref's memory, not a temporary
  double ns = 0;               // rough cost
};
struct ReducePayload {
  Addr dst, src;
  int64_t outer, reduce, inner;
  ReduceFn fn = nullptr;
  ArgReduceFn arg = nullptr;
  CumulativeFn cumulative = nullptr;
  ir::DType index = ir::DType::I32;
  bool reverse = false;
  int element_bytes = 4;  // of the operand
  Semantics semantics;
};
struct ContractPayload {
  Addr dst, a, b;
  Contraction contraction;
  MatrixUnit unit;
  bool reference = false;  // one element at a time, in order of k
};
// A product that is in flight until it is awaited (wgmma). `now`: its sum is a value that the compiler may move.
struct AsyncProductPayload : ContractPayload {
  bool left_in_registers = false, right_in_registers = false, now = false;
};
// A scalar operation that has no body of its own: slots a, b, c -> dst.
struct ScalarStrip {
  int arity;  // of a, b, c so many are operands
  StripFn fn;
  ConvertFn convert;
  StripParams params;
};

}  // namespace pallasim::interp
