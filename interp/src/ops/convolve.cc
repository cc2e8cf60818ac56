// Convolution: windows over the spatial dimensions of an array that may be dilated and padded.
#include <algorithm>
#include <type_traits>

#include "../plan/payload/array.h"
#include "array.h"
#include "pallasim/memory/odometer.h"

namespace pallasim::interp::ops {
namespace {

// Elements in memory form as Acc: float, double, or int64_t.
template <typename Acc>
std::vector<Acc> widened(const std::byte* at, int64_t n, ir::DType t) {
  constexpr ir::DType kWide = std::is_same_v<Acc, float>    ? ir::DType::F32
                              : std::is_same_v<Acc, double> ? ir::DType::F64
                                                            : ir::DType::I64;
  std::vector<Acc> r(static_cast<size_t>(n));
  alignas(64) std::byte reg[kStrip * 8];
  const LoadFn load = kernels().load(t);
  const ConvertFn convert = kernels().convert(t, kWide);
  for (int64_t i = 0; i < n; i += kStrip) {
    const int64_t m = std::min<int64_t>(kStrip, n - i);
    load(reg, at + i * ir::byte_size(t), m, 1);
    convert(&r[static_cast<size_t>(i)], reg, m, {});
  }
  return r;
}

template <typename Acc>
void narrowed(std::byte* out, const std::vector<Acc>& v, ir::DType t, const Semantics& semantics) {
  constexpr ir::DType kWide = std::is_same_v<Acc, float>    ? ir::DType::F32
                              : std::is_same_v<Acc, double> ? ir::DType::F64
                                                            : ir::DType::I64;
  alignas(64) std::byte reg[kStrip * 8];
  const auto n = static_cast<int64_t>(v.size());
  for (int64_t i = 0; i < n; i += kStrip) {
    const int64_t m = std::min<int64_t>(kStrip, n - i);
    kernels().convert(kWide, t)(reg, &v[static_cast<size_t>(i)], m, semantics);
    kernels().store(t)(out + i * ir::byte_size(t), reg, m, 1);
  }
}

template <typename Acc>
Acc add_product(Acc sum, Acc a, Acc b) {
  if constexpr (std::is_same_v<Acc, int64_t>)
    return static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return sum + a * b;
}

template <typename Acc>
void convolve(const ConvShape& s, const ArrayCall& c) {
  const std::vector<Acc> x = widened<Acc>(c.in[0], count(s.lhs), s.in), k = widened<Acc>(c.in[1], count(s.rhs), s.in);
  std::vector<Acc> out(static_cast<size_t>(count(s.out)));
  const Dims xs = memory::dense_strides(s.lhs), ks = memory::dense_strides(s.rhs);
  const size_t spatial = s.lhs_spec.size() - 2;
  const auto at = [](const Dims& v, int d) { return v[static_cast<size_t>(d)]; };
  const int64_t out_features = at(s.out, s.out_spec[1]), in_features = at(s.rhs, s.rhs_spec[1]);
  const int64_t batch = at(s.out, s.out_spec[0]);
  const int64_t per_feature_group = std::max<int64_t>(1, out_features / s.feature_groups);
  const int64_t per_batch_group = std::max<int64_t>(1, out_features / s.batch_groups);
  Dims index(s.out.size(), 0), tap(spatial);
  for (Acc& result : out) {
    const int64_t feature = at(index, s.out_spec[1]);
    const int64_t x_feature = feature / per_feature_group * in_features;
    const int64_t x_batch = at(index, s.out_spec[0]) + feature / per_batch_group * batch * (s.batch_groups > 1);
    std::fill(tap.begin(), tap.end(), 0);
    Acc sum{};
    for (bool more = count(s.rhs) > 0; more;) {
      int64_t from = x_batch * at(xs, s.lhs_spec[0]) + x_feature * at(xs, s.lhs_spec[1]),
              weight = feature * at(ks, s.rhs_spec[0]);
      bool inside = true;
      for (size_t d = 0; d < spatial; ++d) {
        const int xd = s.lhs_spec[d + 2];
        const int64_t place = at(index, s.out_spec[d + 2]) * s.strides[d] + tap[d] * s.rhs_dilation[d] - s.low[d];
        inside &= place >= 0 && place % s.lhs_dilation[d] == 0 && place / s.lhs_dilation[d] < at(s.lhs, xd);
        from += place / s.lhs_dilation[d] * at(xs, xd);
        weight += tap[d] * at(ks, s.rhs_spec[d + 2]);
      }
      for (int64_t f = 0; inside && f < in_features; ++f)
        sum = add_product(sum, x[static_cast<size_t>(from + f * at(xs, s.lhs_spec[1]))],
                          k[static_cast<size_t>(weight + f * at(ks, s.rhs_spec[1]))]);
      more = memory::next_index(
          tap.data(), spatial, [&](size_t d) { return at(s.rhs, s.rhs_spec[d + 2]); }, [](size_t, int64_t) {});
    }
    result = sum;
    memory::next_index(index.data(), index.size(), s.out);
  }
  narrowed(c.out[0], out, s.result, s.semantics);
}

}  // namespace

ArrayBody convolution(ConvShape s) {
  return [s](const ArrayCall& c) {
    if (s.in == ir::DType::F64 || s.result == ir::DType::F64) return convolve<double>(s, c);
    return ir::is_float(s.in) ? convolve<float>(s, c) : convolve<int64_t>(s, c);
  };
}

}  // namespace pallasim::interp::ops
