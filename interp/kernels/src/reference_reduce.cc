// Reductions and running reductions of the reference table: the tree of docs/numerics.md written out one element at a
// time, apart from the fast bodies that are tested against it.
#include <type_traits>
#include <vector>

#include "formats.h"
#include "math_f32.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

enum class Fold { Sum, Prod, Max, Min, And, Or, Xor, Lse };

template <class T>
T fold(Fold f, T a, T b, bool nan) {
  if (f == Fold::Sum) return a + b;
  if (f == Fold::Prod) return a * b;
  if constexpr (std::is_arithmetic_v<T>) {
    if (f == Fold::Max || f == Fold::Min) {
      if (b != b) return nan ? b : (a != a ? b : a);
      if (a != a) return nan ? a : b;
      return f == Fold::Max ? (b > a ? b : a) : (b < a ? b : a);
    }
  }
  if constexpr (std::is_integral_v<T>) {
    if (f == Fold::And) return a & b;
    if (f == Fold::Or) return a | b;
    if (f == Fold::Xor) return a ^ b;
  }
  return a;
}

template <class T>
T identity(Fold f, DType d) {
  if constexpr (!std::is_arithmetic_v<T>) {
    return {f == Fold::Prod ? decltype(T::re){1} : decltype(T::re){0}, 0};
  } else {
    if (f == Fold::Prod) return T{1};
    if (f == Fold::Sum || f == Fold::Or || f == Fold::Xor) return T{0};
    if constexpr (std::is_floating_point_v<T>) {
      T top = std::numeric_limits<T>::infinity();
      with_narrow_float(d, [&](auto t) {
        top = quantize<Format<decltype(t)::value>>(static_cast<float>(top),
                                                   Format<decltype(t)::value>::kKind != Kind::Ieee);
      });
      return f == Fold::Max ? -top : top;
    } else {
      if (d == DType::Bool) return f == Fold::Max ? 0 : 1;
      if (f == Fold::And) return static_cast<T>(~T{0});
      const T hi = static_cast<T>(class_of(d) == DTypeClass::Int ? (uint64_t{1} << (bits_of(d) - 1)) - 1
                                                                 : ~uint64_t{0} >> (64 - bits_of(d)));
      return f == Fold::Min ? hi : class_of(d) == DTypeClass::Int ? static_cast<T>(-hi - 1) : T{0};
    }
  }
}

// Neighbours of equal size first: the left part is the largest power of two of blocks below the whole.
template <class T>
T join(const std::vector<T>& blocks, size_t first, size_t count, Fold f, bool nan) {
  if (count == 1) return blocks[first];
  size_t left = 1;
  while (left * 2 < count) left *= 2;
  return fold(f, join(blocks, first, left, f, nan), join(blocks, first + left, count - left, f, nan), nan);
}

template <DType D, Fold F>
void reduce_one(void* dst, const void* src, int64_t outer, int64_t rows, int64_t inner, const Semantics& sem) {
  using T = Reg<D>;
  const bool nan = sem.nan_propagates_in_minmax;
  T id = identity<T>(F, D);
  if constexpr (std::is_floating_point_v<T>)
    if ((F == Fold::Max || F == Fold::Min) && !nan && rows > 0) id = std::numeric_limits<T>::quiet_NaN();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      std::vector<T> x(static_cast<size_t>(rows)), blocks;
      for (int64_t r = 0; r < rows; ++r)
        load_fn(D)(&x[static_cast<size_t>(r)],
                   static_cast<const char*>(src) + ((o * rows + r) * inner + j) * bytes_of(D), 1, 1);
      const int64_t block = inner == 1 ? 4096 : 64, lanes = inner == 1 ? 64 : 1;
      for (int64_t at = 0; at == 0 || at < rows; at += block) {
        std::vector<T> lane(static_cast<size_t>(lanes), id);
        for (int64_t i = at; i < rows && i < at + block; ++i) {
          T& l = lane[static_cast<size_t>((i - at) % lanes)];
          l = fold(F, l, x[static_cast<size_t>(i)], nan);
        }
        for (size_t h = lane.size() / 2; h > 0; h /= 2)
          for (size_t l = 0; l < h; ++l) lane[l] = fold(F, lane[l], lane[l + h], nan);
        blocks.push_back(lane[0]);
      }
      T r = join(blocks, 0, blocks.size(), F, nan);
      round_register(D, &r, 1, sem);
      store_fn(D)(static_cast<char*>(dst) + (o * inner + j) * bytes_of(D), &r, 1, 1);
    }
  }
}

template <DType D, bool Max>
void arg_one(void* dst, DType index, const void* src, int64_t outer, int64_t rows, int64_t inner) {
  using T = Reg<D>;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      T best{};
      int64_t where = 0;
      for (int64_t r = 0; r < rows; ++r) {
        T x;
        load_fn(D)(&x, static_cast<const char*>(src) + ((o * rows + r) * inner + j) * bytes_of(D), 1, 1);
        if (r == 0 || (best == best && (x != x || (Max ? x > best : x < best)))) best = x, where = r;
      }
      int64_t reg = 0;
      const Semantics sem;
      convert_fn(DType::I64, index)(&reg, &where, 1, sem);
      store_fn(index)(static_cast<char*>(dst) + (o * inner + j) * bytes_of(index), &reg, 1, 1);
    }
  }
}

