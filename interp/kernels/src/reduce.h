// The specified reduction tree (docs/numerics.md), shared by reductions and argument reductions:
//   a column (inner > 1): blocks of 64 rows, each folded in order from the identity;
//   a row (inner == 1): blocks of 64 x 64 elements, each folded into 64 lanes (element i into lane i % 64), then
//   the upper half of the lanes is folded into the lower until one is left;
//   blocks: neighbours of equal size are joined first (a binary counter), the rest from the last to the first.
#pragma once
#include "formats.h"
#include "loops.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

constexpr int kLanes = 64;
constexpr int64_t kBlock = 64 * kLanes;
constexpr int kLevels = 58;

struct SumOp {
  template <class T>
  static T f(T a, T b) {
    return a + b;
  }
};
struct ProdOp {
  template <class T>
  static T f(T a, T b) {
    return a * b;
  }
};
struct AndOp {
  template <class T>
  static T f(T a, T b) {
    return a & b;
  }
};
struct OrOp {
  template <class T>
  static T f(T a, T b) {
    return a | b;
  }
};
struct XorOp {
  template <class T>
  static T f(T a, T b) {
    return a ^ b;
  }
};

// 64 lanes as vectors of the machine's width (complex numbers: one by one).
template <class T>
struct VectorOf {
  static constexpr int kWidth = kVectorBytes / sizeof(T);
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <class P>
struct VectorOf<Cx<P>> {
  static constexpr int kWidth = 1;
  using type = Cx<P>;
};

template <class T, class Op>
struct Lanes {
  using V = typename VectorOf<T>::type;
  static constexpr int kWidth = VectorOf<T>::kWidth, kCount = kLanes / kWidth;
  V v[kCount];

  explicit Lanes(T identity) {
    T row[kLanes];
    for (int l = 0; l < kLanes; ++l) row[l] = identity;
    std::memcpy(v, row, sizeof v);
  }
  void fold(const T* x) {
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) {
      V y;
      std::memcpy(&y, x + k * kWidth, sizeof y);
      v[k] = Op::template f<V>(v[k], y);
    }
  }
  T halve() {
#pragma GCC unroll 8
    for (int h = kCount / 2; h > 0; h /= 2)
      for (int k = 0; k < h; ++k) v[k] = Op::template f<V>(v[k], v[k + h]);
    return halve_vector(v[0]);
  }
  static T halve_vector(V r) {
    if constexpr (kWidth == 1) {
      return r;
    } else {
      using I = std::conditional_t<sizeof(T) == 1, int8_t, std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
      typedef I Index __attribute__((vector_size(kVectorBytes)));
#pragma GCC unroll 8
      for (int h = kWidth / 2; h > 0; h /= 2) {
#ifdef __clang__  // no shuffle by a vector of indices
        V rotated;
        for (int l = 0; l < kWidth; ++l) rotated[l] = r[(l + h) % kWidth];
#else
        Index from;
        for (int l = 0; l < kWidth; ++l) from[l] = static_cast<I>((l + h) % kWidth);
        const V rotated = __builtin_shuffle(r, from);
#endif
        r = Op::template f<V>(r, rotated);
      }
      return r[0];
    }
  }
};

// One block of a row. Lanes without an element hold the identity, which changes nothing: a lane never holds -0 in a sum
// (0 + -0 = 0). Products of complex numbers are another matter (0 * inf), their lanes are left alone.
template <class T, class Op>
[[gnu::noinline]] T fold_lanes(const T* x, int64_t n, T identity) {
  using L = Lanes<T, Op>;
  if constexpr (L::kWidth > 1) {
    if (n <= L::kWidth) {
      T row[L::kWidth];
      for (int l = 0; l < L::kWidth; ++l) row[l] = identity;
      typename L::V start, y;
      std::memcpy(&start, row, sizeof start);
      for (int l = 0; l < n; ++l) row[l] = x[l];
      std::memcpy(&y, row, sizeof y);
      return L::halve_vector(Op::template f<typename L::V>(start, y));
    }
  }
  L acc(identity);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) acc.fold(x + i);
  if (i < n) {
    if constexpr (L::kWidth > 1) {
      T row[kLanes];
      for (int l = 0; l < kLanes; ++l) row[l] = identity;
      std::memcpy(row, x + i, static_cast<size_t>(n - i) * sizeof(T));
      acc.fold(row);
    } else {
      for (int l = 0; l < n - i; ++l) acc.v[l] = Op::template f<T>(acc.v[l], x[i + l]);
    }
  }
  return acc.halve();
}

// One block of up to 64 columns side by side.
template <class T, class Op>
[[gnu::noinline]] void fold_columns(T* out, const T* x, int64_t stride, int64_t rows, int width, T identity) {
  if (width == kLanes) {
    Lanes<T, Op> acc(identity);
    for (int64_t r = 0; r < rows; ++r) acc.fold(x + r * stride);
    std::memcpy(out, acc.v, sizeof acc.v);
  } else {
    for (int l = 0; l < width; ++l) out[l] = identity;
    for (int64_t r = 0; r < rows; ++r) PALLASIM_VLOOP(l, width) out[l] = Op::template f<T>(out[l], x[r * stride + l]);
  }
}

// The stack of partial results of a binary counter.
template <class T, class Op>
struct Joiner {
  T stack[kLevels][kLanes];
  int depth = 0;
  int64_t count = 0;

  T* slot() { return stack[depth]; }  // the next block's results go here
  void push(int width) {
    ++depth;
    for (int64_t c = ++count; (c & 1) == 0; c >>= 1) join(width);
  }
  [[gnu::noinline]] void join(int width) {
    --depth;
    T* a = stack[depth - 1];
    const T* b = stack[depth];
    for (int l = 0; l < width; ++l) a[l] = Op::f(a[l], b[l]);
  }
  const T* finish(int width) {
    while (depth > 1) join(width);
    return stack[0];
  }
};

}  // namespace
}  // namespace pallasim::interp::PALLASIM_KNS
