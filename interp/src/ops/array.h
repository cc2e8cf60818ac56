// What makes the bodies of whole-array operations; plan/array.h says what each is.
#pragma once
#include "../plan/array.h"

namespace pallasim::interp::ops {

using namespace arrays;

ArrayBody roll(Dims dims, int axis, int64_t stride, int stride_axis, ir::DType dtype, ir::DType shift);
ArrayBody regroup(int64_t outer, int64_t rows, int64_t inner, ir::DType from, ir::DType to);
ArrayBody pack(int64_t n, ir::DType from, ir::DType packed, int sources);
ArrayBody unpack(int64_t n, ir::DType word, ir::DType packed, ir::DType to, int index);
ArrayBody stochastic_round(int64_t n, ir::DType to);
ArrayBody sort(Dims dims, int axis, std::vector<ir::DType> dtypes, int keys);
ArrayBody top_k(Dims dims, int axis, int64_t k, ir::DType dtype, ir::DType index);
ArrayBody gather_slices(GatherShape);
ArrayBody scatter_slices(ScatterShape);
ArrayBody convolution(ConvShape);
ArrayBody threefry2x32(int64_t n, std::vector<int64_t> strides);
ArrayBody iota_2x32(int64_t n);
ArrayBody rng_bits(RngAlgorithm, Dims result, ir::DType dtype);
ArrayBody prng_seed(uint32_t slot, std::vector<int64_t> seed_words);
ArrayBody prng_draw(uint32_t slot, int64_t n);

}  // namespace pallasim::interp::ops
