#include "pallasim/capsule/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "pallasim/ir/literal.h"
#include "pallasim/ir/mix.h"

namespace pallasim::capsule {
namespace {

using ir::DType;

// Numbers of a float type of at most 16 bits, by their codes without the sign; the last ones that are finite.
class Codes {
 public:
  static const Codes& of(DType t) {
    static std::array<std::pair<std::once_flag, std::unique_ptr<const Codes>>, ir::kNumDTypes> all;
    auto& entry = all[static_cast<uint8_t>(t)];
    std::call_once(entry.first, [&] { entry.second = std::make_unique<const Codes>(t); });
    return *entry.second;
  }
  explicit Codes(DType t)
      : signless_(t == DType::F8E8M0FNU), sign_bit_(signless_ ? 256 : 1u << (ir::bit_width(t) - 1)) {
    const auto decode = [t](uint32_t code) { return ir::bits_to_double(t, code); };
    negative_zero_ = signless_ || !std::isnan(decode(sign_bit_));  // else that code is the NaN
    nan_ = !negative_zero_ ? sign_bit_ : std::isnan(decode(sign_bit_ - 1)) ? sign_bit_ - 1 : 0;
    for (uint32_t code = 0; code < sign_bit_; ++code) values_.push_back(decode(code));
    while (!std::isfinite(values_.back())) values_.pop_back();
    // Numbers from 0 on, one apart, then two apart, four, and so on: exponents and a fraction.
    size_t n = 1;
    while (n + 1 < values_.size() && values_[n + 1] - values_[n] == values_[1] - values_[0]) ++n;
    if (values_[0] == 0 && std::has_single_bit(n) && n > 1) {
      fraction_bits_ = std::bit_width(n) - 2;
      least_exponent_ = std::ilogb(values_[n / 2]);
    }
  }
  // The nearest one, to even where two are as near.
  uint32_t nearest(double value) const {
    if (std::isnan(value)) return nan_;
    const double target = std::fabs(value);
    const uint32_t code = fraction_bits_ >= 0 ? by_exponent(target) : by_value(target);
    const bool negative = std::signbit(value) && !signless_ && (code != 0 || negative_zero_);
    return code | (negative ? sign_bit_ : 0);
  }

 private:
  uint32_t by_exponent(double target) const {
    const int of_target = static_cast<int>(std::bit_cast<uint64_t>(target) >> 52) - 1023;
    const int exponent = std::max(of_target, least_exponent_);
    const auto scale = std::bit_cast<double>(static_cast<uint64_t>(1023 + fraction_bits_ - exponent) << 52);
    // Sums from 2^52 on are whole numbers, the nearest ones.
    const uint64_t steps = std::bit_cast<uint64_t>(target * scale + 0x1p52) & ((uint64_t{1} << 52) - 1);
    const uint64_t code = (static_cast<uint64_t>(exponent - least_exponent_) << fraction_bits_) + steps;
    return of_target > 1000 ? last() : static_cast<uint32_t>(std::min<uint64_t>(code, last()));
  }
  uint32_t by_value(double target) const {
    // Codes are ordered as their values.
    const auto above = std::upper_bound(values_.begin(), values_.end(), target);
    const auto code = static_cast<uint32_t>(std::max<std::ptrdiff_t>(above - values_.begin(), 1) - 1);
    if (above == values_.end() || above == values_.begin()) return code;
    const double down = target - values_[code], up = *above - target;
    return up < down || (up == down && code % 2) ? code + 1 : code;
  }
  uint32_t last() const { return static_cast<uint32_t>(values_.size() - 1); }

