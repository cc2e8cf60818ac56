// Counting through the indices of an array. The kernels for each instruction set have a counter of their own: what they
// inline must not be shared between them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace pallasim::memory {

// The next index in row-major order, the last of `rank` dimensions fastest; false where it begins anew at zeros.
// `size(d)`: of a dimension. `moved(d, by)`: its index has changed by so much, 1 or back to 0.
template <typename Size, typename Moved>
bool next_index(int64_t* index, size_t rank, const Size& size, const Moved& moved) {
  for (size_t d = rank; d-- > 0;) {
    const int64_t n = size(d);
    const bool more = ++index[d] < n;
    moved(d, more ? 1 : 1 - n);
    if (more) return true;
    index[d] = 0;
  }
  return false;
}

template <typename Dims>
bool next_index(int64_t* index, size_t rank, const Dims& dims) {
  return next_index(
      index, rank, [&](size_t d) { return dims[d]; }, [](size_t, int64_t) {});
}

}  // namespace pallasim::memory
