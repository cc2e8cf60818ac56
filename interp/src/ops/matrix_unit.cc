// Products of matrices as the chips' units form them: operands split into narrow parts, tensor cores' accumulators.
#include <algorithm>
#include <bit>
#include <cmath>

#include "../plan/payload/arithmetic.h"
#include "bodies.h"
#include "pallasim/interp/aligned_sum.h"

namespace pallasim::interp::ops {
namespace {

using Format = MatrixUnit::Format;

float rounded(float x, Format f) {
  if (!std::isfinite(x)) return x;
  switch (f) {
    case Format::Bf16: {  // to nearest even
      const uint32_t u = std::bit_cast<uint32_t>(x);
      return std::bit_cast<float>((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
    }
    case Format::Tf32:  // ties away from zero
      return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000) & 0xffffe000u);
    case Format::Tf32Cut: return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffffe000u);
    case Format::F16: {
      uint16_t h;
      float r;
      kernels().store(ir::DType::F16)(&h, &x, 1, 1);
      kernels().load(ir::DType::F16)(&r, &h, 1, 1);
      return r;
    }
    default: return x;
  }
}

// One operand as dense f32 matrices [batch][rows][columns], one per part; the parts sum to the operand as far as they
// reach.
std::vector<std::vector<float>> parts_of(const std::byte* at, ir::DType t, int64_t batch, int64_t rows, int64_t columns,
                                         const int64_t (&stride)[3], const MatrixUnit& u) {
  std::vector<float> whole(static_cast<size_t>(batch * rows * columns));
  const LoadFn load = kernels().load(t);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t r = 0; r < rows; ++r)
      load(whole.data() + (b * rows + r) * columns, at + (b * stride[0] + r * stride[1]) * ir::byte_size(t), columns,
           stride[2]);
  std::vector<std::vector<float>> parts;
  for (int p = 0; p < u.parts; ++p) {
    parts.emplace_back(whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      parts.back()[i] = rounded(whole[i], u.format);
      if (std::isfinite(whole[i])) whole[i] -= parts.back()[i];
    }
  }
  return parts;
}

// See hw::TensorSum. Of Hopper every output of some 16,000 tried per format was measured, of Blackwell it is published
// (docs/numerics.md). A block scale is part of its element: `c` has f32 there, and the instruction that of f8.
AlignedRule rule_of(const Contraction& c, const MatrixUnit& u) {
  if (u.format == Format::Tf32 || u.format == Format::Tf32Cut) return {8, 25, 23};
  if (u.format != Format::Operand || (ir::byte_size(c.in) > 1 && c.in != ir::DType::F32)) return {16, 25, 23};
  return u.sum == hw::TensorSum::Aligned ? AlignedRule{32, 13, 13} : AlignedRule{32, 25, 23};
}

void aligned_pass(const Contraction& c, const AlignedRule& rule, const float* a, const float* b, float* sum) {
  std::vector<float> scratch(static_cast<size_t>(aligned_scratch(c.m, rule)));
  for (int64_t g = 0; g < c.batch; ++g)
    aligned_sum(rule, c.m, c.n, c.k, a + g * c.m * c.k, b + g * c.k * c.n, sum + g * c.m * c.n, scratch.data());
}

// The pairs of parts whose products are summed, the smallest first.
std::vector<std::pair<int, int>> pairs(const MatrixUnit& u) {
  std::vector<std::pair<int, int>> all;
  for (int i = 0; i < u.parts; ++i)
    for (int j = 0; j < u.parts; ++j) all.emplace_back(i, j);
  std::stable_sort(all.begin(), all.end(), [](auto x, auto y) { return x.first + x.second < y.first + y.second; });
  all.resize(static_cast<size_t>(u.passes));
  std::reverse(all.begin(), all.end());
  return all;
}

}  // namespace

void matrix_unit(const ContractPayload& p, std::byte* out, const std::byte* a, const std::byte* b) {
  const Contraction& c = p.contraction;
  const auto left = parts_of(a, c.in, c.batch, c.m, c.k, {c.a_batch, c.a_row, c.a_col}, p.unit);
  const auto right = parts_of(b, c.in_rhs, c.batch, c.k, c.n, {c.b_batch, c.b_row, c.b_col}, p.unit);
  std::vector<float> sum(static_cast<size_t>(c.batch * c.m * c.n));
  const int size = ir::byte_size(c.out);
  const auto row = [&](int64_t g, int64_t i) { return out + (g * c.c_batch + i * c.c_row) * size; };
  if (c.accumulate)
    for (int64_t g = 0; g < c.batch; ++g)
      for (int64_t i = 0; i < c.m; ++i) kernels().load(c.out)(sum.data() + (g * c.m + i) * c.n, row(g, i), c.n, 1);
  Contraction pass;
  pass.batch = c.batch, pass.m = c.m, pass.n = c.n, pass.k = c.k;
  pass.a_batch = c.m * c.k, pass.a_row = c.k, pass.a_col = 1;
  pass.b_batch = c.k * c.n, pass.b_row = c.n, pass.b_col = 1;
  pass.c_batch = c.m * c.n, pass.c_row = c.n;
  pass.accumulate = true;
  for (const auto& [i, j] : pairs(p.unit)) {
    const float *x = left[static_cast<size_t>(i)].data(), *y = right[static_cast<size_t>(j)].data();
    if (p.unit.aligned()) aligned_pass(c, rule_of(c, p.unit), x, y, sum.data());
    else contract(pass, sum.data(), x, y);
  }
  const StoreFn store = kernels().store(c.out);
  for (int64_t g = 0; g < c.batch; ++g)
    for (int64_t i = 0; i < c.m; ++i) store(row(g, i), sum.data() + (g * c.m + i) * c.n, c.n, 1);
}

}  // namespace pallasim::interp::ops
