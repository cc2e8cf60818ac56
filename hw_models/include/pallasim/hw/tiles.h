// How arrays lie in the vector memory of a TPU core: in whole tiles.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "pallasim/ir/dtype.h"

namespace pallasim::hw {

// The tile of an array, one factor per dimension, 1 for all but the two minor ones: (8, 128), fewer rows where the
// array has fewer, but at least what packs into a 32-bit word; of one dimension 128 times what packs into a word.
// Source: JAX's tpu_info.infer_tiling (0.10.2), which follows the compiler's.
std::vector<int64_t> tile(ir::DType, std::span<const int64_t> dims);
// Elements that are missing to whole tiles, per dimension.
std::vector<int64_t> tile_padding(ir::DType, std::span<const int64_t> dims);
// Bytes of the array in whole tiles; bool takes 32 bits per element there.
int64_t tiled_bytes(ir::DType, std::span<const int64_t> dims);

}  // namespace pallasim::hw
