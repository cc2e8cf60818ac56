// Complex strips, scalar. c64 functions are evaluated in f64 and rounded; sums and products in the type itself.
#include "loops.h"
#include "math_f64.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

using Z = C128;

double sin_any(double x) {
  return m64::fabs_(x) < m64::kReduceLimit ? m64::sin(x)
         : m64::fabs_(x) < m64::kInf       ? m64::sin_of(m64::reduce_huge(x))
                                           : m64::kNan;
}
double cos_any(double x) {
  return m64::fabs_(x) < m64::kReduceLimit ? m64::cos(x)
         : m64::fabs_(x) < m64::kInf       ? m64::cos_of(m64::reduce_huge(x))
                                           : m64::kNan;
}
double modulus(Z z) {
  const double a = m64::fabs_(z.re), b = m64::fabs_(z.im), hi = a > b ? a : b, lo = a > b ? b : a;
  if (a == m64::kInf || b == m64::kInf) return m64::kInf;
  if (!(hi > 0)) return a + b;
  const double r = lo / hi;
  return hi * std::sqrt(1 + r * r);
}
Z scaled(double s, double re, double im) { return {re == 0 ? re : s * re, im == 0 ? im : s * im}; }
Z quotient(Z a, Z b) {  // by the larger part of the divisor
  if (m64::fabs_(b.re) >= m64::fabs_(b.im)) {
    const double r = b.im / b.re, d = b.re + b.im * r;
    return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
  }
  const double r = b.re / b.im, d = b.re * r + b.im;
  return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}
Z exp(Z z) { return z.im == 0 ? Z{m64::exp(z.re), z.im} : scaled(m64::exp(z.re), cos_any(z.im), sin_any(z.im)); }
Z log(Z z) {
  const double a = m64::fabs_(z.re), b = m64::fabs_(z.im), hi = a > b ? a : b, lo = a > b ? b : a;
  const double arg = m64::atan2(z.im, z.re);
  if (hi > 0.5 && hi < 2) return {0.5 * m64::log1p((hi - 1) * (hi + 1) + lo * lo), arg};
  return {m64::log(modulus(z)), arg};
}
Z sqrt(Z z) {
  const double m = modulus(z);
  if (m == 0) return {0, z.im};
  if (m64::fabs_(z.im) == m64::kInf) return {m64::kInf, z.im};
  const double t = std::sqrt(0.5 * m + 0.5 * m64::fabs_(z.re));
  const double u = 0.5 * m64::fabs_(z.im) / t;
  return z.re >= 0 ? Z{t, m64::sign_of(u, z.im)} : Z{u, m64::sign_of(t, z.im)};
}
Z sin(Z z) { return {sin_any(z.re) * m64::cosh(z.im), cos_any(z.re) * m64::sinh(z.im)}; }
Z cos(Z z) { return {cos_any(z.re) * m64::cosh(z.im), -sin_any(z.re) * m64::sinh(z.im)}; }
Z tanh(Z z) {
  if (m64::fabs_(z.re) > 20)
    return {m64::sign_of(1, z.re), 4 * sin_any(z.im) * cos_any(z.im) * m64::exp(-2 * m64::fabs_(z.re))};
  const double d = m64::cosh(2 * z.re) + cos_any(2 * z.im);
  return {m64::sinh(2 * z.re) / d, sin_any(2 * z.im) / d};
}
Z tan(Z z) {
  const Z t = tanh(Z{-z.im, z.re});
  return {t.im, -t.re};
}
Z sinh(Z z) { return {m64::sinh(z.re) * cos_any(z.im), m64::cosh(z.re) * sin_any(z.im)}; }
Z cosh(Z z) { return {m64::cosh(z.re) * cos_any(z.im), m64::sinh(z.re) * sin_any(z.im)}; }
Z logistic(Z z) {
  const Z e = exp(Z{-z.re, -z.im});
  return quotient({1, 0}, {1 + e.re, e.im});
}
Z expm1(Z z) {
  const double s = sin_any(0.5 * z.im);
  const double e = m64::exp(z.re);
  return {m64::expm1(z.re) * cos_any(z.im) - 2 * s * s, e * sin_any(z.im)};
}
Z log1p(Z z) {
  const Z l = log(Z{1 + z.re, z.im});
  if (modulus(z) > 0.5) return l;
  return {0.5 * m64::log1p(z.re * (2 + z.re) + z.im * z.im), l.im};
}
Z log2(Z z) {
  const Z l = log(z);
  return {l.re * 0x1.71547652b82fep+0, l.im * 0x1.71547652b82fep+0};
}
Z rsqrt(Z z) { return quotient({1, 0}, sqrt(z)); }
Z sign(Z z) {
  const double m = modulus(z);
  return m == 0 ? Z{0, 0} : Z{z.re / m, z.im / m};
}
Z pow(Z z, Z w) {
  if (w.re == 0 && w.im == 0) return {1, 0};
  if (z.re == 0 && z.im == 0) return w.re > 0 ? Z{0, 0} : Z{m64::kNan, m64::kNan};
  return exp(log(z) * w);
}

