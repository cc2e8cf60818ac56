// The narrow float formats: rounding an f32 to one, and between an f32 that the format can represent and its bits.
// Everything is integer and f32 arithmetic without branches, so that loops over it vectorise on every ISA.
#pragma once
#include "body.h"

namespace pallasim::interp::PALLASIM_KNS {

// Ieee: infinities and NaNs. Fn: NaN is all ones, no infinity. Fnuz: NaN is the code of -0, no infinity, no -0.
// Finite: neither. Scale: unsigned powers of two, NaN is all ones.
enum class Kind { Ieee, Fn, Fnuz, Finite, Scale };

template <DType>
struct Format;
#define PALLASIM_FORMAT(dtype, e, m, b, k)          \
  template <>                                       \
  struct Format<DType::dtype> {                     \
    static constexpr int kE = e, kM = m, kBias = b; \
    static constexpr Kind kKind = Kind::k;          \
  };
PALLASIM_FORMAT(BF16, 8, 7, 127, Ieee)
PALLASIM_FORMAT(F16, 5, 10, 15, Ieee)
PALLASIM_FORMAT(F8E3M4, 3, 4, 3, Ieee)
PALLASIM_FORMAT(F8E4M3, 4, 3, 7, Ieee)
PALLASIM_FORMAT(F8E4M3B11FNUZ, 4, 3, 11, Fnuz)
PALLASIM_FORMAT(F8E4M3FN, 4, 3, 7, Fn)
PALLASIM_FORMAT(F8E4M3FNUZ, 4, 3, 8, Fnuz)
PALLASIM_FORMAT(F8E5M2, 5, 2, 15, Ieee)
PALLASIM_FORMAT(F8E5M2FNUZ, 5, 2, 16, Fnuz)
PALLASIM_FORMAT(F8E8M0FNU, 8, 0, 127, Scale)
PALLASIM_FORMAT(F4E2M1FN, 2, 1, 1, Finite)
#undef PALLASIM_FORMAT

constexpr uint32_t pow2_bits(int e) {  // bits of 2^e as f32, e in the normal or subnormal range
  return e >= -126 ? static_cast<uint32_t>(e + 127) << 23 : 1u << (e + 149);
}

template <class F>
struct Layout {
  static constexpr int kShift = 23 - F::kM;
  static constexpr int kMinExp = 1 - F::kBias;  // smallest normal exponent
  static constexpr uint32_t kMinNormal = pow2_bits(kMinExp);
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F::kBias) << 23;
  static constexpr uint32_t kMaxCode = F::kKind == Kind::Ieee ? ((((1u << F::kE) - 1) << F::kM) - 1)
                                       : F::kKind == Kind::Fn || F::kKind == Kind::Scale ? (1u << (F::kE + F::kM)) - 2
                                                                                         : (1u << (F::kE + F::kM)) - 1;
  static constexpr uint32_t kMax = (kMaxCode << kShift) + kRebias;  // the largest finite value as f32 bits
  static constexpr uint32_t kSign = 1u << (F::kE + F::kM);
};

// x rounded to the nearest even value of F. Out of range: infinity or NaN, or the largest value if `sat`.
template <class F>
inline float quantize(float x, bool sat) {
  using L = Layout<F>;
  const uint32_t b = as_bits(x), sign = b & 0x80000000u, a = b & 0x7fffffffu;
  if constexpr (F::kKind == Kind::Scale) {
    // Ties go up, and everything positive below the range is the smallest scale, as ml_dtypes has it.
    const uint32_t normal = (a + 0x00400000u) & 0x7f800000u;
    uint32_t r = a < 0x00600000u ? 0x00400000u : normal;
    r = a >= 0x7f400000u ? (sat && a <= 0x7f800000u ? 0x7f000000u : 0x7fc00000u) : r;
    return as_f32((sign != 0 || a == 0) ? 0x7fc00000u : r);
  } else {
    constexpr int s = L::kShift;
    uint32_t r = (a + ((1u << (s - 1)) - 1) + ((a >> s) & 1u)) & ~((1u << s) - 1);
    if constexpr (F::kE < 8) {
      // Below the normal range the quantum is fixed: adding 2^(23) quanta rounds to it.
      const float magic = as_f32(pow2_bits(L::kMinExp - F::kM + 23));
      const uint32_t sub = as_bits((as_f32(a) + magic) - magic);
      r = a < L::kMinNormal ? sub : r;
    }
    if constexpr (F::kKind == Kind::Ieee) {
      r = r > L::kMax ? (sat ? L::kMax : 0x7f800000u) : r;
      return as_f32(a > 0x7f800000u ? (sign | 0x7fc00000u) : (sign | r));
    } else if constexpr (F::kKind == Kind::Fn) {
      r = r > L::kMax ? (sat ? L::kMax : 0x7fc00000u) : r;
      return as_f32(a > 0x7f800000u ? (sign | 0x7fc00000u) : (sign | r));
    } else if constexpr (F::kKind == Kind::Fnuz) {
      r = r > L::kMax ? (sat ? L::kMax : 0x7fc00000u) : r;
      r = a > 0x7f800000u ? 0x7fc00000u : r;
      return as_f32((r == 0 || r == 0x7fc00000u) ? r : (sign | r));
    } else {
      r = r > L::kMax ? L::kMax : r;
      return as_f32(a > 0x7f800000u ? (sign ^ 0x80000000u) : (sign | r));  // NaN: a zero, as ml_dtypes has it
    }
  }
}

