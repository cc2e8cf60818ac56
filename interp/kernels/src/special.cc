// Special functions: plain scalar bodies in f64 (f32 rounds their result). Series, continued fractions and asymptotic
// expansions of the textbook kind; accurate to a few ulp of f32 everywhere, of f64 in the middle of their domains.
#include "loops.h"
#include "math_f64.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

using m64::kInf;
using m64::kNan;
using m64::kPi;
constexpr double kOneMinusEuler = 0x1.b0ee6072093cep-2, kHalfLog2Pi = 0x1.d67f1c864beb5p-1,
                 kLogPi = 0x1.250d048e7a1bdp+0;
// (-1)^k (zeta(k) - 1) / k for k = 30 ... 2: log gamma(2 + t) = (1 - euler) t + sum of these t^k.
constexpr double kZeta[] = {
    0x1.11116e693ed98p-35, -0x1.1a7c26ec2523cp-34, 0x1.24932a337434cp-33, -0x1.2f69a9fabe3e0p-32,
    0x1.3b15d2b2fc10cp-31, -0x1.47b1679258d0ep-30, 0x1.555a877ffd2c3p-29, -0x1.6434a8447aeadp-28,
    0x1.7469daccfadcdp-27, -0x1.862c734df3eacp-26, 0x1.99b93c2070b0fp-25, -0x1.af5a6cbbf8a97p-24,
    0x1.c76bbb3f07a4dp-23, -0x1.e2600d93cfd2fp-22, 0x1.0064cdeb22f0fp-20, -0x1.11b2eb7679541p-19,
    0x1.2597a39f34aacp-18, -0x1.3cbc963ce2243p-17, 0x1.580dcee66eb02p-16, -0x1.78de5bd7c81efp-15,
    0x1.a127b0f17d65ap-14, -0x1.d3fd4c76d2fc8p-13, 0x1.0b36af86396e9p-11, -0x1.38ac5c2bf8e08p-10,
    0x1.7add6eadb6c30p-9,  -0x1.e404fc218f5f2p-8,  0x1.51322ac7d8483p-6,  -0x1.13e001a557607p-4,
    0x1.4a34cc4a60fa6p-2};
constexpr double kStirling[] = {0x1.6fe96381e0680p-3,   -0x1.e4286cb0f5398p-6, 0x1.a41a41a41a41ap-8,
                                -0x1.f6ab0d9993c7dp-10, 0x1.b951e2b18ff23p-11, -0x1.3813813813814p-11,
                                0x1.a01a01a01a01ap-11,  -0x1.6c16c16c16c17p-9, 0x1.5555555555555p-4};
constexpr double kDigammaTail[] = {-0x1.86e7f9b9fe6e8p+1, 0x1.c5e5e5e5e5e5ep-2,  -0x1.5555555555555p-4,
                                   0x1.5995995995996p-6,  -0x1.f07c1f07c1f08p-8, 0x1.1111111111111p-8,
                                   -0x1.0410410410410p-8, 0x1.1111111111111p-7,  -0x1.5555555555555p-4};
// B(2k) / (2k)!, k = 1 ...
constexpr double kBernoulli[] = {0x1.5555555555555p-4,   -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15,
                                 -0x1.bbd779334ef0bp-21, 0x1.66a8f2bf70ebep-26,  -0x1.22805d644267fp-31,
                                 0x1.d6db2c4e09162p-37,  -0x1.7da4e1f79955cp-42, 0x1.355871d652e9ep-47,
                                 -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58,  -0x1.497d9033a2b5cp-63};

