// Whole-array operations: what they are given, and what makes their bodies.
#pragma once
#include <vector>

#include "payload/array.h"

namespace pallasim::interp {

namespace arrays {

using Dims = std::vector<int64_t>;
inline int64_t count(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

enum class Bounds { Clip, Drop };
struct GatherShape {
  Dims operand, indices, result, slice;
  std::vector<int> offset_dims, collapsed, start_map, operand_batch, index_batch;
  ir::DType dtype, index;
  Bounds bounds = Bounds::Clip;
  std::byte fill[16] = {};  // memory form
};
struct ScatterShape {
  Dims operand, indices, updates;
  std::vector<int> window_dims, inserted, start_map, operand_batch, index_batch;
  ir::DType dtype, index;
  Bounds bounds = Bounds::Drop;
  StripFn combine = nullptr;  // null: the update replaces
  StripParams params;
};

// Specs name dimensions: batch, feature and the spatial ones (rhs: output and input feature first). Sums run over the
// window in row-major order, then over features, in f32, f64 or wrapping 64-bit integers.
struct ConvShape {
  Dims lhs, rhs, out;
  std::vector<int> lhs_spec, rhs_spec, out_spec;
  Dims strides, low, high, lhs_dilation, rhs_dilation;  // per spatial dimension
  int64_t feature_groups = 1, batch_groups = 1;
  ir::DType in, result;
  Semantics semantics;
};

enum class RngAlgorithm { ThreeFry, Philox };

}  // namespace arrays

// ops/ defines them; StepFunctions::arrays.
struct ArrayFunctions {
  using Dims = arrays::Dims;

  // Rotation of in[0] along `axis` by in[1] (an integer scalar) + stride * index along stride_axis; stride_axis -1:
  // none.
  ArrayBody (*roll)(Dims dims, int axis, int64_t stride, int stride_axis, ir::DType dtype, ir::DType shift);
  // Bits of [outer][rows][inner] elements regrouped along the rows: narrow rows of one word lie low bits first.
  ArrayBody (*regroup)(int64_t outer, int64_t rows, int64_t inner, ir::DType from, ir::DType to);
  // Element k of every operand becomes bits [k * width, (k + 1) * width) of a word.
  ArrayBody (*pack)(int64_t n, ir::DType from, ir::DType packed, int sources);
  ArrayBody (*unpack)(int64_t n, ir::DType word, ir::DType packed, ir::DType to, int index);
  // f32 to a narrower float: rounds away from zero where the discarded part is at least the random bits below it.
  ArrayBody (*stochastic_round)(int64_t n, ir::DType to);
  ArrayBody (*sort)(Dims dims, int axis, std::vector<ir::DType> dtypes, int keys);
  ArrayBody (*top_k)(Dims dims, int axis, int64_t k, ir::DType dtype, ir::DType index);
  ArrayBody (*gather_slices)(arrays::GatherShape);
  ArrayBody (*scatter_slices)(arrays::ScatterShape);
  ArrayBody (*convolution)(arrays::ConvShape);
  // Strides are 0 for operands that are scalars.
  ArrayBody (*threefry2x32)(int64_t n, std::vector<int64_t> strides);
  ArrayBody (*iota_2x32)(int64_t n);
  // in[0]: the state, u32[4] or u64[2] (key, counter); out: next state, bits.
  ArrayBody (*rng_bits)(arrays::RngAlgorithm, Dims result, ir::DType dtype);
  // A core's generator (docs/numerics.md): a slot holds the key (two u32 words) and how often it was drawn from (u64).
  ArrayBody (*prng_seed)(uint32_t slot, std::vector<int64_t> seed_words);
  ArrayBody (*prng_draw)(uint32_t slot, int64_t n);
};

}  // namespace pallasim::interp
