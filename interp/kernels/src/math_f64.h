// Elementwise functions in f64, one source for every ISA: no branches (loops over them vectorise), std::fma where the
// formula says fma, polynomials from coefficients.h. Errors: docs/numerics.md.
#pragma once
#include "coefficients.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace m64 {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMagic = 0x1.8p52;  // adding it rounds to an integer, found in the low bits
constexpr double kLog2e = 0x1.71547652b82fep+0;
constexpr double kLn2Hi = 0x1.62e42fefa39efp-1, kLn2Lo = 0x1.abc9e3b39803fp-56;
constexpr double kPi = 0x1.921fb54442d18p+1, kPio2 = 0x1.921fb54442d18p+0, kPio2Lo = 0x1.1a62633145c07p-54,
                 kPio2Tail = -0x1.f1976b7ed8fbcp-110, kPio4 = 0x1.921fb54442d18p-1;

template <int N>
inline double poly(const double (&c)[N], double x) {
  double r = c[0];
#pragma GCC unroll 32
  for (int i = 1; i < N; ++i) r = std::fma(r, x, c[i]);
  return r;
}
inline double fabs_(double x) { return as_f64(as_bits(x) & ~(uint64_t{1} << 63)); }
inline double sign_of(double magnitude, double s) {  // magnitude >= 0
  return as_f64(as_bits(magnitude) | (as_bits(s) & (uint64_t{1} << 63)));
}
// c ? a : b by bits: nested conditions as branches keep loops from vectorising.
inline uint64_t mask(bool c) { return 0 - static_cast<uint64_t>(c); }
inline double pick(uint64_t m, double a, double b) { return as_f64((as_bits(a) & m) | (as_bits(b) & ~m)); }
// 2^k for an integral k in [-1022, 1023].
inline double pow2(double k) { return as_f64(as_bits(k + (kMagic + 1023)) << 52); }
// x 2^k for |k| <= 2100, rounding once.
inline double scale(double x, double k) {
  const double k1 = (k * 0.5 + kMagic) - kMagic;
  return x * pow2(k1) * pow2(k - k1);
}

// e^(x + tail), |tail| far below x.
inline double exp_tail(double x, double tail) {
  double c = x > 710.0 ? 710.0 : x;
  c = c < -746.0 ? -746.0 : c;
  const double k = std::fma(c, kLog2e, kMagic) - kMagic;
  const double hi = std::fma(-k, kLn2Hi, c);
  const double lo = std::fma(-k, kLn2Lo, tail);
  const double r = hi + lo;
  const double err = (hi - r) + lo;
  const double p = std::fma(r * r, poly(kExp, r), r + err) + 1.0;
  return scale(p, k);
}
inline double exp(double x) { return exp_tail(x, 0.0); }
// The same bits as exp where the result and its scale are normal: |x| <= kExpNormal.
constexpr double kExpNormal = 706.0;
inline double exp_normal(double x) {
  const double t = std::fma(x, kLog2e, kMagic);
  const double k = t - kMagic;
  const double hi = std::fma(-k, kLn2Hi, x);
  const double lo = std::fma(-k, kLn2Lo, 0.0);
  const double r = hi + lo;
  const double err = (hi - r) + lo;
  const double p = std::fma(r * r, poly(kExp, r), r + err) + 1.0;
  return as_f64(as_bits(p) + (as_bits(t) << 52));
}

inline double exp2(double x) {
  double c = x > 1025.0 ? 1025.0 : x;
  c = c < -1080.0 ? -1080.0 : c;
  const double k = (c + kMagic) - kMagic;
  const double f = c - k;
  const double r = f * kLn2Hi;
  const double err = std::fma(f, kLn2Hi, -r) + f * kLn2Lo;
  const double p = std::fma(r * r, poly(kExp, r), r + err) + 1.0;
  return scale(p, k);
}

inline double expm1(double x) {
  double c = x > 710.0 ? 710.0 : x;
  c = c < -60.0 ? -60.0 : c;
  const double k = std::fma(c, kLog2e, kMagic) - kMagic;
  const double hi = std::fma(-k, kLn2Hi, c);
  const double t = k * kLn2Lo;
  const double r = hi - t;
  const double err = (hi - r) - t;
  const double p = std::fma(r * r, poly(kExp, r), err + r * err);  // e^r - 1 - r
  // 2^k (r + p) + (2^k - 1), in halves so that 2^1024 does not overflow early.
  const double s = pow2(k - 1.0);
  const double h = s - 0.5;
  const double a = std::fma(s, r, h);
  const double b = std::fma(s, r, h - a);  // what the sum above lost
  const double v = 2.0 * (a + (std::fma(s, p, b)));
  return x == 0.0 ? x : v;
}

