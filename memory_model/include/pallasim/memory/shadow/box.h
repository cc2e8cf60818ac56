// Sets of bytes of an allocation: strided boxes in one canonical form, so that equal sets of ordinary views compare
// equal.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pallasim/memory/window.h"

namespace pallasim::memory::shadow {

// Bytes [begin, end) of an allocation.
struct Range {
  int64_t begin = 0, end = 0;
  bool operator==(const Range&) const = default;
};

// The bytes offset + i0 * stride0 + i1 * stride1 + … + b with 0 <= ik < countk and 0 <= b < run. Counts are at least
// 2, strides positive and descending; dimensions that follow each other without a gap are one. No bytes: run = 0.
struct Box {
  struct Dim {
    int64_t count, stride;  // stride: bytes
    bool operator==(const Dim&) const = default;
  };
  int64_t offset = 0, run = 0;
  int rank = 0;
  Dim dims[kMaxRank];

  Box() = default;
  Box(const Box& o) { *this = o; }
  Box& operator=(const Box& o) {
    offset = o.offset, run = o.run, rank = o.rank;
    for (int d = 0; d < rank; ++d) dims[d] = o.dims[d];
    return *this;
  }
  // One run of bytes.
  Box(int64_t begin, int64_t end) : offset(begin), run(end - begin) {}
  // A view: `offset` in bytes, `dims` and `strides` (of any sign) in elements, rank at most kMaxRank.
  Box(int64_t offset, const int64_t* dims, const int64_t* strides, int rank, int64_t element_bytes);

  bool empty() const { return run <= 0; }
  // Does no byte come twice, and are the runs in ascending order? So it is with views of arrays.
  bool nested() const;
  int64_t bytes() const;  // in the set, where nested; otherwise not less
  Range hull() const;     // from the first byte to behind the last
  bool operator==(const Box&) const;
  size_t hash() const;

  // The runs, ascending and disjoint; f(Range) for each.
  std::vector<Range> rows() const;
  template <typename F>
  void for_rows(const F& f) const;
  // Brings dimensions of positive strides, in descending order, into the form that is said above.
  void settle();
};

template <typename F>
void Box::for_rows(const F& f) const {
  if (empty()) return;
  if (rank == 0) return f(Range{offset, offset + run});
  if (rank == 1 && dims[0].stride > run) {
    for (int64_t i = 0, at = offset; i < dims[0].count; ++i, at += dims[0].stride) f(Range{at, at + run});
    return;
  }
  for (const Range& r : rows()) f(r);
}

// Have they a byte in common? Exact.
bool overlap(const Box&, const Box&);
// Are all bytes of `inner` in `outer`? True is certain; boxes of unlike strides may be refused although they are.
bool surely_inside(const Box& outer, const Box& inner);

// Appends boxes that make up what of `outer` is not in `inner`, which lies surely inside; both are nested. False, and
// nothing appended: they are not of one array's rows and columns.
bool subtract(const Box& outer, const Box& inner, std::vector<Box>* rest);

// The runs of the box without the holes.
std::vector<Range> rows_but(const Box&, std::vector<Range> holes);

struct BoxHash {
  size_t operator()(const Box& b) const { return b.hash(); }
};

}  // namespace pallasim::memory::shadow
