// Argument reductions and running reductions (each element folds the one before it, in order).
#include "math_f32.h"
#include "reduce.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

template <bool Max>
struct Best {
  template <class T>
  static bool better(T x, T best) {
    const bool nan = (x != x) & (best == best);
    return (best == best) & ((Max ? x > best : x < best) | nan);
  }
  // The extreme of a strip, NaN if it holds one; which zero does not matter.
  using Op = std::conditional_t<Max, MaxNan, MinNan>;
};

template <class T, bool Max>
[[gnu::noinline]] void arg_reduce(DType d, void* dst, DType index, const void* src, int64_t outer, int64_t rows,
                                  int64_t inner) {
  using B = Best<Max>;
  using I = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  const LoadFn load = load_fn(d);
  const ConvertFn to = convert_fn(DType::I64, index);
  const StoreFn store = store_fn(index);
  const int64_t esize = bytes_of(d), isize = bytes_of(index);
  const Semantics sem;
  auto* in = static_cast<const char*>(src);
  auto* out = static_cast<char*>(dst);
  alignas(64) T x[kStrip];
  alignas(64) char reg[kLanes * 8];
  int64_t found[kLanes];
  auto put = [&](int64_t at, int64_t n) {
    to(reg, found, n, sem);
    store(out + at * isize, reg, n, 1);
  };
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o) {
      T best{};
      int64_t where = 0;
      for (int64_t at = 0; at < rows; at += kStrip) {
        const int64_t n = rows - at < kStrip ? rows - at : kStrip;
        load(x, in + (o * rows + at) * esize, n, 1);
        const T top = fold_lanes<T, typename B::Op>(x, n, x[0]);
        if (at != 0 && !B::better(top, best)) continue;
        int64_t i = 0;
        if (top != top)
          while (x[i] == x[i]) ++i;
        else
          while (x[i] != top) ++i;
        best = top, where = at + i;
      }
      found[o % kLanes] = where;
      if (o % kLanes == kLanes - 1 || o == outer - 1) put(o - o % kLanes, o % kLanes + 1);
    }
    return;
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; j += kLanes) {
      const int64_t width = inner - j < kLanes ? inner - j : kLanes;
      T best[kLanes];
      I where[kLanes];
      for (int64_t r = 0; r < rows; ++r) {
        load(x, in + ((o * rows + r) * inner + j) * esize, width, 1);
        PALLASIM_VLOOP(l, width) {
          const bool b = r == 0 || B::better(x[l], best[l]);
          best[l] = b ? x[l] : best[l];
          where[l] = b ? static_cast<I>(r) : where[l];
        }
      }
      for (int64_t l = 0; l < width; ++l) found[l] = where[l];
      put(o * inner + j, width);
    }
  }
}

template <DType D, bool Max>
void arg_entry(void* dst, DType index, const void* src, int64_t outer, int64_t rows, int64_t inner) {
  arg_reduce<Reg<D>, Max>(D, dst, index, src, outer, rows, inner);
}

// A running reduction: its state, the state after one more element, and what it shows.
// Identity: 0, 1, 2 (lowest), 3 (highest), 4 (NaN: where numbers win over NaN it changes nothing).
template <class T, class Op, int Identity>
struct Running {
  T v;
  static Running start() {
    using L = std::numeric_limits<T>;
    if constexpr (std::is_same_v<T, C64> || std::is_same_v<T, C128>) return {T{Identity, 0}};
    else if constexpr (Identity == 2) return {L::has_infinity ? static_cast<T>(-L::infinity()) : L::lowest()};
    else if constexpr (Identity == 3) return {L::has_infinity ? L::infinity() : L::max()};
    else if constexpr (Identity == 4) return {L::quiet_NaN()};
    else return {T{Identity}};
  }
  T step(T x) { return v = Op::f(v, x); }
};
template <class T>
struct RunningLse {  // log of the sum of exponentials: the largest element and the sum relative to it
  T m, s;
  static RunningLse start() { return {-std::numeric_limits<T>::infinity(), 0}; }
  static T exp_(T x) {
    if constexpr (sizeof(T) == 4) return m32::exp(x);
    else return m64::exp(x);
  }
  static T log_(T x) {
    if constexpr (sizeof(T) == 4) return m32::log(x);
    else return m64::log(x);
  }
  T step(T x) {
    const T top = MaxNan::f(m, x);
    const T a = m == top ? T{0} : m - top, b = x == top ? T{0} : x - top;
    s = s * exp_(a) + exp_(b);
    m = top;
    return m + log_(s);
  }
};

