#include "reduce.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

template <class T>
T identity_of(OpCode op, DType d) {
  if (op == OpCode::reduce_sum || op == OpCode::reduce_or || op == OpCode::reduce_xor) return T{};
  if constexpr (std::is_same_v<T, C64> || std::is_same_v<T, C128>) {
    return T{1, 0};
  } else {
    if (op == OpCode::reduce_prod) return T{1};
    const bool max = op == OpCode::reduce_max;
    if constexpr (std::is_floating_point_v<T>) {
      T top = std::numeric_limits<T>::infinity();
      if constexpr (sizeof(T) == 4) {  // formats without infinity start from their largest value
        with_narrow_float(d, [&](auto t) {
          using F = Format<decltype(t)::value>;
          if (F::kKind != Kind::Ieee) top = as_f32(Layout<F>::kMax);
        });
      }
      return max ? -top : top;
    } else {
      if (op == OpCode::reduce_and && d != DType::Bool) return static_cast<T>(~T{});
      if (d == DType::Bool) return max ? T{0} : T{1};
      const int b = bits_of(d);
      if constexpr (std::is_signed_v<T>) {
        const T hi = static_cast<T>((uint64_t{1} << (b - 1)) - 1);
        return max ? static_cast<T>(-hi - 1) : hi;
      } else {
        return max ? T{0} : static_cast<T>(~uint64_t{0} >> (64 - b));
      }
    }
  }
}

template <class T, class Op>
[[gnu::noinline]] void reduce(DType d, T id, void* dst, const void* src, int64_t outer, int64_t rows, int64_t inner,
                              const Semantics& sem) {
  const bool direct = bytes_of(d) == static_cast<int>(sizeof(T));
  const LoadFn load = load_fn(d);
  const StoreFn store = store_fn(d);
  const int64_t esize = bytes_of(d);
  auto* in = static_cast<const char*>(src);
  auto* out = static_cast<char*>(dst);
  alignas(64) T buffer[kBlock];
  Joiner<T, Op> joiner;
  if (inner == 1) {
    alignas(64) T results[kStrip];
    for (int64_t o = 0; o < outer; o += kStrip) {
      const int64_t batch = outer - o < kStrip ? outer - o : kStrip;
      for (int64_t b = 0; b < batch; ++b) {
        const char* row = in + (o + b) * rows * esize;
        joiner.depth = 0, joiner.count = 0;
        for (int64_t at = 0; at == 0 || at < rows; at += kBlock) {
          const int64_t n = rows - at < kBlock ? rows - at : kBlock;
          const T* x = buffer;
          if (direct) x = reinterpret_cast<const T*>(row + at * esize);
          else load(buffer, row + at * esize, n, 1);
          joiner.slot()[0] = fold_lanes<T, Op>(x, n, id);
          joiner.push(1);
        }
        results[b] = joiner.finish(1)[0];
      }
      round_register(d, results, batch, sem);
      store(out + o * esize, results, batch, 1);
    }
    return;
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; j += kLanes) {
      const int width = static_cast<int>(inner - j < kLanes ? inner - j : kLanes);
      joiner.depth = 0, joiner.count = 0;
      for (int64_t r = 0; r == 0 || r < rows; r += 64) {
        const int64_t n = rows - r < 64 ? rows - r : 64;
        const char* at = in + ((o * rows + r) * inner + j) * esize;
        if (direct) {
          fold_columns<T, Op>(joiner.slot(), reinterpret_cast<const T*>(at), inner, n, width, id);
        } else {
          for (int64_t i = 0; i < n; ++i) load(buffer + i * kLanes, at + i * inner * esize, width, 1);
          fold_columns<T, Op>(joiner.slot(), buffer, kLanes, n, width, id);
        }
        joiner.push(width);
      }
      T* result = const_cast<T*>(joiner.finish(width));
      round_register(d, result, width, sem);
      store(out + (o * inner + j) * esize, result, width, 1);
    }
  }
}

// The dtype and the operation reach the body through the template, as ReduceFn carries no state.
template <DType D, OpCode O>
void reduce_entry(void* dst, const void* src, int64_t outer, int64_t rows, int64_t inner, const Semantics& sem) {
  using T = Reg<D>;
  const T id = identity_of<T>(O, D);
  const bool nan = sem.nan_propagates_in_minmax;
  if constexpr (O == OpCode::reduce_max || O == OpCode::reduce_min) {
    constexpr bool max = O == OpCode::reduce_max;
    if constexpr (std::is_floating_point_v<T>) {
      using N = std::conditional_t<max, MaxNan, MinNan>;
      using M = std::conditional_t<max, MaxNum, MinNum>;
      // Where numbers win over NaN, NaN is what changes nothing.
      const T start = nan || rows == 0 ? id : std::numeric_limits<T>::quiet_NaN();
      (nan ? reduce<T, N> : reduce<T, M>)(D, start, dst, src, outer, rows, inner, sem);
    } else {
      reduce<T, std::conditional_t<max, MaxOf, MinOf>>(D, id, dst, src, outer, rows, inner, sem);
    }
  } else {
    // Signed integers wrap as unsigned ones.
    using W = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t,
                                 std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>>;
    using Op = std::conditional_t<
        O == OpCode::reduce_sum, SumOp,
        std::conditional_t<O == OpCode::reduce_prod, ProdOp,
                           std::conditional_t<O == OpCode::reduce_and, AndOp,
                                              std::conditional_t<O == OpCode::reduce_or, OrOp, XorOp>>>>;
    reduce<W, Op>(D, std::bit_cast<W>(id), dst, src, outer, rows, inner, sem);
  }
}

template <OpCode O>
ReduceFn reduce_for(DType d) {
  switch (d) {
#define X(e, t, c, b)                                                                                              \
  case DType::e: {                                                                                                 \
    constexpr DTypeClass k = DTypeClass::c;                                                                        \
    constexpr bool arith = O == OpCode::reduce_sum || O == OpCode::reduce_prod;                                    \
    constexpr bool order = O == OpCode::reduce_max || O == OpCode::reduce_min;                                     \
    if constexpr ((k == DTypeClass::Float && (arith || order)) || k == DTypeClass::Int || k == DTypeClass::UInt || \
                  (k == DTypeClass::Bool && !arith) || (k == DTypeClass::Complex && arith))                        \
      return reduce_entry<DType::e, O>;                                                                            \
    else return nullptr;                                                                                           \
  }
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

}  // namespace

ReduceFn reduce_fn(OpCode op, DType d) {
  switch (op) {
    case OpCode::reduce_sum: return reduce_for<OpCode::reduce_sum>(d);
    case OpCode::reduce_prod: return reduce_for<OpCode::reduce_prod>(d);
    case OpCode::reduce_max: return reduce_for<OpCode::reduce_max>(d);
    case OpCode::reduce_min: return reduce_for<OpCode::reduce_min>(d);
    case OpCode::reduce_and: return reduce_for<OpCode::reduce_and>(d);
    case OpCode::reduce_or: return reduce_for<OpCode::reduce_or>(d);
    case OpCode::reduce_xor: return reduce_for<OpCode::reduce_xor>(d);
    default: return nullptr;
  }
}

}  // namespace pallasim::interp::PALLASIM_KNS
