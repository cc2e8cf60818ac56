// Counting through the indices of an array. The kernels for each instruction set have a counter of their own: what they
// inline must not be shared between them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "pallasim/memory/window.h"

namespace pallasim::memory {

// A number for each of so many dimensions, at first 0. Others are not written: to clear all that there could be takes
// longer than most of what is counted.
struct IndexVector {
  explicit IndexVector(size_t rank) {
    for (size_t d = 0; d < rank; ++d) at[d] = 0;
  }
  operator int64_t*() { return at; }
  operator const int64_t*() const { return at; }
  int64_t at[kMaxRank];
};

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

// Calls f(begin, bytes) for each run of a strided region, in row-major order, until it returns false; false then.
// `begin`: bytes from its first element. Minor dimensions that follow each other without gaps are one run.
template <typename F>
bool for_runs(const int64_t* dims, const int64_t* strides, int rank, int element_bytes, F&& f) {
  for (int d = 0; d < rank; ++d)
    if (dims[d] <= 0) return true;
  int64_t length = element_bytes;
  auto outer = static_cast<size_t>(rank);
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] * element_bytes == length)) length *= dims[--outer];
  IndexVector index(outer);
  do {
    int64_t element = 0;
    for (size_t d = 0; d < outer; ++d) element += index[d] * strides[d];
    if (!f(element * element_bytes, length)) return false;
  } while (next_index(index, outer, dims));
  return true;
}

}  // namespace pallasim::memory
