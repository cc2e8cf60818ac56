// Elementwise functions in f32: the frequent ones in f32 arithmetic, the others through f64, which rounds almost
// always correctly.
#pragma once
#include "math_f64.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace m32 {

constexpr float kMagic = 0x1.8p23f;
constexpr float kLog2e = 0x1.715476p+0f, kLn2Hi = 0x1.62e43p-1f, kLn2Lo = -0x1.05c61p-29f;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <int N>
inline float poly(const float (&c)[N], float x) {
  float r = c[0];
#pragma GCC unroll 32
  for (int i = 1; i < N; ++i) r = std::fma(r, x, c[i]);
  return r;
}
inline float fabs_(float x) { return as_f32(as_bits(x) & 0x7fffffffu); }
inline float sign_of(float magnitude, float s) { return as_f32(as_bits(magnitude) | (as_bits(s) & 0x80000000u)); }
inline float pow2(float k) { return as_f32(as_bits(k + (kMagic + 127)) << 23); }  // -126 <= k <= 127
inline float scale(float x, float k) {
  const float k1 = (k * 0.5f + kMagic) - kMagic;
  return x * pow2(k1) * pow2(k - k1);
}
inline float exp_reduced(float r) { return std::fma(r * r, poly(kExpF, r), r) + 1.0f; }

