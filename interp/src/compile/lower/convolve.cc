// conv_general_dilated: everything that the body indexes with is checked here.
#include <algorithm>

#include "../../plan/payload/copies.h"
#include "arrays.h"
#include "pallasim/memory/saturate.h"

namespace pallasim::interp {
namespace {

// Whether `spec` names every dimension of `rank` once.
bool permutation(const std::vector<int>& spec, size_t rank) {
  std::vector<bool> seen(rank, false);
  for (int d : spec) {
    if (d < 0 || static_cast<size_t>(d) >= rank || seen[static_cast<size_t>(d)]) return false;
    seen[static_cast<size_t>(d)] = true;
  }
  return spec.size() == rank && rank >= 2;
}

int64_t dilated(int64_t n, int64_t by) { return n == 0 ? 0 : memory::add(memory::mul(n - 1, by), 1); }

// Extents that follow from each other, groups that divide.
bool fits(const arrays::ConvShape& s) {
  const size_t rank = s.out.size(), spatial = rank - 2;
  if (!permutation(s.lhs_spec, rank) || !permutation(s.rhs_spec, rank) || !permutation(s.out_spec, rank)) return false;
  if (s.lhs.size() != rank || s.rhs.size() != rank) return false;
  for (const arrays::Dims* v : {&s.strides, &s.low, &s.high, &s.lhs_dilation, &s.rhs_dilation})
    if (v->size() != spatial) return false;
  const auto at = [](const arrays::Dims& v, int d) { return v[static_cast<size_t>(d)]; };
  const int64_t features = at(s.out, s.out_spec[1]), batch = at(s.out, s.out_spec[0]);
  if (s.feature_groups < 1 || s.batch_groups < 1 || features % s.feature_groups != 0 || features % s.batch_groups != 0)
    return false;
  if (features != at(s.rhs, s.rhs_spec[0]) || memory::mul(batch, s.batch_groups) != at(s.lhs, s.lhs_spec[0]))
    return false;
  if (memory::mul(at(s.rhs, s.rhs_spec[1]), s.feature_groups) != at(s.lhs, s.lhs_spec[1])) return false;
  for (size_t d = 0; d < spatial; ++d) {
    if (s.strides[d] < 1 || s.lhs_dilation[d] < 1 || s.rhs_dilation[d] < 1) return false;
    const int64_t whole =
        memory::add(memory::add(dilated(at(s.lhs, s.lhs_spec[d + 2]), s.lhs_dilation[d]), s.low[d]), s.high[d]);
    const int64_t window = dilated(at(s.rhs, s.rhs_spec[d + 2]), s.rhs_dilation[d]);
    const int64_t places = whole < window ? 0 : (whole - window) / s.strides[d] + 1;
    if (places != at(s.out, s.out_spec[d + 2])) return false;
  }
  return true;
}

}  // namespace

static void lower_convolution(Emitter& e, const Op& op) {
  const Val &x = e.operand(op, 0), &k = e.operand(op, 1);
  const ir::Type* t = e.type(op.results[0]);
  arrays::ConvShape s;
  const auto narrow = [&](const char* key) {
    std::vector<int> r;
    for (int64_t d : ints(op.attr(key))) r.push_back(static_cast<int>(std::clamp<int64_t>(d, -1, 64)));
    return r;
  };
  s.lhs = x.dims, s.rhs = k.dims, s.out = dims_of(t);
  s.lhs_spec = narrow("lhs_spec"), s.rhs_spec = narrow("rhs_spec"), s.out_spec = narrow("out_spec");
  s.strides = ints(op.attr("strides")), s.low = ints(op.attr("low")), s.high = ints(op.attr("high"));
  s.lhs_dilation = ints(op.attr("lhs_dilation")), s.rhs_dilation = ints(op.attr("rhs_dilation"));
  s.feature_groups = op.attr("feature_groups")->i, s.batch_groups = op.attr("batch_groups")->i;
  s.in = x.dtype, s.result = t->dtype;
  s.semantics = e.semantics();
  require(e, op,
          !ir::is_complex(x.dtype) && x.dtype != ir::DType::Bool && x.dtype == k.dtype &&
              ir::is_float(x.dtype) == ir::is_float(t->dtype) && (ir::is_float(t->dtype) || ir::is_int(t->dtype)),
          "these element types");
  require(e, op, s.out.size() >= 2 && fits(s), "dimension numbers that do not fit");
  define_array(e, op, e.functions().arrays.convolution(std::move(s)));
}

Rows convolve_rows() {
  static constexpr Row kRows[] = {{OpCode::conv_general_dilated, lower_convolution}};
  return kRows;
}

}  // namespace pallasim::interp
