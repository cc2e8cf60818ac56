// erf_inv in f32, bit for bit as XLA:CPU computes it on machines with fused multiply-adds (jaxlib 0.10): samplers are
// made of it and tests compare them exactly. The formula is Giles's ("Approximating the erfinv function"); its log1p is
// Cephes'. A loop over `erf_inv` vectorises; each multiply-add that XLA's code generator fuses is written as one.
#pragma once
#include "math_f32.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace m32 {

// log(y), y in [2^-24, 1]: mantissa in [sqrt(1/2), sqrt(2)), polynomial of degree 9 in three interleaved parts.
inline float cephes_log(float y) {
  constexpr float kP[] = {0x1.204376p-4f,  -0x1.d7a37p-4f,  0x1.de4a34p-4f,   // the terms of t^11, t^10, t^9
                          -0x1.fcba9ep-4f, 0x1.23d37ep-3f,  -0x1.555cap-3f,   // t^8, t^7, t^6
                          0x1.999d58p-3f,  -0x1.fffff8p-3f, 0x1.555554p-2f};  // t^5, t^4, t^3
  const uint32_t u = as_bits(y);
  const float m = as_f32((u & 0x007fffffu) | 0x3f000000u);  // [1/2, 1)
  const bool low = m < 0x1.6a09e6p-1f;
  const float e = static_cast<float>(static_cast<int32_t>(u >> 23) - (low ? 127 : 126));
  const float t = (m - 1.0f) + (low ? m : 0.0f), z = t * t, cube = z * t;
  const float a = std::fma(std::fma(t, kP[0], kP[1]), t, kP[2]);
  const float b = std::fma(std::fma(t, kP[3], kP[4]), t, kP[5]);
  const float c = std::fma(std::fma(t, kP[6], kP[7]), t, kP[8]);
  const float p = std::fma(std::fma(a, cube, b), cube, c);
  const float tail = std::fma(p, cube, e * -0x1.bd0106p-13f);
  return std::fma(e, 0x1.63p-1f, std::fma(z, -0.5f, t) + tail);
}

// log(1 + x), x in (-1, 0].
inline float cephes_log1p(float x) {
  constexpr float kNum[] = {4.527e-05f,     0x1.fe818ap-2f, 0x1.a509f4p+2f, 0x1.de9738p+4f,
                            0x1.e798ecp+5f, 0x1.c8e75ap+5f, 0x1.40a202p+4f};
  constexpr float kDen[] = {1.0f,           0x1.e2035ap+3f, 0x1.4c30b6p+6f, 0x1.bb865ap+7f,
                            0x1.351946p+8f, 0x1.b0db14p+7f, 0x1.e0f304p+5f};
  const float z = x * x;
  const float near = x + std::fma(z, -0.5f, (x * z) * (poly(kNum, x) / poly(kDen, x)));
  return fabs_(x) < 0x1.a8279ap-2f ? near : cephes_log(1.0f + x);
}

inline float erf_inv(float x) {
  constexpr float kCentral[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  constexpr float kTail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                             -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  const float a = fabs_(x);
  const float w = -cephes_log1p(-(x * x));
  const bool central = w < 5.0f;
  const float v = central ? w - 2.5f : std::sqrt(w) - 3.0f;
  float p = central ? kCentral[0] : kTail[0];
#pragma GCC unroll 8
  for (int i = 1; i < 9; ++i) p = std::fma(p, v, central ? kCentral[i] : kTail[i]);
  const float r = a == 1.0f ? x * kInf : p * x;
  return a <= 1.0f ? r : kNan;
}

}  // namespace m32
}  // namespace pallasim::interp::PALLASIM_KNS
