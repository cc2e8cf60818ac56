// Random and special register contents, and comparison of registers by bits.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pallasim/interp/kernels.h"

namespace pallasim::interp {

using ir::DType;
using ir::DTypeClass;
using ir::OpCode;

inline std::vector<DType> value_dtypes() {
  std::vector<DType> v;
  for (int i = 0; i < ir::kNumDTypes; ++i)
    if (const auto d = static_cast<DType>(i); ir::is_value(d) && !ir::is_key(d)) v.push_back(d);
  return v;
}

inline std::vector<const KernelTable*> fast_tables() {
  std::vector<const KernelTable*> v;
  for (const char* isa : {"avx512", "avx2", "baseline"})
    if (const KernelTable* t = kernels_for(isa)) v.push_back(t);
  return v;
}

template <class T>
T bits_as(uint64_t b) {
  T v;
  std::memcpy(&v, &b, sizeof v);
  return v;
}

// n elements of d in memory form: random codes, small numbers and the values where arithmetic has edges.
inline std::vector<char> memory_of(DType d, int64_t n, std::mt19937_64& rng) {
  const int size = ir::byte_size(d);
  std::vector<char> m(static_cast<size_t>(n * size));
  std::uniform_real_distribution<double> u(-8, 8);
  auto put = [&](int64_t i, int at, const void* p, size_t bytes) {
    std::memcpy(&m[static_cast<size_t>(i * size + at)], p, bytes);
  };
  static const double kSpecial[] = {0.0,
                                    -0.0,
                                    1,
                                    -1,
                                    0.5,
                                    -0.5,
                                    1.5,
                                    2.5,
                                    -2.5,
                                    INFINITY,
                                    -INFINITY,
                                    NAN,
                                    5e-324,
                                    -5e-324,
                                    2.2250738585072014e-308,
                                    1.7976931348623157e308,
                                    -1.7976931348623157e308,
                                    1e-45,
                                    -1e-45,
                                    1.1754943508222875e-38,
                                    3.4028234663852886e38,
                                    -3.4028234663852886e38,
                                    0.49999997,
                                    88.7,
                                    -87.4,
                                    709.8,
                                    -745,
                                    1e15,
                                    2147483648.0,
                                    -2147483649.0,
                                    9.2233720368547758e18,
                                    16777217};
  for (int64_t i = 0; i < n; ++i) {
    const unsigned mode = rng() % 4;
    if (d == DType::F32 || d == DType::F64 || ir::is_complex(d)) {
      const int part = ir::is_complex(d) ? size / 2 : size;
      for (int at = 0; at < size; at += part) {
        double v = mode == 0 ? kSpecial[rng() % std::size(kSpecial)] : u(rng);
        if (mode == 1) v = std::ldexp(v, static_cast<int>(rng() % 60) - 30);
        float f = static_cast<float>(v);
        uint64_t raw = rng();
        if (mode == 2) put(i, at, &raw, static_cast<size_t>(part));
        else if (part == 4) put(i, at, &f, 4);
        else put(i, at, &v, 8);
      }
      continue;
    }
    uint64_t raw = rng();
    if (ir::is_int(d)) {
      if (mode == 0) raw = static_cast<uint64_t>(static_cast<int64_t>(rng() % 9) - 4);
      if (mode == 1)
        raw = rng() % 2 ? uint64_t{1} << (ir::bit_width(d) - 1) : (uint64_t{1} << (ir::bit_width(d) - 1)) - 1;
    }
    if (d == DType::Bool) raw &= 1;
    if (ir::bit_width(d) < 8) raw &= (1u << ir::bit_width(d)) - 1;
    put(i, 0, &raw, static_cast<size_t>(size));
  }
  return m;
}

inline std::vector<char> register_of(DType d, int64_t n, std::mt19937_64& rng) {
  const std::vector<char> m = memory_of(d, n, rng);
  std::vector<char> r(static_cast<size_t>(n * byte_size(compute_type(d))));
  reference_kernels().load(d)(r.data(), m.data(), n, 1);
  return r;
}

// Equal bits, any NaN being equal to any other: which payload an operation on two NaNs returns is not specified.
template <class T>
bool same_float(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}
inline int64_t first_difference(CType c, const char* a, const char* b, int64_t n) {
  const int size = byte_size(c);
  for (int64_t i = 0; i < n; ++i) {
    const char *x = a + i * size, *y = b + i * size;
    bool same = std::memcmp(x, y, static_cast<size_t>(size)) == 0;
    auto part = [&](auto zero, int at) {
      decltype(zero) p, q;
      std::memcpy(&p, x + at, sizeof p);
      std::memcpy(&q, y + at, sizeof q);
      return same_float(p, q);
    };
    if (!same && c == CType::F32) same = part(0.0f, 0);
    if (!same && c == CType::F64) same = part(0.0, 0);
    if (!same && c == CType::C64) same = part(0.0f, 0) && part(0.0f, 4);
    if (!same && c == CType::C128) same = part(0.0, 0) && part(0.0, 8);
    if (!same) return i;
  }
  return -1;
}
inline bool all_zero(const std::vector<char>& v) {
  for (char c : v)
    if (c) return false;
  return true;
}
inline std::string hex(const char* p, int size) {
  std::string s;
  char t[4];
  for (int i = size - 1; i >= 0; --i) std::snprintf(t, sizeof t, "%02x", static_cast<unsigned char>(p[i])), s += t;
  return s;
}

}  // namespace pallasim::interp