// Inverse functions after Kahan ("Branch cuts for complex elementary functions"): products of square roots keep the
// cuts.
Z times(Z a, Z b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Z conjugate(Z z) { return {z.re, -z.im}; }
Z plus_i(Z z) { return {-z.im, z.re}; }   // i z
Z minus_i(Z z) { return {z.im, -z.re}; }  // -i z
Z asin(Z z) {
  const Z below = sqrt(Z{1 - z.re, -z.im}), above = sqrt(Z{1 + z.re, z.im});
  return {m64::atan2(z.re, times(below, above).re), m64::asinh(times(conjugate(below), above).im)};
}
Z acos(Z z) {
  const Z below = sqrt(Z{1 - z.re, -z.im}), above = sqrt(Z{1 + z.re, z.im});
  return {2 * m64::atan2(below.re, above.re), m64::asinh(times(conjugate(above), below).im)};
}
Z acosh(Z z) {
  const Z below = sqrt(Z{z.re - 1, z.im}), above = sqrt(Z{z.re + 1, z.im});
  return {m64::asinh(times(conjugate(below), above).re), 2 * m64::atan2(below.im, above.re)};
}
Z atanh(Z z) {
  const double d = (1 - z.re) * (1 - z.re) + z.im * z.im;
  return {0.25 * m64::log1p(4 * z.re / d), 0.5 * m64::atan2(2 * z.im, (1 - z.re) * (1 + z.re) - z.im * z.im)};
}
Z asinh(Z z) { return minus_i(asin(plus_i(z))); }
Z atan(Z z) { return minus_i(atanh(plus_i(z))); }
Z atan2(Z y, Z x) {  // -i log((x + i y) / sqrt(x^2 + y^2))
  const Z n{x.re - y.im, x.im + y.re}, xx = times(x, x), yy = times(y, y);
  return minus_i(log(quotient(n, sqrt(Z{xx.re + yy.re, xx.im + yy.im}))));
}
Z exp2(Z z) { return exp(Z{z.re * 0x1.62e42fefa39efp-1, z.im * 0x1.62e42fefa39efp-1}); }
Z reciprocal(Z z) { return quotient({1, 0}, z); }

template <Z (*G)(Z)>
struct Via {
  template <class C>
  static C f(C x) {
    const Z r = G({x.re, x.im});
    return {static_cast<decltype(x.re)>(r.re), static_cast<decltype(x.re)>(r.im)};
  }
};
template <Z (*G)(Z, Z)>
struct Via2 {
  template <class C>
  static C f(C x, C y) {
    const Z r = G({x.re, x.im}, {y.re, y.im});
    return {static_cast<decltype(x.re)>(r.re), static_cast<decltype(x.re)>(r.im)};
  }
};
struct Add {
  template <class C>
  static C f(C a, C b) {
    return a + b;
  }
};
struct Sub {
  template <class C>
  static C f(C a, C b) {
    return a - b;
  }
};
struct Mul {
  template <class C>
  static C f(C a, C b) {
    return a * b;
  }
};
struct Neg {
  template <class C>
  static C f(C a) {
    return {-a.re, -a.im};
  }
};
struct Conj {
  template <class C>
  static C f(C a) {
    return {a.re, -a.im};
  }
};
struct Square {
  template <class C>
  static C f(C a) {
    return a * a;
  }
};
struct CxEq {
  template <class C>
  static uint8_t f(C a, C b) {
    return a.re == b.re && a.im == b.im;
  }
};
struct CxNe {
  template <class C>
  static uint8_t f(C a, C b) {
    return a.re != b.re || a.im != b.im;
  }
};

// By the real part, then by the imaginary one; comparisons with NaN choose the second, as XLA's.
template <class C>
bool less(C a, C b) {
  return a.re == b.re ? a.im < b.im : a.re < b.re;
}
struct CxMax {
  template <class C>
  static C f(C a, C b) {
    return less(b, a) ? a : b;
  }
};
struct CxMin {
  template <class C>
  static C f(C a, C b) {
    return less(a, b) ? a : b;
  }
};
struct CxClamp {
  template <class C>
  static C f(C lo, C x, C hi) {
    return CxMin::f(CxMax::f(lo, x), hi);
  }
};

template <class P>
void part(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams&, bool imaginary) {
  for (int64_t i = 0; i < n; ++i) static_cast<P*>(dst)[i] = static_cast<const P*>(a)[2 * i + imaginary];
}
template <class P, bool Imaginary>
void part_of(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  part<P>(dst, a, b, c, n, p, Imaginary);
}
template <class P>
void abs(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams&) {
  auto* z = static_cast<const Cx<P>*>(a);
  for (int64_t i = 0; i < n; ++i) static_cast<P*>(dst)[i] = static_cast<P>(modulus({z[i].re, z[i].im}));
}
template <class P>
void join(void* dst, const void* a, const void* b, const void*, int64_t n, const StripParams&) {
  auto *re = static_cast<const P*>(a), *im = static_cast<const P*>(b);
  for (int64_t i = 0; i < n; ++i) static_cast<Cx<P>*>(dst)[i] = {re[i], im[i]};
}
template <class P>
void conj_of_real(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams&) {
  for (int64_t i = 0; i < n; ++i) static_cast<Cx<P>*>(dst)[i] = {static_cast<const P*>(a)[i], P{}};
}
template <class P>
void integer_pow(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams& p) {
  auto* z = static_cast<const Cx<P>*>(a);
  for (int64_t i = 0; i < n; ++i) {
    Cx<P> r{1, 0}, base = z[i];
    for (uint64_t e = p.imm < 0 ? 0 - static_cast<uint64_t>(p.imm) : static_cast<uint64_t>(p.imm); e; e >>= 1) {
      if (e & 1) r = r * base;
      base = base * base;
    }
    if (p.imm < 0) {
      const Z q = quotient({1, 0}, {r.re, r.im});
      r = {static_cast<P>(q.re), static_cast<P>(q.im)};
    }
    static_cast<Cx<P>*>(dst)[i] = r;
  }
}

template <class P>
StripFn complex_strip(OpCode op) {
  using C = Cx<P>;
  switch (op) {
    case OpCode::add: return binary<Add, C, C, false>;
    case OpCode::sub: return binary<Sub, C, C, false>;
    case OpCode::mul: return binary<Mul, C, C, false>;
    case OpCode::div: return binary<Via2<quotient>, C, C, false>;
    case OpCode::pow: return binary<Via2<pow>, C, C, false>;
    case OpCode::atan2: return binary<Via2<atan2>, C, C, false>;
    case OpCode::max: return binary<CxMax, C, C, false>;
    case OpCode::min: return binary<CxMin, C, C, false>;
    case OpCode::clamp: return ternary<CxClamp, C, false>;
    case OpCode::neg: return unary<Neg, C, C, false>;
    case OpCode::conj: return unary<Conj, C, C, false>;
    case OpCode::square: return unary<Square, C, C, false>;
    case OpCode::abs: return abs<P>;
    case OpCode::real: return part_of<P, false>;
    case OpCode::imag: return part_of<P, true>;
    case OpCode::eq: return binary<CxEq, uint8_t, C, false>;
    case OpCode::ne: return binary<CxNe, uint8_t, C, false>;
    case OpCode::integer_pow: return integer_pow<P>;
#define X(name) \
  case OpCode::name: return unary<Via<name>, C, C, false>;
      X(exp)
      X(log) X(log2) X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) X(logistic) X(expm1) X(log1p) X(sign)
          X(exp2) X(asin) X(acos) X(atan) X(asinh) X(acosh) X(atanh) X(reciprocal)
#undef X
              default : return nullptr;
  }
}

}  // namespace

StripFn strip_complex(OpCode op, DType d) {
  if (d == DType::F32 || d == DType::F64) {
    if (op == OpCode::conj) return d == DType::F32 ? conj_of_real<float> : conj_of_real<double>;
    return op != OpCode::complex ? nullptr : d == DType::F32 ? join<float> : join<double>;
  }
  return ctype_of(d) == CType::C64 ? complex_strip<float>(op) : complex_strip<double>(op);
}

}  // namespace pallasim::interp::PALLASIM_KNS