  bool signless_, negative_zero_;
  uint32_t sign_bit_, nan_;
  std::vector<double> values_;
  int fraction_bits_ = -1, least_exponent_ = 0;  // -1: no such numbers
};

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void save(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

int64_t signed_value(const std::byte* p, DType t) {
  switch (ir::byte_size(t)) {
    case 1: {
      const int shift = 8 - ir::bit_width(t);
      return static_cast<int8_t>(static_cast<uint8_t>(p[0]) << shift) >> shift;
    }
    case 2: return load<int16_t>(p);
    case 4: return load<int32_t>(p);
    default: return load<int64_t>(p);
  }
}

uint64_t unsigned_value(const std::byte* p, DType t) {
  switch (ir::byte_size(t)) {
    case 1: return static_cast<uint8_t>(p[0]) & ((1u << ir::bit_width(t)) - 1);
    case 2: return load<uint16_t>(p);
    case 4: return load<uint32_t>(p);
    default: return load<uint64_t>(p);
  }
}

// Every element has bits of its own, whatever the order of filling.
uint64_t mix(uint64_t x) { return ir::mix(x + ir::kGolden); }

}  // namespace

double to_double(const std::byte* p, DType t) {
  switch (ir::info(t).cls) {
    case ir::DTypeClass::Bool: return p[0] != std::byte{0};
    case ir::DTypeClass::Int: return static_cast<double>(signed_value(p, t));
    case ir::DTypeClass::UInt: return static_cast<double>(unsigned_value(p, t));
    case ir::DTypeClass::Float:
      if (t == DType::F32) return load<float>(p);
      if (t == DType::F64) return load<double>(p);
      return ir::bits_to_double(t, ir::byte_size(t) == 2 ? load<uint16_t>(p) : static_cast<uint8_t>(p[0]));
    case ir::DTypeClass::Complex: return t == DType::C64 ? load<float>(p) : load<double>(p);
    default: return 0;
  }
}

void from_double(double v, DType t, std::byte* p) {
  const int bits = ir::bit_width(t), bytes = ir::byte_size(t);
  switch (ir::info(t).cls) {
    case ir::DTypeClass::Bool: save<uint8_t>(p, v != 0); break;
    case ir::DTypeClass::Int: {
      const double edge = std::ldexp(1.0, bits - 1);
      const int64_t top = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
      const int64_t n = std::isnan(v) ? 0 : v >= edge ? top : v <= -edge ? -top - 1 : static_cast<int64_t>(v);
      std::memcpy(p, &n, static_cast<size_t>(bytes));
      break;
    }
    case ir::DTypeClass::UInt: {
      const uint64_t top = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
      const uint64_t n = !(v > 0) ? 0 : v >= std::ldexp(1.0, bits) ? top : static_cast<uint64_t>(v);
      std::memcpy(p, &n, static_cast<size_t>(bytes));
      break;
    }
    case ir::DTypeClass::Float:
      if (t == DType::F32) save(p, static_cast<float>(v));
      else if (t == DType::F64) save(p, v);
      else if (bytes == 2) save(p, static_cast<uint16_t>(Codes::of(t).nearest(v)));
      else save(p, static_cast<uint8_t>(Codes::of(t).nearest(v)));
      break;
    case ir::DTypeClass::Complex:
      if (t == DType::C64) save(p, static_cast<float>(v)), save(p + 4, 0.0f);
      else save(p, v), save(p + 8, 0.0);
      break;
    default: break;
  }
}

std::string element_text(const std::byte* p, DType t) {
  switch (ir::info(t).cls) {
    case ir::DTypeClass::Bool: return p[0] != std::byte{0} ? "true" : "false";
    case ir::DTypeClass::Int: return fmt::format("{}", signed_value(p, t));
    case ir::DTypeClass::UInt: return fmt::format("{}", unsigned_value(p, t));
    case ir::DTypeClass::Float: return fmt::format("{:.6g}", to_double(p, t));
    case ir::DTypeClass::Complex: {
      const double imag = t == DType::C64 ? load<float>(p + 4) : load<double>(p + 8);
      return fmt::format("({:.6g}{:+.6g}j)", to_double(p, t), imag);
    }
    case ir::DTypeClass::Key: {
      std::string s = "0x";
      for (int i = 0; i < ir::byte_size(t); i += 4) s += fmt::format("{:08x}", load<uint32_t>(p + i));
      return s;
    }
    default: return "?";
  }
}

void fill(Array* a, Fill how, uint64_t seed, uint64_t stream) {
  const int bytes = ir::byte_size(a->dtype);
  const int64_t n = a->elements();
  const auto cls = ir::info(a->dtype).cls;
  if (how == Fill::Zeros) {
    std::fill(a->data.begin(), a->data.end(), std::byte{0});
    if (a->dtype == DType::F8E8M0FNU) fill_value(a, 0);
    return;
  }
  const uint64_t base = mix(mix(seed) ^ stream);
  // Narrow integers keep their sign bit clear: what they hold is most often an index or a count.
  const uint64_t below = ir::bit_width(a->dtype) <= 3 ? 2 : 8;
  for (int64_t i = 0; i < n; ++i) {
    std::byte* p = a->data.data() + i * bytes;
    if (how == Fill::Iota) {
      from_double(static_cast<double>(i), a->dtype, p);
      continue;
    }
    const uint64_t r = mix(base + static_cast<uint64_t>(i));
    if (cls == ir::DTypeClass::Key) {
      for (int at = 0; at < bytes; at += 8) save(p + at, at ? mix(r) : r);
    } else if (cls == ir::DTypeClass::Float || cls == ir::DTypeClass::Complex) {
      // 24 bits: exact in f32.
      auto uniform = [](uint64_t bits) { return static_cast<double>(bits >> 40) * 0x1p-23 - 1.0; };
      from_double(uniform(r), a->dtype, p);
      if (a->dtype == DType::C64) save(p + 4, static_cast<float>(uniform(mix(r))));
      if (a->dtype == DType::C128) save(p + 8, uniform(mix(r)));
    } else {
      from_double(static_cast<double>(cls == ir::DTypeClass::Bool ? r >> 63 : (r >> 32) % below), a->dtype, p);
    }
  }
}

void fill_value(Array* a, double value) {
  const int bytes = ir::byte_size(a->dtype);
  for (size_t at = 0; at < a->data.size(); at += static_cast<size_t>(bytes)) from_double(value, a->dtype, &a->data[at]);
}

Summary summarize(const Array& a) {
  Summary s;
  s.hash = 0xcbf29ce484222325u;
  for (std::byte b : a.data) s.hash = (s.hash ^ static_cast<uint8_t>(b)) * 0x100000001b3u;
  if (ir::is_key(a.dtype)) return s;
  const int bytes = ir::byte_size(a.dtype);
  double sum = 0;
  for (size_t at = 0; at < a.data.size(); at += static_cast<size_t>(bytes)) {
    const double v = to_double(&a.data[at], a.dtype);
    if (std::isnan(v)) {
      ++s.nan;
    } else if (std::isinf(v)) {
      ++s.infinite;
    } else {
      s.min = s.finite ? std::min(s.min, v) : v;
      s.max = s.finite ? std::max(s.max, v) : v;
      sum += v;
      ++s.finite;
    }
  }
  if (s.finite) s.mean = sum / static_cast<double>(s.finite);
  return s;
}

std::string first_elements(const Array& a, int count) {
  std::string s = "[";
  const int bytes = ir::byte_size(a.dtype);
  const int64_t n = a.elements();
  for (int64_t i = 0; i < std::min<int64_t>(n, count); ++i) {
    if (i) s += ", ";
    s += element_text(a.data.data() + i * bytes, a.dtype);
  }
  return s + (n > count ? ", ...]" : "]");
}

}  // namespace pallasim::capsule