template <class T>
T lse_step(T& m, T& s, T x) {
  const T top = fold(Fold::Max, m, x, true);
  const T a = m == top ? T{0} : m - top, b = x == top ? T{0} : x - top;
  if constexpr (sizeof(T) == 4) s = s * m32::exp(a) + m32::exp(b), m = top;
  else s = s * m64::exp(a) + m64::exp(b), m = top;
  if constexpr (sizeof(T) == 4) return m + m32::log(s);
  else return m + m64::log(s);
}

template <DType D, Fold F>
void scan_one(void* dst, const void* src, int64_t outer, int64_t rows, int64_t inner, bool reverse,
              const Semantics& sem) {
  using T = Reg<D>;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      T v{}, m{}, s{};
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t at = ((o * rows + (reverse ? rows - 1 - k : k)) * inner + j) * bytes_of(D);
        T x, r;
        load_fn(D)(&x, static_cast<const char*>(src) + at, 1, 1);
        if constexpr (F == Fold::Lse) {
          if (k == 0) m = -std::numeric_limits<T>::infinity();
          r = lse_step(m, s, x);
        } else {
          if (k == 0) {
            v = identity<T>(F, DType::I2);  // sums and products; extremes start from the first element
            v = F == Fold::Max || F == Fold::Min ? x : fold(F, v, x, true);
          } else {
            v = fold(F, v, x, sem.nan_propagates_in_minmax);
          }
          r = v;
        }
        round_register(D, &r, 1, sem);
        store_fn(D)(static_cast<char*>(dst) + at, &r, 1, 1);
      }
    }
  }
}

template <template <DType> class Entry, class Fn>
Fn for_dtype(DType d) {
  switch (d) {
#define X(e, t, c, b)                                                                    \
  case DType::e:                                                                         \
    if constexpr (DTypeClass::c != DTypeClass::Key && DTypeClass::c != DTypeClass::Sync) \
      return Entry<DType::e>::get();                                                     \
    else return nullptr;
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

template <Fold F>
struct Of {
  template <DType D>
  struct Reduce {
    static ReduceFn get() {
      constexpr DTypeClass k = class_of(D);
      constexpr bool arith = F == Fold::Sum || F == Fold::Prod, order = F == Fold::Max || F == Fold::Min;
      if constexpr (k == DTypeClass::Int || k == DTypeClass::UInt || (k == DTypeClass::Float && (arith || order)) ||
                    (k == DTypeClass::Bool && !arith) || (k == DTypeClass::Complex && arith))
        return reduce_one<D, F>;
      else return nullptr;
    }
  };
  template <DType D>
  struct Scan {
    static CumulativeFn get() {
      constexpr DTypeClass k = class_of(D);
      constexpr bool order = F == Fold::Max || F == Fold::Min;
      if constexpr (F == Fold::Lse ? k == DTypeClass::Float
                                   : k == DTypeClass::Int || k == DTypeClass::UInt || k == DTypeClass::Float ||
                                         (k == DTypeClass::Complex && !order))
        return scan_one<D, F>;
      else return nullptr;
    }
  };
};
template <bool Max>
struct Arg {
  template <DType D>
  struct Entry {
    static ArgReduceFn get() {
      if constexpr (class_of(D) != DTypeClass::Complex) return arg_one<D, Max>;
      else return nullptr;
    }
  };
};

}  // namespace

ReduceFn reduce_fn(OpCode op, DType d) {
  switch (op) {
    case OpCode::reduce_sum: return for_dtype<Of<Fold::Sum>::Reduce, ReduceFn>(d);
    case OpCode::reduce_prod: return for_dtype<Of<Fold::Prod>::Reduce, ReduceFn>(d);
    case OpCode::reduce_max: return for_dtype<Of<Fold::Max>::Reduce, ReduceFn>(d);
    case OpCode::reduce_min: return for_dtype<Of<Fold::Min>::Reduce, ReduceFn>(d);
    case OpCode::reduce_and: return for_dtype<Of<Fold::And>::Reduce, ReduceFn>(d);
    case OpCode::reduce_or: return for_dtype<Of<Fold::Or>::Reduce, ReduceFn>(d);
    case OpCode::reduce_xor: return for_dtype<Of<Fold::Xor>::Reduce, ReduceFn>(d);
    default: return nullptr;
  }
}

ArgReduceFn arg_reduce_fn(OpCode op, DType d) {
  if (op == OpCode::argmax) return for_dtype<Arg<true>::Entry, ArgReduceFn>(d);
  if (op == OpCode::argmin) return for_dtype<Arg<false>::Entry, ArgReduceFn>(d);
  return nullptr;
}

CumulativeFn cumulative_fn(OpCode op, DType d) {
  switch (op) {
    case OpCode::cumsum: return for_dtype<Of<Fold::Sum>::Scan, CumulativeFn>(d);
    case OpCode::cumprod: return for_dtype<Of<Fold::Prod>::Scan, CumulativeFn>(d);
    case OpCode::cummax: return for_dtype<Of<Fold::Max>::Scan, CumulativeFn>(d);
    case OpCode::cummin: return for_dtype<Of<Fold::Min>::Scan, CumulativeFn>(d);
    case OpCode::cumlogsumexp: return for_dtype<Of<Fold::Lse>::Scan, CumulativeFn>(d);
    default: return nullptr;
  }
}

}  // namespace pallasim::interp::PALLASIM_KNS