double sin_pi(double x) {  // x reduced to |r| <= 1/2 exactly
  const double n = std::rint(x), r = x - n;
  const double s = m64::sin(r * kPi);
  return std::floor(n * 0.5) * 2 == n ? s : -s;
}
double lgamma_two(double t) { return t * (kOneMinusEuler + t * m64::poly(kZeta, t)); }  // log gamma(2 + t), |t| <= 1/2
double lgamma(double x) {
  if (x != x) return x;
  if (m64::fabs_(x) == kInf) return kInf;
  if (x <= 0 && std::floor(x) == x) return kInf;
  if (x < 0.5) {
    if (x > 0) return lgamma(x + 1) - m64::log(x);
    return kLogPi - m64::log(m64::fabs_(sin_pi(x))) - lgamma(1 - x);
  }
  if (x < 1.5) return lgamma_two(x - 1) - m64::log1p(x - 1);
  if (x <= 2.5) return lgamma_two(x - 2);
  if (x < 13) {
    double p = 1;
    for (; x > 2.5; x -= 1) p *= x - 1;
    return m64::log(p) + lgamma_two(x - 2);
  }
  const double r = 1 / x;
  return ((x - 0.5) * m64::log(x) - x) + (kHalfLog2Pi + r * m64::poly(kStirling, r * r));
}
double digamma(double x) {
  if (x != x || (x <= 0 && std::floor(x) == x)) return kNan;
  if (x == kInf) return kInf;
  if (x < 0) {
    const double r = x - std::rint(x);
    return digamma(1 - x) - kPi * m64::cos(r * kPi) / m64::sin(r * kPi);
  }
  double shift = 0;
  for (; x < 12; x += 1) shift += 1 / x;
  const double r = 1 / x, z = r * r;
  return m64::log(x) - 0.5 * r + z * m64::poly(kDigammaTail, z) - shift;
}

// e^-|x| I_order(x): the power series has positive terms only; past 40 the asymptotic series.
double bessel_ie(double x, int order) {
  const double a = m64::fabs_(x);
  if (x != x) return x;
  double v;
  if (a <= 40) {
    const double z = 0.25 * a * a;
    double term = order ? 0.5 * a : 1, sum = term;
    for (int k = 1; k < 200 && term > sum * 1e-18; ++k) term *= z / (static_cast<double>(k) * (k + order)), sum += term;
    v = sum * m64::exp(-a);
  } else if (a == kInf) {
    v = 0;
  } else {
    double term = 1, sum = 1;
    for (int k = 1; k < 30; ++k) {
      const double odd = 2 * k - 1;
      term *= -(4.0 * order - odd * odd) / (8.0 * a * k);
      sum += term;
    }
    v = sum / std::sqrt(2 * kPi * a);
  }
  return order && x < 0 ? -v : v;
}
double bessel_i0e(double x) { return bessel_ie(x, 0); }
double bessel_i1e(double x) { return bessel_ie(x, 1); }

double erf_inv(double y) {
  const double a = m64::fabs_(y);
  if (y != y || a > 1) return kNan;
  if (a == 1) return m64::sign_of(kInf, y);
  if (a < 1e-9) return y * 0x1.c5bf891b4ef6ap-1;  // sqrt(pi)/2
  const double l = m64::log1p(-a) + m64::log1p(a), c = 4.330746750799873 + 0.5 * l;
  double x = std::sqrt(std::sqrt(c * c - l / 0.147) - c);
  for (int i = 0; i < 3; ++i) {  // Halley
    const double err = a < 0.5 ? m64::erf(x) - a : (1 - a) - m64::erfc(x);
    const double d = err / (0x1.20dd750429b6dp+0 * m64::exp_tail(-x * x, -std::fma(x, x, -(x * x))));
    x -= d / (1 + x * d);
  }
  return m64::sign_of(x, y);
}

// x^a e^-x / gamma(a), through exponents that do not cancel where a is large and x near it.
double gamma_density(double a, double x) {
  if (a < 20) return m64::exp(a * m64::log(x) - x - lgamma(a));
  const double u = (x - a) / a;  // a (u - log(1 + u)) is the exponent; the rest is Stirling's
  const double r = 1 / a;
  return std::sqrt(a / (2 * kPi)) * m64::exp(-a * (u - m64::log1p(u)) - r * m64::poly(kStirling, r * r));
}
double gamma_series(double a, double x) {
  double sum = 1, term = 1;
  for (double n = a + 1; term > sum * 1e-17 && n < a + 10000; n += 1) term *= x / n, sum += term;
  return sum * gamma_density(a, x) / a;
}
double gamma_fraction(double a, double x) {  // Lentz
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int i = 1; i < 10000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = an * d + b, c = b + an / c;
    d = m64::fabs_(d) < tiny ? tiny : d, c = m64::fabs_(c) < tiny ? tiny : c;
    d = 1 / d;
    h *= d * c;
    if (m64::fabs_(d * c - 1) < 1e-16) break;
  }
  return gamma_density(a, x) * h;
}
double igamma(double a, double x) {
  if (a != a || x != x || x < 0 || a <= 0) return kNan;
  if (x == 0) return 0;
  if (x == kInf) return a == kInf ? kNan : 1;
  if (a == kInf) return 0;
  return x < a + 1 ? gamma_series(a, x) : 1 - gamma_fraction(a, x);
}
double igammac(double a, double x) {
  if (a != a || x != x || x < 0 || a <= 0) return kNan;
  if (x == 0) return 1;
  if (x == kInf) return a == kInf ? kNan : 0;
  if (a == kInf) return 1;
  return x < a + 1 ? 1 - gamma_series(a, x) : gamma_fraction(a, x);
}

