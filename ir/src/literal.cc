#include "pallasim/ir/literal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace pallasim::ir {
namespace {

// What infinities and NaNs look like in a narrow format.
enum class Special : uint8_t {
  Ieee,
  FiniteNan /* fn: all ones is NaN */,
  Unsigned0 /* fnuz: -0 is NaN */,
  None,
  ExponentOnly
};
struct Format {
  int exponent, mantissa, bias;
  Special special;
};

Format format_of(DType t) {
  switch (t) {
    case DType::BF16: return {8, 7, 127, Special::Ieee};
    case DType::F16: return {5, 10, 15, Special::Ieee};
    case DType::F8E3M4: return {3, 4, 3, Special::Ieee};
    case DType::F8E4M3: return {4, 3, 7, Special::Ieee};
    case DType::F8E4M3B11FNUZ: return {4, 3, 11, Special::Unsigned0};
    case DType::F8E4M3FN: return {4, 3, 7, Special::FiniteNan};
    case DType::F8E4M3FNUZ: return {4, 3, 8, Special::Unsigned0};
    case DType::F8E5M2: return {5, 2, 15, Special::Ieee};
    case DType::F8E5M2FNUZ: return {5, 2, 16, Special::Unsigned0};
    case DType::F4E2M1FN: return {2, 1, 1, Special::None};
    case DType::F64: return {11, 52, 1023, Special::Ieee};
    default: return {8, 23, 127, Special::Ieee};
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

uint64_t largest(const Format& f) {  // without the sign
  const uint64_t top = (uint64_t{1} << (f.exponent + f.mantissa)) - 1;
  if (f.special == Special::Ieee) return top - (uint64_t{1} << f.mantissa);
  return f.special == Special::FiniteNan ? top - 1 : top;
}

uint64_t nan_bits(const Format& f) {
  const uint64_t sign = uint64_t{1} << (f.exponent + f.mantissa);
  switch (f.special) {
    case Special::Ieee: return ((uint64_t{1} << f.exponent) - 1) << f.mantissa | uint64_t{1} << (f.mantissa - 1);
    case Special::FiniteNan: return sign - 1;
    case Special::Unsigned0: return sign;
    default: return sign;  // f4e2m1fn has no NaN: ml_dtypes gives -0
  }
}

uint64_t round_to(const Format& f, double v) {
  const uint64_t sign_bit = uint64_t{1} << (f.exponent + f.mantissa);
  if (std::isnan(v)) return nan_bits(f);
  const uint64_t sign = std::signbit(v) ? sign_bit : 0;
  const double a = std::fabs(v);
  if (a == 0) return f.special == Special::Unsigned0 ? 0 : sign;
  const uint64_t past = f.special == Special::Ieee   ? (largest(f) + 1) | sign
                        : f.special == Special::None ? largest(f) | sign
                                                     : nan_bits(f);
  if (std::isinf(v)) return f.special == Special::FiniteNan ? nan_bits(f) | sign : past;
  int e;
  std::frexp(a, &e);
  // The unit in the last place of the result: subnormals share the smallest normal's.
  const int ulp = std::max(e - 1, 1 - f.bias) - f.mantissa;
  const auto n = static_cast<uint64_t>(std::nearbyint(std::ldexp(a, -ulp)));
  // n is below 2^(mantissa+1); a carry into the exponent falls out of the addition.
  const auto biased = static_cast<uint64_t>(ulp + f.mantissa + f.bias);
  const uint64_t magnitude = n + ((biased - 1) << f.mantissa);
  if (magnitude > largest(f)) return f.special == Special::FiniteNan ? nan_bits(f) | sign : past;
  return magnitude == 0 && f.special == Special::Unsigned0 ? 0 : magnitude | sign;
}

uint64_t truncated(DType t, uint64_t v) { return bit_width(t) >= 64 ? v : v & ((uint64_t{1} << bit_width(t)) - 1); }

}  // namespace

double bits_to_double(DType t, uint64_t bits) {
  if (t == DType::F64) return std::bit_cast<double>(bits);
  if (t == DType::F32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (t == DType::F8E8M0FNU) return (bits & 255) == 255 ? kNan : std::ldexp(1.0, static_cast<int>(bits & 255) - 127);
  const Format f = format_of(t);
  const uint64_t sign_bit = uint64_t{1} << (f.exponent + f.mantissa);
  const uint64_t magnitude = bits & (sign_bit - 1);
  const double sign = bits & sign_bit ? -1 : 1;
  if (f.special == Special::Unsigned0 && bits == sign_bit) return kNan;
  if (magnitude > largest(f)) return f.special == Special::Ieee && magnitude == largest(f) + 1 ? sign * kInf : kNan;
  const auto e = static_cast<int>(magnitude >> f.mantissa);
  const uint64_t m = magnitude & ((uint64_t{1} << f.mantissa) - 1);
  const uint64_t significand = e ? m | uint64_t{1} << f.mantissa : m;
  return sign * std::ldexp(static_cast<double>(significand), (e ? e : 1) - f.bias - f.mantissa);
}

uint64_t double_to_bits(DType t, double v) {
  if (t == DType::F64) return std::bit_cast<uint64_t>(v);
  if (t == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  if (t == DType::Bool) return v != 0;
  if (t == DType::F8E8M0FNU) {
    if (!(v > 0)) return 255;
    const double e = std::log2(v);
    return static_cast<uint64_t>(std::clamp(std::nearbyint(e), -127.0, 127.0) + 127);
  }
  if (is_float(t)) return round_to(format_of(t), v);
  if (!(v > -9.3e18 && v < 1.85e19)) return 0;
  return truncated(t, v < 0 ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v));
}

uint64_t int_to_bits(DType t, int64_t v) {
  if (t == DType::Bool) return v != 0;
  if (is_float(t)) return double_to_bits(t, static_cast<double>(v));
  return truncated(t, static_cast<uint64_t>(v));
}

}  // namespace pallasim::ir
