// Integer and boolean strips. Narrow integers sit in 32-bit registers, extended by their sign or by zeros, and wrap
// to their width after every operation.
#include <type_traits>

#include "arithmetic.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;

struct And {
  template <class T>
  static T f(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T f(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T f(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T f(T a) {
    return ~a;
  }
};
struct NotBool {
  template <class T>
  static T f(T a) {
    return a ^ 1;
  }
};
struct Neg {
  template <class T>
  static T f(T a) {
    return 0 - a;
  }
};
struct Abs {
  template <class T>
  static T f(T a) {
    return a < 0 ? 0 - a : a;
  }
};
struct Sign {
  template <class T>
  static T f(T a) {
    return (a > 0) - (a < 0);
  }
};
struct Square {
  template <class T>
  static T f(T a) {
    return a * a;
  }
};
struct Identity {
  template <class T>
  static T f(T a) {
    return a;
  }
};

// x / 0 = -1, INT_MIN / -1 = INT_MIN: neither reaches the machine's division. 32-bit quotients are exact in f64, which
// vectorises.
template <class T>
inline T quotient(T a, T b) {
  if constexpr (sizeof(T) == 4) return static_cast<T>(static_cast<double>(a) / static_cast<double>(b));
  else return a / b;
}
struct Div {
  template <class T>
  static T f(T a, T b) {
    const bool minus_one = std::is_signed_v<T> && b == static_cast<T>(-1);
    const T q = quotient<T>(a, (b == 0) | minus_one ? T{1} : b);
    return b == 0 ? static_cast<T>(-1) : minus_one ? static_cast<T>(0 - a) : q;
  }
};
template <bool ZeroIsX>
struct Rem {
  template <class T>
  static T f(T a, T b) {
    const bool minus_one = std::is_signed_v<T> && b == static_cast<T>(-1);
    const T safe = (b == 0) | minus_one ? T{1} : b;
    const T r = a - quotient<T>(a, safe) * safe;  // 0 for b = -1
    return b == 0 ? (ZeroIsX ? a : static_cast<T>(-1)) : r;
  }
};

// x^y, y a vector; a negative y truncates 1/x^|y|.
struct Pow {
  template <class T>
  static T f(T x, T y) {
    if (std::is_signed_v<T> && y < 0) return x == 1 ? T{1} : x == static_cast<T>(-1) ? (y & 1 ? x : T{1}) : T{0};
    T r = 1;
    for (U<T> e = static_cast<U<T>>(y); e; e >>= 1, x = x * x)
      if (e & 1) r = r * x;
    return r;
  }
};

template <class T>
void integer_pow(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams& p) {
  auto* d = static_cast<T*>(dst);
  auto* x = static_cast<const T*>(a);
  for (int64_t i = 0; i < n; ++i) {
    T r = 1, base = x[i];
    uint64_t e = p.imm < 0 ? 0 - static_cast<uint64_t>(p.imm) : static_cast<uint64_t>(p.imm);
    for (; e; e >>= 1, base = base * base)
      if (e & 1) r = r * base;
    d[i] = p.imm < 0 ? Div::f<T>(1, r) : r;
  }
  finish(dst, n, p);
}

// The operations that see the element's width. G(a, b, width, mask) -> T.
template <class G, class T>
void by_width(void* dst, const void* a, const void* b, const void*, int64_t n, const StripParams& p) {
  auto* d = static_cast<T*>(dst);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  const int width =
      bits_of(p.dtype) < static_cast<int>(sizeof(T) * 8) ? bits_of(p.dtype) : static_cast<int>(sizeof(T) * 8);
  const int spare = static_cast<int>(sizeof(T) * 8) - width;
  const U<T> mask = ~U<T>{0} >> spare;
  PALLASIM_VLOOP(i, n) d[i] = G::f(x[i], y[i], width, spare, mask);
  finish(dst, n, p);
}
template <class G, class T>
void by_width1(void* dst, const void* a, const void*, const void* c, int64_t n, const StripParams& p) {
  by_width<G, T>(dst, a, a, c, n, p);
}
struct ShiftLeft {
  template <class T>
  static T f(T a, T b, int w, int, U<T> mask) {
    const U<T> s = static_cast<U<T>>(b) & mask;
    return s < static_cast<U<T>>(w) ? static_cast<T>(static_cast<U<T>>(a) << (s & (sizeof(T) * 8 - 1))) : T{0};
  }
};
struct ShiftRightLogical {
  template <class T>
  static T f(T a, T b, int w, int, U<T> mask) {
    const U<T> s = static_cast<U<T>>(b) & mask;
    return s < static_cast<U<T>>(w) ? static_cast<T>((static_cast<U<T>>(a) & mask) >> (s & (sizeof(T) * 8 - 1))) : T{0};
  }
};
struct ShiftRightArithmetic {
  template <class T>
  static T f(T a, T b, int w, int spare, U<T> mask) {
    using I = std::make_signed_t<T>;
    const U<T> s = static_cast<U<T>>(b) & mask, top = static_cast<U<T>>(w) - 1;
    const I v = static_cast<I>(static_cast<U<T>>(a) << spare) >> spare;  // unsigned types shift their bits as signed
    return static_cast<T>(v >> (s < top ? s : top));
  }
};
struct Clz {
  template <class T>
  static T f(T a, T, int w, int spare, U<T> mask) {
    const U<T> v = static_cast<U<T>>(a) & mask;
    if constexpr (sizeof(T) == 4) return v == 0 ? w : __builtin_clz(v | (v == 0)) - spare;
    else return v == 0 ? w : __builtin_clzll(v | (v == 0)) - spare;
  }
};
struct PopulationCount {
  template <class T>
  static T f(T a, T, int, int, U<T> mask) {
    U<T> v = static_cast<U<T>>(a) & mask;
    constexpr U<T> k1 = static_cast<U<T>>(0x5555555555555555), k2 = static_cast<U<T>>(0x3333333333333333),
                   k4 = static_cast<U<T>>(0x0f0f0f0f0f0f0f0f), k8 = static_cast<U<T>>(0x0101010101010101);
    v = v - ((v >> 1) & k1);
    v = (v & k2) + ((v >> 2) & k2);
    v = (v + (v >> 4)) & k4;
    return static_cast<T>((v * k8) >> (sizeof(T) * 8 - 8));
  }
};
struct MulHi {
  template <class T>
  static T f(T a, T b, int w, int, U<T>) {
    if constexpr (sizeof(T) == 8) {
      using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> 64);
    } else {
      using W = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> w);
    }
  }
};

template <class T>
StripFn int_strip(OpCode op) {
  switch (op) {
    case OpCode::add: return pairwise<Add, T, T>;
    case OpCode::sub: return pairwise<Sub, T, T>;
    case OpCode::mul: return pairwise<Mul, T, T>;
    case OpCode::div: return binary<Div, T, T>;
    case OpCode::rem: return either<binary<Rem<true>, T, T>, binary<Rem<false>, T, T>, &Semantics::int_rem_zero_is_x>;
    case OpCode::max: return pairwise<MaxOf, T, T, false>;
    case OpCode::min: return pairwise<MinOf, T, T, false>;
    case OpCode::and_: return pairwise<And, T, T, false>;
    case OpCode::or_: return pairwise<Or, T, T, false>;
    case OpCode::xor_: return pairwise<Xor, T, T, false>;
    case OpCode::not_: return unary<Not, T, T>;
    case OpCode::neg: return unary<Neg, T, T>;
    case OpCode::abs: return std::is_signed_v<T> ? unary<Abs, T, T> : unary<Identity, T, T>;
    case OpCode::sign: return unary<Sign, T, T>;
    case OpCode::square: return unary<Square, T, T>;
    case OpCode::pow: return binary<Pow, T, T>;
    case OpCode::integer_pow: return integer_pow<T>;
    case OpCode::clamp: return ternary<Clamp, T, false>;
    case OpCode::shift_left: return by_width<ShiftLeft, T>;
    case OpCode::shift_right_logical: return by_width<ShiftRightLogical, T>;
    case OpCode::shift_right_arithmetic: return by_width<ShiftRightArithmetic, T>;
    case OpCode::clz: return by_width1<Clz, T>;
    case OpCode::population_count: return by_width1<PopulationCount, T>;
    case OpCode::mulhi: return by_width<MulHi, T>;
    case OpCode::eq:
    case OpCode::eq_total: return pairwise<Eq, uint8_t, T, false>;
    case OpCode::ne: return pairwise<Ne, uint8_t, T, false>;
    case OpCode::lt:
    case OpCode::lt_total: return pairwise<Lt, uint8_t, T, false>;
    case OpCode::le:
    case OpCode::le_total: return pairwise<Le, uint8_t, T, false>;
    case OpCode::gt: return pairwise<Gt, uint8_t, T, false>;
    case OpCode::ge: return pairwise<Ge, uint8_t, T, false>;
    default: return nullptr;
  }
}

StripFn bool_strip(OpCode op) {
  using B = uint8_t;
  switch (op) {
    case OpCode::and_:
    case OpCode::min:
    case OpCode::mul: return binary<And, B, B, false>;
    case OpCode::or_:
    case OpCode::max:
    case OpCode::add: return binary<Or, B, B, false>;
    case OpCode::xor_:
    case OpCode::ne: return binary<Xor, B, B, false>;
    case OpCode::not_: return unary<NotBool, B, B, false>;
    case OpCode::clamp: return ternary<Clamp, B, false>;
    case OpCode::eq:
    case OpCode::eq_total: return binary<Eq, B, B, false>;
    case OpCode::lt:
    case OpCode::lt_total: return binary<Lt, B, B, false>;
    case OpCode::le:
    case OpCode::le_total: return binary<Le, B, B, false>;
    case OpCode::gt: return binary<Gt, B, B, false>;
    case OpCode::ge: return binary<Ge, B, B, false>;
    default: return nullptr;
  }
}

struct Word128 {
  uint64_t lo, hi;
};
template <class T>
void select(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& params) {
  auto* d = static_cast<T*>(dst);
  auto* p = static_cast<const uint8_t*>(a);
  auto* off = static_cast<const T*>(b);
  auto* on = static_cast<const T*>(c);
  const bool one_off = params.scalars & 2, one_on = params.scalars & 4;
  const T none = one_off ? *off : T{}, all = one_on ? *on : T{};
  if (one_off && one_on) {
    PALLASIM_VLOOP(i, n) d[i] = p[i] ? all : none;
  } else if (one_off) {
    PALLASIM_VLOOP(i, n) d[i] = p[i] ? on[i] : none;
  } else if (one_on) {
    PALLASIM_VLOOP(i, n) d[i] = p[i] ? all : off[i];
  } else {
    PALLASIM_VLOOP(i, n) d[i] = p[i] ? on[i] : off[i];
  }
}
template <class T>
void copy(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams&) {
  if (dst != a) std::memmove(dst, a, n * sizeof(T));
}
}  // namespace

StripFn strip_int(OpCode op, DType d) {
  switch (ctype_of(d)) {
    case CType::Bool: return bool_strip(op);
    case CType::I32: return int_strip<int32_t>(op);
    case CType::U32: return int_strip<uint32_t>(op);
    case CType::I64: return int_strip<int64_t>(op);
    case CType::U64: return int_strip<uint64_t>(op);
    default: return nullptr;
  }
}

StripFn strip_any(OpCode op, DType d) {
  if (op != OpCode::select_n && op != OpCode::stop_gradient) return nullptr;
  const bool sel = op == OpCode::select_n;
  switch (ctype_of(d)) {
    case CType::Bool: return sel ? select<uint8_t> : copy<uint8_t>;
    case CType::I32:
    case CType::U32:
    case CType::F32: return sel ? select<uint32_t> : copy<uint32_t>;
    case CType::I64:
    case CType::U64:
    case CType::F64:
    case CType::C64: return sel ? select<uint64_t> : copy<uint64_t>;
    case CType::C128: return sel ? select<Word128> : copy<Word128>;
  }
  return nullptr;
}

}  // namespace pallasim::interp::PALLASIM_KNS