double zeta(double x, double q) {  // Euler and Maclaurin
  if (x != x || q != q) return kNan;
  if (x == 1) return kInf;
  if (x < 1) return kNan;
  if (q <= 0) {
    if (std::floor(q) == q) return kInf;
    if (std::floor(x) != x) return kNan;
    if (q < -100000) return kNan;
  }
  double sum = 0;
  for (; q < 12 + x; q += 1) {  // from there on the terms below shrink by (2 pi)^2 each
    const double term = m64::pow(q, -x);
    sum += term;
    if (q > 0 && !(term * q > m64::fabs_(sum) * 1e-18)) return sum;  // also where either is infinite, or nothing
  }
  const double power = m64::pow(q, -x);
  sum += power * q / (x - 1) + 0.5 * power;
  double factor = x * power / q;
  for (int k = 0; k < 12; ++k) {
    const double t = kBernoulli[k] * factor;
    sum += t;
    if (m64::fabs_(t) < m64::fabs_(sum) * 1e-17) break;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (q * q);
  }
  return sum;
}
double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (!(n > 0) || std::floor(n) != n) return kNan;
  const double v = m64::exp(lgamma(n + 1)) * zeta(n + 1, x);
  return std::floor(n * 0.5) * 2 == n ? -v : v;
}

double beta_fraction(double a, double b, double x) {
  const double tiny = 1e-300;
  auto keep = [&](double v) { return m64::fabs_(v) < tiny ? tiny : v; };
  double c = 1, d = 1 / keep(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 10000; ++m) {
    double t = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / keep(1 + t * d), c = keep(1 + t / c);
    h *= d * c;
    t = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / keep(1 + t * d), c = keep(1 + t / c);
    h *= d * c;
    if (m64::fabs_(d * c - 1) < 1e-16) break;
  }
  return h;
}
double beta(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return kNan;
  if (x == 0 || x == 1) return x;
  const double front = m64::exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * m64::log(x) + b * m64::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

template <double (*G)(double)>
struct One {
  template <class T>
  static T f(T x) {
    return static_cast<T>(G(x));
  }
};
template <double (*G)(double, double)>
struct Two {
  template <class T>
  static T f(T x, T y) {
    return static_cast<T>(G(x, y));
  }
};
template <double (*G)(double, double, double)>
struct Three {
  template <class T>
  static T f(T x, T y, T z) {
    return static_cast<T>(G(x, y, z));
  }
};

template <class T>
StripFn special(OpCode op) {
  switch (op) {
    case OpCode::lgamma: return unary<One<lgamma>, T, T>;
    case OpCode::digamma: return unary<One<digamma>, T, T>;
    case OpCode::bessel_i0e: return unary<One<bessel_i0e>, T, T>;
    case OpCode::bessel_i1e: return unary<One<bessel_i1e>, T, T>;
    case OpCode::erf_inv: return unary<One<erf_inv>, T, T>;  // f64; f32 has its own
    case OpCode::igamma: return binary<Two<igamma>, T, T>;
    case OpCode::igammac: return binary<Two<igammac>, T, T>;
    case OpCode::zeta: return binary<Two<zeta>, T, T>;
    case OpCode::polygamma: return binary<Two<polygamma>, T, T>;
    case OpCode::regularized_incomplete_beta: return ternary<Three<beta>, T>;
    default: return nullptr;
  }
}

}  // namespace

StripFn strip_special(OpCode op, bool f64) { return f64 ? special<double>(op) : special<float>(op); }

}  // namespace pallasim::interp::PALLASIM_KNS
