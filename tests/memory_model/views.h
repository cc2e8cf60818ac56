// Views of small arrays, and the bytes that they show, one by one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "pallasim/memory/shadow/races.h"

namespace pallasim::memory::shadow {

using Bytes = std::set<int64_t>;

struct ArrayView {
  std::vector<int64_t> dims, strides;
  int64_t offset, element;
};

// Bytes one by one, without a box.
inline void visit(const ArrayView& v, size_t d, int64_t at, Bytes* r) {
  if (d == v.dims.size()) {
    for (int64_t b = 0; b < v.element; ++b) r->insert(at + b);
    return;
  }
  for (int64_t i = 0; i < v.dims[d]; ++i) visit(v, d + 1, at + i * v.strides[d] * v.element, r);
}
inline Bytes bytes_of(const ArrayView& v) {
  Bytes r;
  visit(v, 0, v.offset, &r);
  return r;
}
inline Box box_of(const ArrayView& v) {
  return Box(v.offset, v.dims.data(), v.strides.data(), static_cast<int>(v.dims.size()), v.element);
}
inline Bytes bytes_of(const Box& b) {
  Bytes r;
  for (const Range& x : b.rows())
    for (int64_t i = x.begin; i < x.end; ++i) r.insert(i);
  return r;
}
inline bool meet(const Bytes& a, const Bytes& b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t x) { return b.count(x) > 0; });
}

// One element of an instance.
inline Access element(Actor who, bool write, int32_t site, int64_t offset = 0) {
  static const int64_t one = 1;
  Access a;
  a.who = who;
  a.offset = offset;
  a.dims = a.strides = &one;
  a.rank = 1;
  a.element_bytes = 4;
  a.write = write;
  a.site = site;
  return a;
}

class Random {
 public:
  explicit Random(uint64_t seed) : rng_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  // Mostly parts of one 6 x 8 array of elements of 4 bytes, as kernels have them; sometimes anything.
  ArrayView view() {
    ArrayView v;
    v.element = below(8) == 0 ? 1 + below(8) : 4;
    if (below(5) == 0) {
      for (int64_t n = below(4); n > 0; --n)
        v.dims.push_back(below(4) + (below(6) > 0)), v.strides.push_back(below(13) - 4);
      v.offset = 200 + below(100);
      return v;
    }
    const int64_t r = below(6), c = below(8), rs = 1 + (below(4) == 0), cs = 1 + (below(4) == 0);
    v.dims = {1 + below((6 - r + rs - 1) / rs), 1 + below((8 - c + cs - 1) / cs)};
    v.strides = {8 * rs, cs};
    v.offset = (r * 8 + c) * 4;
    if (below(4) == 0) std::swap(v.dims[0], v.dims[1]), std::swap(v.strides[0], v.strides[1]);
    v.element = 4;
    return v;
  }

 private:
  std::mt19937_64 rng_;
};

}  // namespace pallasim::memory::shadow
