// Float strips without a transcendental function, for f32 registers (and all narrower floats) and f64.
#pragma once
#include "arithmetic.h"
#include "formats.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float> {
  using U = uint32_t;
  using I = int32_t;
  static constexpr U kSign = 0x80000000u, kInf = 0x7f800000u;
  static constexpr int kMantissa = 23, kBias = 127, kExponent = 8;
};
template <>
struct FloatTraits<double> {
  using U = uint64_t;
  using I = int64_t;
  static constexpr U kSign = uint64_t{1} << 63, kInf = uint64_t{0x7ff} << 52;
  static constexpr int kMantissa = 52, kBias = 1023, kExponent = 11;
};
template <class T>
using UOf = typename FloatTraits<T>::U;
template <class T>
using IOf = typename FloatTraits<T>::I;
template <class T>
inline T from_u(UOf<T> u) {
  return std::bit_cast<T>(u);
}
template <class T>
inline UOf<T> to_u(T x) {
  return std::bit_cast<UOf<T>>(x);
}

struct Div {
  template <class T>
  static T f(T a, T b) {
    return a / b;
  }
};
struct Rem {
  template <class T>
  static T f(T a, T b) {
    return std::fmod(a, b);
  }
};
struct Abs {
  template <class T>
  static T f(T a) {
    return from_u<T>(to_u(a) & ~FloatTraits<T>::kSign);
  }
};
struct Neg {
  template <class T>
  static T f(T a) {
    return from_u<T>(to_u(a) ^ FloatTraits<T>::kSign);
  }
};
struct Square {
  template <class T>
  static T f(T a) {
    return a * a;
  }
};
struct Sqrt {
  template <class T>
  static T f(T a) {
    return std::sqrt(a);
  }
};
struct Rsqrt {
  template <class T>
  static T f(T a) {
    return T(1) / std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  static T f(T a) {
    return T(1) / a;
  }
};
struct Ceil {
  template <class T>
  static T f(T a) {
    return std::ceil(a);
  }
};
struct Floor {
  template <class T>
  static T f(T a) {
    return std::floor(a);
  }
};
struct RoundEven {
  template <class T>
  static T f(T a) {
    return std::rint(a);
  }
};
struct RoundAway {
  // trunc(x + sign(x) * (0.5 - half an ulp of it)): 0.49999997 must not reach 1.
  template <class T>
  static T f(T a) {
    const T half = from_u<T>(to_u(T(0.5)) - 1);
    const T r = std::trunc(a + from_u<T>(to_u(half) | (to_u(a) & FloatTraits<T>::kSign)));
    return from_u<T>((to_u(r) & ~FloatTraits<T>::kSign) | (to_u(a) & FloatTraits<T>::kSign));
  }
};
struct IsFinite {
  template <class T>
  static uint8_t f(T a) {
    return (to_u(a) & ~FloatTraits<T>::kSign) < FloatTraits<T>::kInf;
  }
};
struct SignNan {
  template <class T>
  static T f(T a) {
    return a > 0 ? T(1) : a < 0 ? T(-1) : a;
  }
};
struct SignOne {
  template <class T>
  static T f(T a) {
    return a > 0 || a != a ? T(1) : a < 0 ? T(-1) : a;
  }
};
struct CopySign {
  template <class T>
  static T f(T a, T b) {
    return from_u<T>((to_u(a) & ~FloatTraits<T>::kSign) | (to_u(b) & FloatTraits<T>::kSign));
  }
};
struct ClampX {  // NaN of x stays, NaN bounds do not bind
  template <class T>
  static T f(T lo, T x, T hi) {
    T m = lo > x ? lo : x;
    return hi < m ? hi : m;
  }
};
// The bits as an integer that orders as the total order does.
template <class T>
inline IOf<T> total(T x) {
  const auto i = std::bit_cast<IOf<T>>(x);
  return i ^ ((i >> (sizeof(T) * 8 - 1)) & static_cast<IOf<T>>(~FloatTraits<T>::kSign));
}
struct EqTotal {
  template <class T>
  static uint8_t f(T a, T b) {
    return total(a) == total(b);
  }
};
struct LtTotal {
  template <class T>
  static uint8_t f(T a, T b) {
    return total(a) < total(b);
  }
};
struct LeTotal {
  template <class T>
  static uint8_t f(T a, T b) {
    return total(a) <= total(b);
  }
};

// acc times x to the power of y: factors from y's lowest bit on, as lax lowers it.
template <uint64_t y, class T>
inline T times_power(T acc, T x) {
  if constexpr (y == 0) {
    return acc;
  } else {
    if constexpr ((y & 1) != 0) acc = acc * x;
    if constexpr (y > 1) x = x * x;
    return times_power<(y >> 1)>(acc, x);
  }
}
template <uint64_t y, class T>
void power(T* d, const T* x, int64_t n) {
  PALLASIM_VLOOP(i, n) d[i] = times_power<y>(T(1), x[i]);
}

template <class T>
void integer_pow(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams& p) {
  auto* d = static_cast<T*>(dst);
  auto* x = static_cast<const T*>(a);
  const auto in_registers = [&](auto f) { f(d, x, n), finish(dst, n, p); };
  switch (p.imm) {
    case 1: return in_registers(power<1, T>);
    case 2: return in_registers(power<2, T>);
    case 3: return in_registers(power<3, T>);
    case 4: return in_registers(power<4, T>);
    case 5: return in_registers(power<5, T>);
    case 6: return in_registers(power<6, T>);
    case 7: return in_registers(power<7, T>);
    case 8: return in_registers(power<8, T>);
    default: break;
  }
  const uint64_t y = p.imm < 0 ? 0 - static_cast<uint64_t>(p.imm) : static_cast<uint64_t>(p.imm);
  T base[kStrip], acc[kStrip];
  PALLASIM_VLOOP(i, n) base[i] = x[i], acc[i] = T(1);
  for (uint64_t e = y; e != 0; e >>= 1) {  // from the lowest bit, as lax lowers it
    if (e & 1) PALLASIM_VLOOP(i, n) acc[i] = acc[i] * base[i];
    if (e > 1) PALLASIM_VLOOP(i, n) base[i] = base[i] * base[i];
  }
  if (p.imm < 0) PALLASIM_VLOOP(i, n) acc[i] = T(1) / acc[i];
  PALLASIM_VLOOP(i, n) d[i] = acc[i];
  finish(dst, n, p);
}

template <class T>
void round_to_integral(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  (p.imm ? unary<RoundEven, T, T, false> : unary<RoundAway, T, T, false>)(dst, a, b, c, n, p);
}

inline int exponent_bits(DType d, int of_register) {
  int e = of_register;
  with_narrow_float(d, [&](auto t) { e = Format<decltype(t)::value>::kE; });
  return e;
}

// imm = exponent bits << 8 | mantissa bits, of an IEEE-like format; values below its normal range become zero, unless
// it has the exponents of the type itself.
template <class T>
void reduce_precision(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams& p) {
  using Tr = FloatTraits<T>;
  using U = UOf<T>;
  const int e = static_cast<int>(p.imm >> 8), m = static_cast<int>(p.imm & 255);
  const int drop = m < Tr::kMantissa ? Tr::kMantissa - m : 0;
  const U keep = ~U{0} << drop, half = drop ? (U{1} << (drop - 1)) - 1 : 0, odd = drop ? 1 : 0;
  const bool narrow = e < exponent_bits(p.dtype, Tr::kExponent);
  const U bias = (U{1} << (e - 1)) - 1;
  const U top = narrow ? ((Tr::kBias + bias + 1) << Tr::kMantissa) : Tr::kInf;  // the first exponent too large
  const U bottom = narrow ? ((Tr::kBias - bias + 1) << Tr::kMantissa) : 0;      // the smallest normal value
  auto* d = static_cast<T*>(dst);
  auto* x = static_cast<const T*>(a);
  PALLASIM_VLOOP(i, n) {
    const U b = to_u(x[i]), sign = b & Tr::kSign, v = b ^ sign;
    U r = (v + half + ((v >> drop) & odd)) & keep;
    r = r >= top ? Tr::kInf : r < bottom ? 0 : r;
    d[i] = v > Tr::kInf ? x[i] : from_u<T>(sign | r);
  }
  finish(dst, n, p);
}

template <class T>
inline T next_after(T x, T y) {
  const UOf<T> ux = to_u(x), sign = ux & FloatTraits<T>::kSign;
  const bool away = (x < y) == (sign == 0);
  UOf<T> r = (ux ^ sign) == 0 ? (UOf<T>{1} | (to_u(y) & FloatTraits<T>::kSign)) : away ? ux + 1 : ux - 1;
  r = x == y ? to_u(y) : r;
  return x != x || y != y ? x + y : from_u<T>(r);
}
struct NextAfter {
  template <class T>
  static T f(T a, T b) {
    return next_after(a, b);
  }
};

// The strip of one operation; `Narrow` handles nextafter of the types that share the f32 register.
template <class T>
StripFn float_strip(OpCode op) {
  using S = Semantics;
  switch (op) {
    case OpCode::add: return pairwise<Add, T, T>;
    case OpCode::sub: return pairwise<Sub, T, T>;
    case OpCode::mul: return pairwise<Mul, T, T>;
    case OpCode::div: return pairwise<Div, T, T>;
    case OpCode::rem: return binary<Rem, T, T>;
    case OpCode::abs: return unary<Abs, T, T>;
    case OpCode::neg: return unary<Neg, T, T>;
    case OpCode::square: return unary<Square, T, T>;
    case OpCode::sqrt: return unary<Sqrt, T, T>;
    case OpCode::rsqrt: return unary<Rsqrt, T, T>;
    case OpCode::reciprocal: return unary<Reciprocal, T, T>;
    case OpCode::ceil: return unary<Ceil, T, T>;
    case OpCode::floor: return unary<Floor, T, T>;
    case OpCode::round: return round_to_integral<T>;
    case OpCode::is_finite: return unary<IsFinite, uint8_t, T, false>;
    case OpCode::sign: return either<unary<SignOne, T, T>, unary<SignNan, T, T>, &S::sign_of_nan_is_one>;
    case OpCode::copysign: return binary<CopySign, T, T>;
    case OpCode::max:
      return either<pairwise<MaxNan, T, T, false>, pairwise<MaxNum, T, T, false>, &S::nan_propagates_in_minmax>;
    case OpCode::min:
      return either<pairwise<MinNan, T, T, false>, pairwise<MinNum, T, T, false>, &S::nan_propagates_in_minmax>;
    case OpCode::clamp:
      return either<ternary<ClampNan, T, false>, ternary<ClampX, T, false>, &S::nan_propagates_in_minmax>;
    case OpCode::eq: return pairwise<Eq, uint8_t, T, false>;
    case OpCode::ne: return pairwise<Ne, uint8_t, T, false>;
    case OpCode::lt: return pairwise<Lt, uint8_t, T, false>;
    case OpCode::le: return pairwise<Le, uint8_t, T, false>;
    case OpCode::gt: return pairwise<Gt, uint8_t, T, false>;
    case OpCode::ge: return pairwise<Ge, uint8_t, T, false>;
    case OpCode::eq_total: return binary<EqTotal, uint8_t, T, false>;
    case OpCode::lt_total: return binary<LtTotal, uint8_t, T, false>;
    case OpCode::le_total: return binary<LeTotal, uint8_t, T, false>;
    case OpCode::integer_pow: return integer_pow<T>;
    case OpCode::reduce_precision: return reduce_precision<T>;
    case OpCode::nextafter: return binary<NextAfter, T, T, false>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace pallasim::interp::PALLASIM_KNS
