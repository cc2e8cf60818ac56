#include "pallasim/memory/window.h"

#include <algorithm>

namespace pallasim::memory {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> s(dims.size());
  int64_t n = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    s[i] = n;
    n *= dims[i];
  }
  return s;
}

Clip clip(std::span<const int64_t> array, std::span<const int64_t> block, const int64_t* start, const int64_t* size) {
  Clip c;
  int64_t block_stride = 1, array_stride = 1;
  for (size_t d = array.size(); d-- > 0;) {
    const int64_t first = std::max<int64_t>(0, -start[d]);
    c.count[d] = std::min(size ? size[d] : block[d], array[d] - start[d]) - first;
    c.empty |= c.count[d] <= 0;
    c.full &= c.count[d] == block[d];
    c.block_offset += first * block_stride;
    c.array_offset += (start[d] + first) * array_stride;
    block_stride *= block[d];
    array_stride *= array[d];
  }
  return c;
}

}  // namespace pallasim::memory
