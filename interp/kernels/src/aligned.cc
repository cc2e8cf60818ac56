// Sums of products by the rule of tensor cores. Vectors run over columns; what they cannot hold exactly goes through
// the plain body: numbers that are not finite, operands of more than 12 bits, products outside f32's exponents.
#include "body.h"
#include "module.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

constexpr int kMostProducts = 32;
constexpr int kNothing = -1000;  // the exponent of a zero

float truncated(double x, int fraction) {
  if (x == 0 || !std::isfinite(x)) return static_cast<float>(x);
  const double unit = std::ldexp(1.0, std::ilogb(x) - fraction);
  return static_cast<float>(std::trunc(x / unit) * unit);
}

// One instruction: n products and the accumulator, cut off at one exponent, summed, cut off again.
float instruction(float acc, const float* a, const float* b, int64_t b_step, int64_t n, const AlignedRule& rule) {
  int top = acc == 0 ? kNothing : std::ilogb(acc);
  bool finite = std::isfinite(acc);
  for (int64_t i = 0; i < n; ++i) {
    const float x = a[i], y = b[i * b_step];
    finite &= std::isfinite(x) && std::isfinite(y);
    if (x != 0 && y != 0 && finite) {
      const int sum = std::ilogb(x) + std::ilogb(y);
      top = sum > top ? sum : top;
    }
  }
  if (!finite) {
    for (int64_t i = 0; i < n; ++i) acc += a[i] * b[i * b_step];
    return acc;
  }
  if (top == kNothing) return acc;
  const int shift = rule.below - top;
  double sum = std::trunc(std::ldexp(static_cast<double>(acc), shift));
  for (int64_t i = 0; i < n; ++i) sum += std::trunc(std::ldexp(static_cast<double>(a[i]) * b[i * b_step], shift));
  return truncated(std::ldexp(sum, -shift), rule.fraction);
}

[[maybe_unused]] void plain(const AlignedRule& rule, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                            float* sum, float*) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; p += rule.block) {
        const int64_t products = k - p < rule.block ? k - p : rule.block;
        sum[i * n + j] = instruction(sum[i * n + j], a + i * k + p, b + p * n + j, n, products, rule);
      }
}

// ---- vectors ----

constexpr uint32_t kExponent = 0x7f800000u;
constexpr int kTooWide = 1000;  // an exponent that no vector takes
// Products of operands whose exponents add up to these are exact in f32, of at most 24 bits, and so are they scaled.
constexpr int kLeastSum = -100, kMostSum = 126;
constexpr float kSurelyAbove = 0x1p-70f;  // what is inexact in f32 is cut off whole below such a largest product

// The exponents of what is not zero.
struct Range {
  int least = kTooWide, most = kNothing;
  void take(int exponent) {
    least = exponent < least ? exponent : least;
    most = exponent > most ? exponent : most;
  }
};

// 2 to the exponent of x, 0 of 0.
inline float power_of(float x, Range& range) {
  const uint32_t bits = as_bits(x) & 0x7fffffffu;
  if (bits == 0) return 0;
  if (bits >= kExponent || (bits & 0xfff) != 0) {
    range.most = kTooWide;
    return 0;
  }
  if (bits >> 23) {
    range.take(static_cast<int>(bits >> 23) - 127);
    return as_f32(bits & kExponent);
  }
  const int first = std::bit_width(bits) - 1;
  range.take(first - 149);
  return as_f32(1u << first);
}

typedef float V __attribute__((vector_size(kVectorBytes)));
typedef int32_t VI __attribute__((vector_size(kVectorBytes)));
typedef uint32_t VU __attribute__((vector_size(kVectorBytes)));
constexpr int kLanes = kVectorBytes / 4;

// The operands of one instruction for kLanes columns, those behind the last one zero.
struct Columns {
  V value[kMostProducts], power[kMostProducts];
  Range range;
};

void pack(Columns& c, const float* b, int64_t n, int products, int lanes) {
  c.range = {};
  for (int p = 0; p < products; ++p) {
    float value[kLanes] = {}, power[kLanes] = {};
    for (int l = 0; l < lanes; ++l) {
      value[l] = b[p * n + l];
      power[l] = power_of(value[l], c.range);
    }
    std::memcpy(&c.value[p], value, sizeof value);
    std::memcpy(&c.power[p], power, sizeof power);
  }
}

template <class T>
inline bool any(T mask) {
  int32_t all = 0;
  for (int l = 0; l < kLanes; ++l) all |= mask[l];
  return all != 0;
}

