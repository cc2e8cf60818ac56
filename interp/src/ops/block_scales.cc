// Products whose operands have a scale per row and block along k (tcgen05's kinds mxf8f6f4, mxf4 and mxf4nvf4).
#include "block_scales.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <vector>

#include "bodies.h"
#include "pallasim/interp/aligned_sum.h"
#include "pallasim/interp/kernels.h"

namespace pallasim::interp::ops {
namespace {

// Of one operand: its elements and its scales, dense, as f32.
struct Read {
  std::vector<float> values, scales;
};

Read read(const ScaledOperand& x, int64_t rows, int64_t k) {
  const KernelTable& kernel = kernels();
  const LoadFn load = kernel.load(x.dtype), load_scales = kernel.load(x.scale_dtype);
  const int64_t size = ir::byte_size(x.dtype), scale_size = ir::byte_size(x.scale_dtype), blocks = k / x.block;
  Read r{std::vector<float>(static_cast<size_t>(rows * k)), std::vector<float>(static_cast<size_t>(rows * blocks))};
  alignas(64) float line[kStrip];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t b = 0; b < blocks; ++b) {
      load_scales(line, x.scales + (i * x.scale_row + b * x.scale_column) * scale_size, 1, 1);
      r.scales[static_cast<size_t>(i * blocks + b)] = line[0];
      load(line, x.at + (i * x.row + b * x.block * x.column) * size, x.block, x.column);
      std::copy_n(line, x.block, r.values.begin() + i * k + b * x.block);
    }
  return r;
}

// An element of 8 bits or fewer times a scale is exact in f32.
std::vector<float> scaled(Read r, int64_t block) {
  for (size_t i = 0; i < r.values.size(); ++i) r.values[i] *= r.scales[i / static_cast<size_t>(block)];
  return std::move(r.values);
}

constexpr int64_t kExact = 16;  // products of f4 that are summed exactly, whatever their scales

// The scale of element p of row i, and its exponent.
struct Scale {
  double significand;
  int exponent;
};
Scale scale_at(const Read& r, const ScaledOperand& x, int64_t i, int64_t p, int64_t k) {
  const auto s = static_cast<double>(r.scales[static_cast<size_t>(i * (k / x.block) + p / x.block)]);
  if (s == 0 || !std::isfinite(s)) return {s, 0};
  const int e = std::ilogb(s);
  return {std::ldexp(s, -e), e};
}

float truncated(double x, int fraction) {
  if (x == 0 || !std::isfinite(x)) return static_cast<float>(x);
  const double unit = std::ldexp(1.0, std::ilogb(x) - fraction);
  return static_cast<float>(std::trunc(x / unit) * unit);
}

constexpr AlignedRule kRule{64, 35, 23};

// One instruction of f4 for one element: sums of 16 products are exact, are multiplied by their scales, aligned to the
// largest of the scales' exponents and the accumulator's, and truncated there. Published: docs/numerics.md.
float instruction(float acc, const float* a, const float* b, const Scale* left, const Scale* right, int64_t products) {
  constexpr int kMost = 4;
  double sums[kMost];
  int exponents[kMost], top = acc == 0 ? INT_MIN : std::ilogb(acc);
  const auto groups = static_cast<int>((products + kExact - 1) / kExact);
  bool finite = std::isfinite(acc);
  for (int g = 0; g < groups; ++g) {
    float sum = 0;  // of multiples of 1/4, below 1024
    for (int64_t p = g * kExact; p < std::min(products, (g + 1) * kExact); ++p) sum += a[p] * b[p];
    sums[g] = static_cast<double>(sum) * left[g].significand * right[g].significand;
    exponents[g] = left[g].exponent + right[g].exponent;
    finite &= std::isfinite(sums[g]);
    if (sums[g] != 0) top = std::max(top, exponents[g]);
  }
  double total = 0;
  if (!finite || top == INT_MIN) {
    for (int g = 0; g < groups; ++g) total += std::ldexp(sums[g], exponents[g]);
    return static_cast<float>(total + static_cast<double>(acc));
  }
  total = std::trunc(std::ldexp(static_cast<double>(acc), kRule.below - top));
  for (int g = 0; g < groups; ++g) total += std::trunc(std::ldexp(sums[g], kRule.below + exponents[g] - top));
  return truncated(std::ldexp(total, top - kRule.below), kRule.fraction);
}

void multiply_blocks(const ContractPayload& p, std::byte* out, const ScaledProduct& x) {
  const Contraction& c = p.contraction;
  const Read a = read(x.left, c.m, c.k), b = read(x.right, c.n, c.k);
  const int64_t groups = (c.k + kExact - 1) / kExact, per = kRule.block / kExact;
  const auto scales = [&](const Read& r, const ScaledOperand& operand, int64_t rows) {
    std::vector<Scale> s(static_cast<size_t>(rows * groups));
    for (int64_t i = 0; i < rows * groups; ++i)
      s[static_cast<size_t>(i)] = scale_at(r, operand, i / groups, i % groups * kExact, c.k);
    return s;
  };
  const std::vector<Scale> left = scales(a, x.left, c.m), right = scales(b, x.right, c.n);
  const int size = ir::byte_size(c.out);
  std::vector<float> row(static_cast<size_t>(c.n));
  for (int64_t i = 0; i < c.m; ++i) {
    std::byte* const to = out + i * c.c_row * size;
    std::fill(row.begin(), row.end(), 0.0f);
    if (c.accumulate) kernels().load(c.out)(row.data(), to, c.n, 1);
    for (int64_t j = 0; j < c.n; ++j)
      for (int64_t g = 0; g < groups; g += per) {
        const int64_t at = g * kExact;
        row[static_cast<size_t>(j)] = instruction(
            row[static_cast<size_t>(j)], a.values.data() + i * c.k + at, b.values.data() + j * c.k + at,
            left.data() + i * groups + g, right.data() + j * groups + g, std::min<int64_t>(kRule.block, c.k - at));
      }
    kernels().store(c.out)(to, row.data(), c.n, 1);
  }
}

}  // namespace

void multiply_scaled(Execution& ex, const ContractPayload& p, std::byte* sum, const ScaledProduct& x) {
  if (p.unit.aligned() && ir::bit_width(x.left.dtype) < 8) return multiply_blocks(p, sum, x);
  ContractPayload c = p;
  Contraction& of = c.contraction;
  of.in = of.in_rhs = ir::DType::F32;
  of.a_row = of.b_col = of.k, of.a_col = of.b_row = 1;
  c.unit.format = MatrixUnit::Format::Operand;
  c.unit.plain = !c.unit.aligned();
  std::vector<float> a = scaled(read(x.left, of.m, of.k), x.left.block),
                     b = scaled(read(x.right, of.n, of.k), x.right.block);
  multiply(ex, c, sum, reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()));
}

}  // namespace pallasim::interp::ops
