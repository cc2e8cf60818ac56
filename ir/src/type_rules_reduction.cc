#include <algorithm>

#include <fmt/format.h>

#include "verify.h"

namespace pallasim::ir {
namespace {

std::vector<Dim> without(const std::vector<Dim>& dims, const std::vector<int64_t>& axes) {
  std::vector<Dim> r;
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) r.push_back(dims[i]);
  return r;
}

void need_number(const OpCheck& c, int i) {
  c.need_tensor(i);
  if (is_key(c.in(i).dtype)) c.bad_operand(i, "a number is needed");
}

}  // namespace

void rule_reduce(const OpCheck& c) {
  need_number(c, 0);
  const Type& x = c.in(0);
  const bool logical =
      c.op.code == OpCode::reduce_and || c.op.code == OpCode::reduce_or || c.op.code == OpCode::reduce_xor;
  if (logical && !is_int(x.dtype) && x.dtype != DType::Bool)
    c.bad_operand(0, fmt::format("'{}' takes bool or integers", c.info.name));
  c.need_out(x.dtype, without(x.dims, c.axes_attr("axes", x.rank())), "the operand without the reduced axes");
}

void rule_arg_reduce(const OpCheck& c) {
  need_number(c, 0);
  const Type& x = c.in(0);
  c.need_results(1);
  c.need_out_tensor();
  if (!is_int(c.out().dtype)) c.bad_result(0, "an index is an integer");
  c.need_out(c.out().dtype, without(x.dims, {c.axis_attr("axis", x.rank())}), "the operand without the reduced axis");
}

void rule_cumulative(const OpCheck& c) {
  need_number(c, 0);
  c.axis_attr("axis", c.in(0).rank());
  c.need_out(c.in(0).dtype, c.in(0).dims, "the operand");
}

void rule_dot(const OpCheck& c) {
  need_number(c, 0);
  need_number(c, 1);
  const Type &l = c.in(0), &r = c.in(1);
  auto lc = c.axes_attr("lhs_contract", l.rank()), rc = c.axes_attr("rhs_contract", r.rank());
  auto lb = c.axes_attr("lhs_batch", l.rank()), rb = c.axes_attr("rhs_batch", r.rank());
  auto pairs = [&](const std::vector<int64_t>& a, const std::vector<int64_t>& b, const char* key, const char* what) {
    if (a.size() != b.size())
      c.bad_attr(key, fmt::format("the left operand has {} {} dimensions, the right one {}", a.size(), what, b.size()));
    for (size_t i = 0; i < a.size(); ++i)
      if (!may_equal(l.dims[static_cast<size_t>(a[i])], r.dims[static_cast<size_t>(b[i])]))
        c.bad_operand(1, fmt::format("its {} dimension {} does not match dimension {} of operand 0 of type {}", what,
                                     b[i], a[i], to_string(l)));
  };
  pairs(lc, rc, "rhs_contract", "contracting");
  pairs(lb, rb, "rhs_batch", "batch");
  std::vector<Dim> dims;
  for (int64_t a : lb) dims.push_back(l.dims[static_cast<size_t>(a)]);
  auto rest = [&](const Type& t, std::vector<int64_t>& contract, const std::vector<int64_t>& batch, const char* key) {
    for (int64_t a : batch)
      if (std::find(contract.begin(), contract.end(), a) != contract.end())
        c.bad_attr(key, fmt::format("axis {} is a batch axis as well", a));
    contract.insert(contract.end(), batch.begin(), batch.end());
    for (const Dim& d : without(t.dims, contract)) dims.push_back(d);
  };
  rest(l, lc, lb, "lhs_contract");
  rest(r, rc, rb, "rhs_contract");
  c.need_results(1);
  c.need_out_tensor();
  if (!is_value(c.out().dtype) || is_key(c.out().dtype)) c.bad_result(0, "a contraction gives numbers");
  c.need_out(c.out().dtype, dims, "the contraction");
}

}  // namespace pallasim::ir
