// Products whose operands have a scale per row and block along k.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../plan/payload/arithmetic.h"

namespace pallasim::interp {
struct Execution;

namespace ops {

// Rows of k elements; of a right operand the columns of its matrix. Strides in elements.
struct ScaledOperand {
  const std::byte* at;
  ir::DType dtype;
  int64_t row, column;
  const std::byte* scales;
  ir::DType scale_dtype;
  int64_t scale_row, scale_column;
  int64_t block;  // elements of one scale
};
struct ScaledProduct {
  ScaledOperand left, right;
};

// sum[m, n] (+)= the product, with the types and sums of `p`; its operands' places are those of `x`.
void multiply_scaled(Execution& ex, const ContractPayload& p, std::byte* sum, const ScaledProduct& x);

}  // namespace ops
}  // namespace pallasim::interp
