// Bits that depend on all bits of a number.
#pragma once
#include <cstdint>

namespace pallasim::ir {

// What splitmix64 multiplies its counter by (Steele et al. 2014), and how it makes a number of the product.
inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace pallasim::ir