// One row of one instruction; false where the plain body must do it.
inline bool row_of(const AlignedRule& rule, const float* value, const float* power, const Columns& c, int products,
                   bool exact, V& acc) {
  V top = V{};
  for (int p = 0; p < products; ++p) {
    const V at = power[p] * c.power[p];
    top = at > top ? at : top;
  }
  const V nothing = V{};
  VI same = top == nothing;  // nothing is added: f32 keeps the accumulator, fewer fraction bits cut it off
  const VU own = reinterpret_cast<VU>(acc) & kExponent;
  const V own_power = reinterpret_cast<V>(own);
  top = own_power > top ? own_power : top;
  if (any(own == kExponent)) return false;
  if (!exact && any(top < kSurelyAbove)) return false;
  const V least = V{} + 0x1p-100f;
  if (rule.fraction != 23) {
    same = acc == nothing && top == nothing;
    if (any(top < least && acc != nothing)) return false;
  }
  top = top > least ? top : least;
  const V scale = reinterpret_cast<V>((static_cast<uint32_t>(254 + rule.below) << 23) - reinterpret_cast<VU>(top));
  // Of 16 products each below 2^27, one half fits an i32 together with the accumulator.
  constexpr int kHeld = 16;
  VI half[2] = {__builtin_convertvector(acc * scale, VI), VI{}};
  double whole[kLanes] = {};
  for (int p = 0;;) {
    const int end = products - p < kHeld ? products : p + kHeld;
    for (; p + 2 <= end; p += 2) {
      half[0] += __builtin_convertvector(value[p] * c.value[p] * scale, VI);
      half[1] += __builtin_convertvector(value[p + 1] * c.value[p + 1] * scale, VI);
    }
    if (p < end) half[1] += __builtin_convertvector(value[p] * c.value[p] * scale, VI), ++p;
    for (int l = 0; l < kLanes; ++l) whole[l] += static_cast<double>(half[0][l]) + static_cast<double>(half[1][l]);
    if (p == products) break;
    half[0] = half[1] = VI{};
  }
  const uint64_t keep = ~uint64_t{0} << (52 - rule.fraction);
  const double below = std::ldexp(1.0, -rule.below);
  float next[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const double cut = as_f64(as_bits(whole[l]) & keep);
    next[l] = static_cast<float>(cut * (static_cast<double>(top[l]) * below));
  }
  V sum;
  std::memcpy(&sum, next, sizeof sum);
  acc = same ? acc : sum;
  return true;
}

// What instruction number p / rule.block adds to kLanes columns (fewer at the end) of every row.
void strip(const AlignedRule& rule, int64_t m, int64_t n, int64_t k, const float* a, const float* power,
           const Range* range, const Columns& c, int products, int lanes, const float* b, float* sum) {
  for (int64_t i = 0; i < m; ++i) {
    const float* value = a + i * k;
    float* out = sum + i * n;
    const int most = range[i].most + c.range.most;
    const bool exact = range[i].least + c.range.least >= kLeastSum;
    V acc = V{};
    std::memcpy(&acc, out, static_cast<size_t>(lanes) * 4);
    if (most <= kMostSum && (exact || rule.fraction == 23) &&
        row_of(rule, value, power + i * rule.block, c, products, exact, acc))
      std::memcpy(out, &acc, static_cast<size_t>(lanes) * 4);
    else
      for (int l = 0; l < lanes; ++l) out[l] = instruction(out[l], value, b + l, n, products, rule);
  }
}

[[maybe_unused]] void by_vectors(const AlignedRule& rule, int64_t m, int64_t n, int64_t k, const float* a,
                                 const float* b, float* sum, float* scratch) {
  static_assert(sizeof(Range) == 2 * sizeof(float));
  Range* const range = reinterpret_cast<Range*>(scratch + m * rule.block);
  Columns columns;
  for (int64_t p = 0; p < k; p += rule.block) {
    const int products = static_cast<int>(k - p < rule.block ? k - p : rule.block);
    for (int64_t i = 0; i < m; ++i) {
      range[i] = {};
      for (int q = 0; q < products; ++q) scratch[i * rule.block + q] = power_of(a[i * k + p + q], range[i]);
    }
    for (int64_t j = 0; j < n; j += kLanes) {
      const int lanes = static_cast<int>(n - j < kLanes ? n - j : kLanes);
      const float* from = b + p * n + j;
      pack(columns, from, n, products, lanes);
      strip(rule, m, n, k, a + p, scratch, range, columns, products, lanes, from, sum + j);
    }
  }
}

}  // namespace

void aligned_sum(const AlignedRule& rule, int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* sum,
                 float* scratch) {
#ifdef PALLASIM_PLAIN
  plain(rule, m, n, k, a, b, sum, scratch);
#else
  by_vectors(rule, m, n, k, a, b, sum, scratch);
#endif
}

}  // namespace pallasim::interp::PALLASIM_KNS
