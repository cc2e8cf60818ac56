#include "strip_math.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace m64 {

// x times enough bits of 2/pi to keep 128 bits after the binary point of the quadrant.
Reduced reduce_huge(double x) {
  static constexpr uint64_t kTwoOverPi[] = {
      // its fraction, most significant word first
      0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
      0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
      0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
  using W = unsigned __int128;
  const uint64_t bits = as_bits(x);
  const int e = static_cast<int>((bits >> 52) & 0x7ff) - 1075;  // |x| = m 2^e
  const uint64_t m = (bits & 0x000fffffffffffffu) | (uint64_t{1} << 52);
  // Bits of 2/pi above 2^(2 - e) give multiples of 4: skip them (or start with zeros before its fraction).
  const int first = e - 2;
  auto word_at = [](int i) { return i >= 0 && i < 19 ? kTwoOverPi[i] : uint64_t{0}; };
  uint64_t w[4];
  for (int i = 0; i < 4; ++i) {
    const int at = first + 64 * i, word = at >> 6, off = at & 63;
    w[i] = off ? (word_at(word) << off) | (word_at(word + 1) >> (64 - off)) : word_at(word);
  }
  // The product has its binary point 256 + first - e = 254 bits from its end.
  uint64_t p[5] = {};
  W carry = 0;
  for (int i = 3; i >= 0; --i) {
    carry += static_cast<W>(m) * w[i];
    p[i + 1] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  p[0] = static_cast<uint64_t>(carry);
  uint64_t quadrant = ((p[0] << 2) | (p[1] >> 62)) & 3;
  W frac = (static_cast<W>((p[1] << 2) | (p[2] >> 62)) << 64) | ((p[2] << 2) | (p[3] >> 62));
  bool negative = false;
  if (frac >> 127) {  // to the nearest multiple
    quadrant += 1;
    frac = 0 - frac;
    negative = true;
  }
  // frac / 2^128 as hi + lo, times pi/2.
  double hi = 0, lo = 0;
  if (frac) {
    int shift = 0;
    W f = frac;
    while (!(f >> 127)) f <<= 1, ++shift;
    const double unit = pow2(-64.0 - shift);
    const uint64_t top = static_cast<uint64_t>(f >> 64), low = static_cast<uint64_t>(f);
    const uint64_t a = top & ~uint64_t{0x7ff};
    hi = static_cast<double>(a) * unit;
    lo = (static_cast<double>(top & 0x7ff) + static_cast<double>(low) * 0x1p-64) * unit;
  }
  double r = hi * kPio2;
  double tail = std::fma(hi, kPio2, -r) + (lo * kPio2 + hi * kPio2Lo);
  const double sum = r + tail;
  tail = (r - sum) + tail;
  r = sum;
  if (negative != (bits >> 63 != 0)) r = -r, tail = -tail;
  return {r, tail, bits >> 63 ? 0 - quadrant : quadrant};
}

}  // namespace m64

StripFn strip_math_f64(OpCode op) { return math_strip<double>(op); }
}  // namespace pallasim::interp::PALLASIM_KNS