template <class T, class State>
[[gnu::noinline]] void scan(DType d, void* dst, const void* src, int64_t outer, int64_t rows, int64_t inner,
                            bool reverse, const Semantics& sem) {
  const LoadFn load = load_fn(d);
  const StoreFn store = store_fn(d);
  const int64_t esize = bytes_of(d);
  auto* in = static_cast<const char*>(src);
  auto* out = static_cast<char*>(dst);
  alignas(64) T x[kStrip];
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o) {
      State state = State::start();
      for (int64_t done = 0; done < rows; done += kStrip) {
        const int64_t n = rows - done < kStrip ? rows - done : kStrip;
        const int64_t at = (o * rows + (reverse ? rows - done - n : done)) * esize;
        load(x, in + at, n, 1);
        if (reverse)
          for (int64_t i = n; i-- > 0;) x[i] = state.step(x[i]);
        else
          for (int64_t i = 0; i < n; ++i) x[i] = state.step(x[i]);
        round_register(d, x, n, sem);
        store(out + at, x, n, 1);
      }
    }
    return;
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; j += kLanes) {
      const int64_t width = inner - j < kLanes ? inner - j : kLanes;
      State state[kLanes];
      for (int64_t l = 0; l < width; ++l) state[l] = State::start();
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t at = ((o * rows + (reverse ? rows - 1 - k : k)) * inner + j) * esize;
        load(x, in + at, width, 1);
        PALLASIM_VLOOP(l, width) x[l] = state[l].step(x[l]);
        round_register(d, x, width, sem);
        store(out + at, x, width, 1);
      }
    }
  }
}

template <DType D, OpCode O>
void scan_entry(void* dst, const void* src, int64_t outer, int64_t rows, int64_t inner, bool reverse,
                const Semantics& sem) {
  using T = Reg<D>;
  auto run = [&]<class S>(S*) { scan<T, S>(D, dst, src, outer, rows, inner, reverse, sem); };
  if constexpr (O == OpCode::cumsum) {
    run(static_cast<Running<T, SumOp, 0>*>(nullptr));
  } else if constexpr (O == OpCode::cumprod) {
    run(static_cast<Running<T, ProdOp, 1>*>(nullptr));
  } else if constexpr (O == OpCode::cumlogsumexp) {
    run(static_cast<RunningLse<T>*>(nullptr));
  } else {
    constexpr bool max = O == OpCode::cummax;
    constexpr int number = std::is_floating_point_v<T> ? 4 : max ? 2 : 3;
    if (sem.nan_propagates_in_minmax)
      run(static_cast<Running<T, std::conditional_t<max, MaxNan, MinNan>, max ? 2 : 3>*>(nullptr));
    else run(static_cast<Running<T, std::conditional_t<max, MaxNum, MinNum>, number>*>(nullptr));
  }
}

template <OpCode O>
CumulativeFn scan_for(DType d) {
  switch (d) {
#define X(e, t, c, b)                                                                                            \
  case DType::e: {                                                                                               \
    constexpr DTypeClass k = DTypeClass::c;                                                                      \
    constexpr bool order = O == OpCode::cummax || O == OpCode::cummin;                                           \
    if constexpr (O == OpCode::cumlogsumexp ? k == DTypeClass::Float                                             \
                                            : k == DTypeClass::Float || k == DTypeClass::Int ||                  \
                                                  k == DTypeClass::UInt || (k == DTypeClass::Complex && !order)) \
      return scan_entry<DType::e, O>;                                                                            \
    else return nullptr;                                                                                         \
  }
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

}  // namespace

ArgReduceFn arg_reduce_fn(OpCode op, DType d) {
  if (op != OpCode::argmax && op != OpCode::argmin) return nullptr;
  switch (d) {
#define X(e, t, c, b)                                                                       \
  case DType::e:                                                                            \
    if constexpr (DTypeClass::c == DTypeClass::Float || DTypeClass::c == DTypeClass::Int || \
                  DTypeClass::c == DTypeClass::UInt || DTypeClass::c == DTypeClass::Bool)   \
      return op == OpCode::argmax ? arg_entry<DType::e, true> : arg_entry<DType::e, false>; \
    else return nullptr;
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

CumulativeFn cumulative_fn(OpCode op, DType d) {
  switch (op) {
    case OpCode::cumsum: return scan_for<OpCode::cumsum>(d);
    case OpCode::cumprod: return scan_for<OpCode::cumprod>(d);
    case OpCode::cummax: return scan_for<OpCode::cummax>(d);
    case OpCode::cummin: return scan_for<OpCode::cummin>(d);
    case OpCode::cumlogsumexp: return scan_for<OpCode::cumlogsumexp>(d);
    default: return nullptr;
  }
}

}  // namespace pallasim::interp::PALLASIM_KNS
