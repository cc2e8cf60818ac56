#include "strip_float.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

// The next value of a narrow type: steps of its code.
template <class F>
float next_code(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if constexpr (F::kKind == Kind::Scale) {
    const uint32_t c = encode<F>(x);
    return decode<F>(x < y ? c + 1 : c - 1);
  } else {
    const uint32_t c = encode<F>(x), sign = c & Layout<F>::kSign, mag = c ^ sign;
    if (mag == 0) return decode<F>(1u | (y < 0 ? Layout<F>::kSign : 0u));
    const uint32_t next = (x < y) == (sign == 0) ? mag + 1 : mag - 1;
    if (F::kKind == Kind::Finite && next > Layout<F>::kMaxCode) return x;
    if (F::kKind == Kind::Fnuz && next > Layout<F>::kMaxCode) return as_f32(0x7fc00000u);
    return decode<F>(F::kKind == Kind::Fnuz && next == 0 ? 0u : sign | next);
  }
}

void nextafter_f32(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  auto* d = static_cast<float*>(dst);
  auto* x = static_cast<const float*>(a);
  auto* y = static_cast<const float*>(b);
  if (!with_narrow_float(p.dtype, [&](auto t) {
        for (int64_t i = 0; i < n; ++i) d[i] = next_code<Format<decltype(t)::value>>(x[i], y[i]);
      })) {
    binary<NextAfter, float, float, false>(dst, a, b, c, n, p);
  }
}

}  // namespace

StripFn strip_f32(OpCode op) { return op == OpCode::nextafter ? nextafter_f32 : float_strip<float>(op); }

}  // namespace pallasim::interp::PALLASIM_KNS
