#include "writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace pallasim::judge {
namespace {

// Exact for the small multiples of 2^-q that the generator uses; others are cut off.
uint64_t float_bits(double v, int exponent_bits, int fraction_bits, int bias) {
  const uint64_t sign = std::signbit(v) ? 1 : 0;
  uint64_t r = 0;
  if (v != 0) {
    int e = 0;
    const double f = std::frexp(std::fabs(v), &e);  // f in [0.5, 1)
    int biased = e - 1 + bias;
    if (biased > 0) {
      const auto fraction = static_cast<uint64_t>(std::ldexp(f * 2 - 1, fraction_bits));
      r = (static_cast<uint64_t>(biased) << fraction_bits) | fraction;
    } else {
      r = static_cast<uint64_t>(std::ldexp(std::fabs(v), bias - 1 + fraction_bits));
    }
  }
  return r | (sign << (exponent_bits + fraction_bits));
}

uint64_t bits(DType t, double v) {
  switch (t) {
    case DType::Bool: return v != 0;
    case DType::F32: return float_bits(v, 8, 23, 127);
    case DType::F64: return float_bits(v, 11, 52, 1023);
    case DType::BF16: return float_bits(v, 8, 7, 127);
    case DType::F16: return float_bits(v, 5, 10, 15);
    case DType::F8E4M3FN: return float_bits(v, 4, 3, 7);
    case DType::F8E5M2: return float_bits(v, 5, 2, 15);
    default: {
      const int w = ir::bit_width(t);
      const auto u = static_cast<uint64_t>(static_cast<int64_t>(v));
      return w == 64 ? u : u & ((1ull << w) - 1);
    }
  }
}

}  // namespace

std::vector<int64_t> Rng::permutation(int64_t n) {
  std::vector<int64_t> p(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) p[static_cast<size_t>(i)] = i;
  for (int64_t i = n - 1; i > 0; --i) std::swap(p[static_cast<size_t>(i)], p[static_cast<size_t>(below(i + 1))]);
  return p;
}

int64_t Type::size() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::string str(const Dims& d) { return fmt::format("{}", fmt::join(d, ", ")); }
std::string str(const Type& t) { return fmt::format("{}[{}]", ir::name(t.dtype), fmt::join(t.dims, ",")); }
std::string ref_type(const Type& t, const std::string& space) { return "ref<" + str(t) + ", " + space + ">"; }
std::string name(int id) { return "%" + std::to_string(id); }
std::string names(const std::vector<int>& ids) {
  std::string r;
  for (int id : ids) r += (r.empty() ? "" : ", ") + name(id);
  return r;
}

std::string literal(DType t, double v) { return fmt::format("{} 0x{:x}", ir::name(t), bits(t, v)); }

std::vector<std::byte> encode(DType t, const std::vector<double>& values) {
  const auto w = static_cast<size_t>(ir::byte_size(t));
  std::vector<std::byte> r(values.size() * w);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t b = bits(t, values[i]);
    std::memcpy(r.data() + i * w, &b, w);
  }
  return r;
}

std::string dense(const Type& t, const std::vector<double>& values) {
  std::string r = str(t) + " 0x";
  for (std::byte b : encode(t.dtype, values)) r += fmt::format("{:02x}", static_cast<int>(b));
  return r;
}

int Writer::op(const std::string& rest, const std::string& type) {
  const int id = fresh();
  line(name(id) + " = " + rest + " : " + type);
  return id;
}

}  // namespace pallasim::judge
