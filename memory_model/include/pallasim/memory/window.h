// Blocks of arrays: which part of a block lies inside its array.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pallasim::memory {

inline constexpr int kMaxRank = 16;

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims);

// The overlap of a block with its array, in elements.
struct Clip {
  int64_t count[kMaxRank];   // extent of the overlap
  int64_t block_offset = 0;  // of its first element within the block, row-major
  int64_t array_offset = 0;  // and within the array
  bool empty = false;
  bool full = true;  // the whole block is inside
};
// `size`: how much of the block there is in each dimension, from its first element on; null: all of it.
Clip clip(std::span<const int64_t> array, std::span<const int64_t> block, const int64_t* start,
          const int64_t* size = nullptr);

}  // namespace pallasim::memory