// Below, e^x rounds to 0. Masked elements are there, and what is almost 0 is slow to multiply.
constexpr float kExpNone = -104.0f;
inline float exp(float x) {
  const bool none = x < kExpNone;
  float c = x > 89.0f ? 89.0f : x;
  c = none ? 0.0f : c;
  const float k = std::fma(c, kLog2e, kMagic) - kMagic;
  const float r = std::fma(-k, kLn2Lo, std::fma(-k, kLn2Hi, c));
  const float e = scale(exp_reduced(r), k);
  return none ? 0.0f : e;
}
// The same bits as exp where the result and its scale are normal or the result is 0: |x| <= kExpNormal, x < kExpNone.
constexpr float kExpNormal = 86.5f;
inline float exp_normal(float x) {
  const bool none = x < kExpNone;
  const float c = none ? 0.0f : x;
  const float t = std::fma(c, kLog2e, kMagic);
  const float k = t - kMagic;
  const float r = std::fma(-k, kLn2Lo, std::fma(-k, kLn2Hi, c));
  const float e = as_f32(as_bits(exp_reduced(r)) + (as_bits(t) << 23));
  return none ? 0.0f : e;
}
inline float exp2(float x) {
  float c = x > 129.0f ? 129.0f : x;
  c = c < -151.0f ? -151.0f : c;
  const float k = (c + kMagic) - kMagic;
  return scale(exp_reduced((c - k) * kLn2Hi), k);
}
inline float expm1(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -30.0f ? -30.0f : c;
  const float k = std::fma(c, kLog2e, kMagic) - kMagic;
  const float r = std::fma(-k, kLn2Lo, std::fma(-k, kLn2Hi, c));
  const float p = std::fma(r * r, poly(kExpm1F, r), r);
  const float s = pow2(k - 1.0f);
  const float v = 2.0f * std::fma(s, p, s - 0.5f);
  return k == 0.0f ? (x == 0.0f ? x : p) : v;
}
inline float log(float x) {
  const bool tiny = x < 0x1p-126f;
  const uint32_t u = as_bits(tiny ? x * 0x1p25f : x) + (0x3f800000u - 0x3f3504f3u);
  const float e = static_cast<float>(static_cast<int32_t>(u >> 23) - (tiny ? 152 : 127));
  const float f = as_f32((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = f * f;
  const float lo = std::fma(z * f, poly(kLogF, f), e * kLn2Lo);
  float r = std::fma(e, kLn2Hi, std::fma(-0.5f, z, lo) + f);
  r = x == kInf ? kInf : r;
  r = x == 0.0f ? -kInf : r;
  return x < 0.0f || x != x ? kNan : r;
}
inline float logistic_of(float x, float e) { return (x >= 0.0f || x != x ? 1.0f : e) / (1.0f + e); }
inline float logistic(float x) { return logistic_of(x, exp(-fabs_(x))); }
inline float logistic_normal(float x) { return logistic_of(x, exp_normal(-fabs_(x))); }
inline float tanh(float x) {
  const float a = fabs_(x), z = a * a;
  const float small = std::fma(a * z, poly(kTanhF, z), a);
  const float c = a > 10.0f ? 10.0f : a;
  const float e = exp_normal(c + c);
  const float big = 1.0f - 2.0f / (e + 1.0f);
  const float v = sign_of(a < 0.55f ? small : fabs_(big), x);
  return x != x ? x : v;
}
inline float erf(float x) {
  const float a = fabs_(x);
  const float inner = std::fma(a, poly(kErfF, a * a), a);
  const float c = a > 4.0f ? 4.0f : a;
  const float outer = 1.0f - exp_normal(-poly(kErfOuterF, c - 1.0f));
  const float v = sign_of(a < 0.9f ? inner : outer, x);
  return x != x ? x : v;
}
inline float erfc(float x) {
  const float a = fabs_(x);
  const float inner = std::fma(-x, poly(kErfF, a * a), 1.0f - x);
  const float c = a > 10.2f ? 10.2f : a;
  const float s = c * c;
  const float e0 = exp(-s), e = std::fma(e0, -std::fma(c, c, -s), e0);  // with the lost part of the square
  const float o = e * (poly(kErfcF, (c - 2.0f) / (c + 2.0f)) / std::fma(2.0f, c, 1.0f));
  const float v = a < 0.5f ? inner : x < 0.0f ? 2.0f - o : o;
  return x != x ? x : v;
}

// sin and cos reduce in f64, where the f32 argument loses nothing up to the limit of the reduction.
inline double reduced(double x, uint64_t* quadrant) {
  const double t = std::fma(x, 0x1.45f306dc9c883p-1, m64::kMagic);
  const double k = t - m64::kMagic;
  *quadrant = as_bits(t);
  return std::fma(-k, m64::kPio2Lo, std::fma(-k, m64::kPio2, x));
}
inline double sin_cos(double r, uint64_t quadrant) {
  const double z = r * r;
  const double s = std::fma(r * z, m64::poly(kSinF, z), r);
  const double c = std::fma(z * z, m64::poly(kCosF, z), std::fma(-0.5, z, 1.0));
  const double v = quadrant & 1 ? c : s;
  return quadrant & 2 ? -v : v;
}
inline float sin(float x) {
  uint64_t q;
  const double r = reduced(x, &q);
  return x == 0.0f ? x : static_cast<float>(sin_cos(r, q));
}
inline float cos(float x) {
  uint64_t q;
  const double r = reduced(x, &q);
  return static_cast<float>(sin_cos(r, q + 1));
}

#define PALLASIM_WIDE(name) \
  inline float name(float x) { return static_cast<float>(m64::name(static_cast<double>(x))); }
PALLASIM_WIDE(log1p)
PALLASIM_WIDE(log2)
PALLASIM_WIDE(tan)
PALLASIM_WIDE(sinh)
PALLASIM_WIDE(cosh)
PALLASIM_WIDE(asin)
PALLASIM_WIDE(acos)
PALLASIM_WIDE(atan)
PALLASIM_WIDE(asinh)
PALLASIM_WIDE(acosh)
PALLASIM_WIDE(atanh)
PALLASIM_WIDE(cbrt)
#undef PALLASIM_WIDE
inline float atan2(float y, float x) { return static_cast<float>(m64::atan2(y, x)); }
// The logarithm to f64 precision is enough: |y log x| < 2^8 where the result is finite.
inline float pow(float x, float y) { return static_cast<float>(m64::pow(x, y)); }

}  // namespace m32
}  // namespace pallasim::interp::PALLASIM_KNS