struct Split {
  double m, e;  // m in [sqrt(1/2), sqrt(2)), value = m 2^e
};
inline Split split(double x) {
  const bool tiny = x < 0x1p-1022;
  const uint64_t u = as_bits(tiny ? x * 0x1p54 : x);
  const uint64_t shifted = u + (as_bits(1.0) - 0x3fe6a09e667f3bcdu);
  const double e = as_f64((shifted >> 52) | as_bits(kMagic)) - kMagic;
  const double m = as_f64((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
  return {m, e - (tiny ? 1077.0 : 1023.0)};
}
// The value of log at arguments where no arithmetic finds it.
inline double log_edges(double x, double r) {
  r = x == kInf ? kInf : r;
  r = x == 0.0 ? -kInf : r;
  return x < 0.0 || x != x ? kNan : r;
}
// log(m 2^e) + c with f = m - 1 exact.
inline double log_core(double f, double e, double c) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half = 0.5 * f * f;
  const double r = z * poly(kAtanh3, z);  // log(1 + f) = f - half + s (half + r)
  const double lo = std::fma(s, half + r, std::fma(e, kLn2Lo, c));
  return e == 0.0 ? f - (half - lo) : std::fma(e, kLn2Hi, f - (half - lo));
}
inline double log(double x) {
  const Split p = split(x);
  return log_edges(x, log_core(p.m - 1.0, p.e, 0.0));
}
inline double log2(double x) {  // powers of two are exact
  const Split p = split(x);
  return log_edges(x, std::fma(log_core(p.m - 1.0, 0.0, 0.0), 0x1.71547652b82fep+0, p.e));
}
inline double log1p(double x) {
  const double u = 1.0 + x;
  const double lost = x - (u - 1.0);                        // |x| < 1
  const double c = (x > 1.0 ? (1.0 - (u - x)) : lost) / u;  // log(u + lost) = log(u) + lost/u
  const Split p = split(u);
  const double r = log_core(p.m - 1.0, p.e, c);
  const double v = log_edges(u, r);
  return fabs_(x) < 0x1p-54 ? x : v;
}

inline double logistic_of(double x, double e) { return (x >= 0.0 || x != x ? 1.0 : e) / (1.0 + e); }
inline double logistic(double x) { return logistic_of(x, exp(-fabs_(x))); }
inline double logistic_normal(double x) { return logistic_of(x, exp_normal(-fabs_(x))); }
inline double tanh(double x) {
  const double a = fabs_(x);
  const double t = expm1(2.0 * (a > 22.0 ? 22.0 : a));
  return sign_of(t / (t + 2.0), x);
}
inline double sinh(double x) {
  const double a = fabs_(x);
  const double t = expm1(a > 709.0 ? 709.0 : a);
  const double small = 0.5 * (t + t / (t + 1.0));
  const double h = exp(0.5 * a);
  return sign_of(a > 709.0 ? (0.5 * h) * h : small, x);
}
inline double cosh(double x) {
  const double a = fabs_(x);
  const double t = exp(a > 709.0 ? 709.0 : a);
  const double h = exp(0.5 * a);
  return a > 709.0 ? (0.5 * h) * h : 0.5 * t + 0.5 / t;
}
inline double asinh(double x) {
  const double a = fabs_(x);
  const uint64_t big = mask(a > 0x1p28);
  const double s = pick(big, 1.0, a);
  const double v = log1p(s + s * s / (1.0 + std::sqrt(std::fma(s, s, 1.0))));
  const double w = log(a) + kLn2Hi;
  return sign_of(pick(big, w, v), x);
}
inline double acosh(double x) {
  const uint64_t big = mask(x > 0x1p28);
  const double t = pick(big, 2.0, x) - 1.0;
  const double v = log1p(t + std::sqrt(std::fma(t, t, 2.0 * t)));
  return pick(mask(x < 1.0), kNan, pick(big, log(x) + kLn2Hi, v));
}
inline double atanh(double x) {
  const double a = fabs_(x);
  const double v = 0.5 * log1p(2.0 * a / (1.0 - a));
  return a > 1.0 ? kNan : sign_of(v, x);
}

// Angle of (y, x) for y, x >= 0, not both 0: num/den is at most tan(pi/8) after adding 0, pi/4 or pi/2.
inline double angle(double y, double x) {
  constexpr double k = 0.41421356237309503, big = 2.414213562373095;
  const bool steep = y > big * x, mid = !steep && y > k * x;
  const double num = steep ? -x : mid ? y - x : y;
  const double den = steep ? y : mid ? y + x : x;
  const double hi = steep ? kPio2 : mid ? kPio4 : 0.0;
  const double lo = steep ? kPio2Lo : mid ? 0.5 * kPio2Lo : 0.0;
  const double t = num / den;
  const double z = t * t;
  return hi + (t + (std::fma(t * z, poly(kAtan, z), lo)));
}
inline double atan(double x) {
  const double a = fabs_(x);
  const double v = angle(a, 1.0);
  return sign_of(a == kInf ? kPio2 : fabs_(v), x);
}
inline double atan2(double y, double x) {
  double ay = fabs_(y), ax = fabs_(x);
  const bool both = ay == kInf && ax == kInf;
  // Scaled so that sums and products stay finite, and quotients do not underflow early.
  const double m = ay > ax ? ay : ax;
  const double f = m > 0x1p1000 ? 0x1p-100 : m < 0x1p-900 ? 0x1p120 : 1.0;
  const double sy = both ? 1.0 : ay * f, sx = both ? 1.0 : ax * f;
  double v = angle(sy, sx);
  v = ax == kInf && !both ? 0.0 : v;
  v = ay == kInf && !both ? kPio2 : v;
  v = m == 0.0 ? 0.0 : fabs_(v);
  const bool left = (as_bits(x) >> 63) != 0;
  v = left ? (kPi - (v - 2.0 * kPio2Lo)) : v;
  return y != y || x != x ? kNan : sign_of(v, y);
}
inline double asin_core(double z, double t) { return std::fma(t * z, poly(kAsin, z), t); }
inline double asin(double x) {
  const double a = fabs_(x);
  const bool outer = a > 0.5;
  const double z = outer ? 0.5 * (1.0 - a) : a * a;
  const double t = outer ? std::sqrt(z) : a;
  const double v = asin_core(z, t);
  const double w = kPio2 - (2.0 * v - kPio2Lo);
  return a > 1.0 || x != x ? kNan : sign_of(outer ? w : v, x);
}
inline double acos(double x) {
  const double a = fabs_(x);
  const bool outer = a > 0.5;
  const double z = outer ? 0.5 * (1.0 - a) : a * a;
  const double t = outer ? std::sqrt(z) : a;
  // sqrt(z) is rounded: its remainder counts when the result is not small.
  const double c = outer && t > 0.0 ? std::fma(-t, t, z) / (2.0 * t) : 0.0;
  const double v = asin_core(z, t);
  const double q = t * z * poly(kAsin, z);
  const double inner = kPio2 - (x < 0.0 ? -v - kPio2Lo : v - kPio2Lo);
  const double near = 2.0 * (t + (q + c));
  const double r = outer ? (x < 0.0 ? kPi - (near - 2.0 * kPio2Lo) : near) : inner;
  return a > 1.0 || x != x ? kNan : r;
}

struct Reduced {
  double r, lo;       // |r + lo| <= pi/4
  uint64_t quadrant;  // low two bits
};
// x - k pi/2 for |x| < 2^48: k (first part) is exact below 1 in magnitude, so the first difference is exact.
inline Reduced reduce(double x) {
  const double t = std::fma(x, 0x1.45f306dc9c883p-1, kMagic);
  const double k = t - kMagic;
  const double r0 = std::fma(-k, kPio2, x);
  const double r = std::fma(-k, kPio2Lo, r0);
  const double lo = std::fma(-k, kPio2Tail, std::fma(-k, kPio2Lo, r0 - r));
  return {r, lo, as_bits(t)};
}
constexpr double kReduceLimit = 0x1p48;
Reduced reduce_huge(double x);  // any finite x; slow

inline double sin_poly(Reduced v) {
  const double z = v.r * v.r;
  return v.r + std::fma(v.r * z, poly(kSin, z), v.lo * (1.0 - 0.5 * z));
}
inline double cos_poly(Reduced v) {
  const double z = v.r * v.r;
  const double half = 0.5 * z;
  const double w = 1.0 - half;
  return w + (((1.0 - w) - half) + std::fma(z * z, poly(kCos, z), -v.r * v.lo));
}
inline double sin_of(Reduced v) {
  const double p = v.quadrant & 1 ? cos_poly(v) : sin_poly(v);
  return v.quadrant & 2 ? -p : p;
}
inline double cos_of(Reduced v) { return sin_of({v.r, v.lo, v.quadrant + 1}); }
inline double tan_of(Reduced v) {
  const double s = sin_poly(v), c = cos_poly(v);
  return v.quadrant & 1 ? -c / s : s / c;
}
inline double sin(double x) { return x == 0.0 ? x : sin_of(reduce(x)); }
inline double cos(double x) { return cos_of(reduce(x)); }
inline double tan(double x) { return x == 0.0 ? x : tan_of(reduce(x)); }

inline double cbrt(double x) {
  const double a = fabs_(x);
  const bool tiny = a < 0x1p-1022;
  const double n = tiny ? a * 0x1p54 : a;
  const double e = as_f64((as_bits(n) >> 52) | as_bits(kMagic)) - kMagic - 1023.0;
  const double q = std::floor(e * (1.0 / 3.0) + 0.01);
  const double m = as_f64((as_bits(n) & 0x000fffffffffffffu) | as_bits(1.0)) * pow2(e - 3.0 * q);  // [1, 8)
  double y = poly(kCbrt, m);
  y = y - y * ((y * y * y - m) / (2.0 * (y * y * y) + m));  // Halley: the error cubed
  // The last step in extra precision: the residual m - y^3 by fma.
  const double y2 = y * y, y2e = std::fma(y, y, -y2);
  const double res = std::fma(-y2, y, m) - y2e * y;
  y = y + res / (3.0 * y2);
  const double v = y * pow2(q - (tiny ? 18.0 : 0.0));
  return a == 0.0 || a == kInf || x != x ? x : sign_of(v, x);
}

// erfc(a) for a >= 0.9, with the lost part of a^2 brought back into the exponential.
inline double erfc_outer(double a, double limit) {
  const double c = a > limit ? limit : a;
  const double u = (c - 3.0) / (c + 3.0);
  const double s = c * c;
  const double e = exp_tail(-s, -std::fma(c, c, -s));
  return e * (poly(kErfc, u) / std::fma(2.0, c, 1.0));
}
inline double erf(double x) {
  const double a = fabs_(x);
  const double inner = a * poly(kErf, a * a > 1.0 ? 1.0 : a * a);
  const double outer = 1.0 - erfc_outer(a < 0.9 ? 0.9 : a, 6.5);
  return x != x ? x : sign_of(a < 1.0 ? inner : outer, x);
}
inline double erfc(double x) {
  const double a = fabs_(x);
  const double inner = 1.0 - x * poly(kErf, a * a > 1.0 ? 1.0 : a * a);
  const double o = erfc_outer(a < 0.9 ? 0.9 : a, 27.3);
  const double outer = x < 0.0 ? 2.0 - o : o;
  return x != x ? x : a < 0.9 ? inner : outer;
}

// log x as hi + lo to about 2^-66, x positive and finite.
struct Pair {
  double hi, lo;
};
inline Pair two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
inline Pair log_pair(double x) {
  const Split p = split(x);
  const double f = p.m - 1.0;
  const double d = 2.0 + f, dl = f - (d - 2.0);
  const double s = f / d;
  const double sl = (std::fma(-s, d, f) - s * dl) / d;
  const double z = s * s, zl = std::fma(s, s, -z) + 2.0 * s * sl;
  const double c = s * z, cl = std::fma(s, z, -c) + std::fma(s, zl, sl * z);  // s^3
  constexpr double k = 0x1.5555555555555p-1, kl = 0x1.5555555555555p-55;
  const double t = k * c, tl = std::fma(k, c, -t) + std::fma(k, cl, kl * c);
  const double rest = c * z * poly(kAtanh5, z);
  const double eh = p.e * kLn2Hi, el = std::fma(p.e, kLn2Hi, -eh) + p.e * kLn2Lo;
  const Pair a = two_sum(eh, 2.0 * s), b = two_sum(a.hi, t);
  const double lo = (a.lo + b.lo) + (el + 2.0 * sl + tl + rest);
  const double hi = b.hi + lo;
  return {hi, (b.hi - hi) + lo};
}
inline double pow(double x, double y) {
  const double a = fabs_(x), ay = fabs_(y);
  const uint64_t zero = mask(a == 0.0), inf = mask(a == kInf), nan = mask(x != x || y != y);
  const Pair l = log_pair(pick(zero | inf | nan, 1.0, a));
  const double yc = pick(mask(ay > 0x1p80), sign_of(0x1p80, y), y);  // stays finite, decides the same way
  const double h = l.hi * yc;
  const double lo = std::fma(l.hi, yc, -h) + l.lo * yc;
  double v = exp_tail(h, pick(mask(fabs_(h) > 800.0), 0.0, lo));
  const double half = 0.5 * y;
  const uint64_t integral = mask(std::floor(y) == y);
  const uint64_t odd = integral & mask(std::floor(half) != half) & mask(ay < 0x1p53);
  const uint64_t down = mask(y < 0.0), below = mask(x < 0.0);
  v = pick(zero | inf, pick(inf ^ down, kInf, 0.0), v);  // 0^-y and inf^y are infinite
  const uint64_t grows = mask(a > 1.0) ^ down;           // |x|^inf, |x| < 1 with -inf
  v = pick(mask(ay == kInf), pick(mask(a == 1.0), 1.0, pick(grows, kInf, 0.0)), v);
  v = as_f64(as_bits(v) ^ (as_bits(x) & odd & (uint64_t{1} << 63)));
  v = pick(below & ~integral & ~inf, kNan, v);
  v = pick(nan, kNan, v);
  return pick(mask(y == 0.0) | mask(x == 1.0), 1.0, v);
}

}  // namespace m64
}  // namespace pallasim::interp::PALLASIM_KNS
