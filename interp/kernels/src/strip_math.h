// Strips of the transcendental functions over M = m32 or m64.
#pragma once
#include "loops.h"
#include "math_f32.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

#define PALLASIM_MATH1(X)                                                                                             \
  X(exp2)                                                                                                             \
  X(expm1) X(log) X(log1p) X(log2) X(tanh) X(sinh) X(cosh) X(asin) X(acos) X(atan) X(asinh) X(acosh) X(atanh) X(cbrt) \
      X(erf) X(erfc)
#define PALLASIM_MATH2(X) X(pow) X(atan2)
#define X(name)                                        \
  struct F_##name {                                    \
    static float f(float x) { return m32::name(x); }   \
    static double f(double x) { return m64::name(x); } \
  };
PALLASIM_MATH1(X)
X(sin) X(cos) X(tan) X(exp) X(exp_normal) X(logistic) X(logistic_normal)
#undef X
#define X(name)                                                     \
  struct F_##name {                                                 \
    static float f(float x, float y) { return m32::name(x, y); }    \
    static double f(double x, double y) { return m64::name(x, y); } \
  };
    PALLASIM_MATH2(X)
#undef X

    // The slow paths for |x| >= 2^48, where the fast argument reduction ends.
    struct Huge_sin {
  static double f(double x) { return m64::sin_of(m64::reduce_huge(x)); }
};
struct Huge_cos {
  static double f(double x) { return m64::cos_of(m64::reduce_huge(x)); }
};
struct Huge_tan {
  static double f(double x) { return m64::tan_of(m64::reduce_huge(x)); }
};

template <class Fast, class Huge, class T>
void trig(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  auto* x = static_cast<const T*>(a);
  int beyond = 0;
  PALLASIM_VLOOP(i, n) beyond |= !(std::fabs(x[i]) < T(m64::kReduceLimit));
  if (!beyond) return unary<Fast, T, T>(dst, a, b, c, n, p);
  auto* d = static_cast<T*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    d[i] = std::fabs(v) < T(m64::kReduceLimit)             ? Fast::f(v)
           : std::fabs(v) <= std::numeric_limits<T>::max() ? static_cast<T>(Huge::f(v))
                                                           : std::numeric_limits<T>::quiet_NaN();
  }
  finish(dst, n, p);
}

// Strips whose arguments all keep the scale of e^x normal, or are masked, take a shorter loop with the same bits.
template <class Normal, class Any, class T>
void exponential(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  constexpr T limit = sizeof(T) == 4 ? T(m32::kExpNormal) : T(m64::kExpNormal),
              none = sizeof(T) == 4 ? T(m32::kExpNone) : -std::numeric_limits<T>::infinity();
  auto* x = static_cast<const T*>(a);
  int beyond = 0;
  PALLASIM_VLOOP(i, n) beyond |= !(std::fabs(x[i]) <= limit) & !(x[i] < none);
  (beyond ? unary<Any, T, T> : unary<Normal, T, T>)(dst, a, b, c, n, p);
}

template <class T>
StripFn math_strip(OpCode op) {
  switch (op) {
#define X(name) \
  case OpCode::name: return unary<F_##name, T, T>;
    PALLASIM_MATH1(X)
#undef X
#define X(name) \
  case OpCode::name: return binary<F_##name, T, T>;
    PALLASIM_MATH2(X)
#undef X
#define X(name) \
  case OpCode::name: return trig<F_##name, Huge_##name, T>;
    X(sin)
    X(cos) X(tan)
#undef X
        case OpCode::exp : return exponential<F_exp_normal, F_exp, T>;
    case OpCode::logistic: return exponential<F_logistic_normal, F_logistic, T>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace pallasim::interp::PALLASIM_KNS