// Code of a value that F can represent; NaN payloads are kept as far as they fit.
template <class F>
inline uint32_t encode(float x) {
  using L = Layout<F>;
  const uint32_t b = as_bits(x), a = b & 0x7fffffffu;
  if constexpr (F::kKind == Kind::Scale) {
    return a > 0x7f000000u || b >> 31 ? 0xffu : a >> 23;
  } else {
    const uint32_t sign = b >> 31 ? L::kSign : 0u;
    if constexpr (F::kE == 8) {
      const uint32_t code = a >> L::kShift;
      return sign | (a > 0x7f800000u && code == 0x7f80u ? 0x7fc0u : code);
    } else {
      constexpr uint32_t inf = ((1u << F::kE) - 1) << F::kM;
      const float scale = as_f32(pow2_bits(F::kM - L::kMinExp));
      const uint32_t sub = static_cast<uint32_t>(static_cast<int32_t>(as_f32(a < L::kMinNormal ? a : 0u) * scale));
      uint32_t code = a < L::kMinNormal ? sub : (a - L::kRebias) >> L::kShift;
      if constexpr (F::kKind == Kind::Ieee) {
        const uint32_t payload = (a >> L::kShift) & ((1u << F::kM) - 1);
        const uint32_t nan = inf | (payload ? payload : 1u << (F::kM - 1));
        code = a == 0x7f800000u ? inf : a > 0x7f800000u ? nan : code;
        return sign | code;
      } else if constexpr (F::kKind == Kind::Fn) {
        return sign | (a >= 0x7f800000u ? L::kSign - 1 : code);
      } else if constexpr (F::kKind == Kind::Fnuz) {
        return a >= 0x7f800000u ? L::kSign : code == 0 ? 0u : sign | code;
      } else {
        return sign | code;
      }
    }
  }
}

template <class F>
inline float decode(uint32_t code) {
  using L = Layout<F>;
  if constexpr (F::kKind == Kind::Scale) {
    return as_f32(code == 0 ? 0x00400000u : code == 255u ? 0x7fc00000u : code << 23);
  } else if constexpr (F::kE == 8) {
    return as_f32(code << L::kShift);
  } else {
    const uint32_t a = code & (L::kSign - 1), sign = code & L::kSign ? 0x80000000u : 0u;
    const float quantum = as_f32(pow2_bits(L::kMinExp - F::kM));
    const uint32_t sub = as_bits(static_cast<float>(static_cast<int32_t>(a)) * quantum);
    uint32_t r = a < (1u << F::kM) ? sub : (a << L::kShift) + L::kRebias;
    if constexpr (F::kKind == Kind::Ieee) {
      constexpr uint32_t inf = ((1u << F::kE) - 1) << F::kM;
      r = a >= inf ? 0x7f800000u | ((a - inf) << L::kShift) : r;
      return as_f32(sign | r);
    } else if constexpr (F::kKind == Kind::Fn) {
      return as_f32(sign | (a == L::kSign - 1 ? 0x7fc00000u : r));
    } else if constexpr (F::kKind == Kind::Fnuz) {
      return as_f32(code == L::kSign ? 0x7fc00000u : sign | r);
    } else {
      return as_f32(sign | r);
    }
  }
}

// f(std::integral_constant<DType, d>) for the narrow float d; false when d is none.
template <class Fn>
inline bool with_narrow_float(DType d, Fn&& f) {
  switch (d) {
#define X(e) \
  case DType::e: f(std::integral_constant<DType, DType::e>{}); return true;
    X(BF16)
    X(F16) X(F8E3M4) X(F8E4M3) X(F8E4M3B11FNUZ) X(F8E4M3FN) X(F8E4M3FNUZ) X(F8E5M2) X(F8E5M2FNUZ) X(F8E8M0FNU)
        X(F4E2M1FN)
#undef X
            default : return false;
  }
}

// Only the 8- and 4-bit types saturate on the machines that saturate.
constexpr bool may_saturate(DType d) { return bits_of(d) <= 8; }

}  // namespace pallasim::interp::PALLASIM_KNS
