// Arithmetic on indices that may come from anywhere: results stick at the ends of i64 instead of wrapping.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

namespace pallasim::memory {

inline int64_t saturate(__int128 v) {
  constexpr int64_t lo = std::numeric_limits<int64_t>::min(), hi = std::numeric_limits<int64_t>::max();
  return v < lo ? lo : v > hi ? hi : static_cast<int64_t>(v);
}
inline int64_t mul(int64_t a, int64_t b) { return saturate(static_cast<__int128>(a) * b); }
inline int64_t add(int64_t a, int64_t b) { return saturate(static_cast<__int128>(a) + b); }
inline int64_t sub(int64_t a, int64_t b) { return saturate(static_cast<__int128>(a) - b); }
inline int64_t product(std::span<const int64_t> of) {
  int64_t n = 1;
  for (const int64_t x : of) n = mul(n, x);
  return n;
}

}  // namespace pallasim::memory
