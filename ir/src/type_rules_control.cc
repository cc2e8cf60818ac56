#include <fmt/format.h>

#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

const Region& region(const OpCheck& c, size_t i) { return c.op.regions[i]; }

void need_args(const OpCheck& c, size_t r, size_t n) {
  if (region(c, r).args.size() != n)
    c.fail("PS-IR-112", fmt::format("region {} has {} instead of {}", r,
                                    plural(static_cast<int64_t>(region(c, r).args.size()), "argument"), n));
}

void need_arg(const OpCheck& c, size_t r, size_t arg, const Type& t, const std::string& what) {
  const ValueId v = region(c, r).args[arg];
  if (!same_type(*c.g.type(v), t))
    c.fail("PS-IR-112", fmt::format("argument {} (%{}) of region {} has type {}, but {} has type {}", arg, v, r,
                                    to_string(c.g.type(v)), what, to_string(t)));
}

// The values that region `r` yields; the structure check made sure that there is a `yield`.
const std::vector<ValueId>& yields(const OpCheck& c, size_t r) { return region(c, r).ops.back().operands; }

void need_yields_results(const OpCheck& c, size_t r) {
  const auto& y = yields(c, r);
  if (static_cast<int>(y.size()) != c.num_out())
    c.fail("PS-IR-112", fmt::format("region {} yields {} for {}", r, plural(static_cast<int64_t>(y.size()), "value"),
                                    plural(c.num_out(), "result")));
  for (int i = 0; i < c.num_out(); ++i) {
    const ValueId v = y[static_cast<size_t>(i)];
    if (!same_type(*c.g.type(v), c.out(i)))
      c.fail("PS-IR-112", fmt::format("region {} yields %{} of type {} for result {} of type {}", r, v,
                                      to_string(c.g.type(v)), i, to_string(c.out(i))));
  }
}

// Carried values: operands from `first_in`, arguments from `first_arg` of region `r`, results.
void need_carried(const OpCheck& c, int first_in, size_t r, size_t first_arg) {
  c.need_results(c.num_in() - first_in);
  need_args(c, r, first_arg + c.op.results.size());
  for (int i = 0; i < c.num_out(); ++i) {
    const Type& t = c.in(first_in + i);
    need_arg(c, r, first_arg + static_cast<size_t>(i), t, fmt::format("operand {}", first_in + i));
    if (!same_type(c.out(i), t)) c.bad_result(i, fmt::format("operand {} has type {}", first_in + i, to_string(t)));
  }
}

}  // namespace

void rule_cond(const OpCheck& c) {
  const Type& t = c.in(0);
  if (t.is_ref || !t.is_scalar() || (t.dtype != DType::Bool && !is_int(t.dtype)))
    c.bad_operand(0, "the predicate is a bool or integer scalar");
  const size_t n = c.op.regions.size();
  if (n == 0 || (t.dtype == DType::Bool && n != 2))
    c.fail("PS-IR-102",
           fmt::format("{} under a predicate of type {}", plural(static_cast<int64_t>(n), "region"), to_string(t)),
           "a bool chooses between two regions, false first");
  for (size_t r = 0; r < n; ++r) {
    need_args(c, r, 0);
    need_yields_results(c, r);
  }
}

void rule_call(const OpCheck& c) {
  need_args(c, 0, static_cast<size_t>(c.num_in()));
  for (int i = 0; i < c.num_in(); ++i) need_arg(c, 0, static_cast<size_t>(i), c.in(i), fmt::format("operand {}", i));
  need_yields_results(c, 0);
}

void rule_while(const OpCheck& c) {
  need_carried(c, 0, 0, 0);
  need_carried(c, 0, 1, 0);
  const auto& test = yields(c, 0);
  if (test.size() != 1 || c.g.type(test[0])->is_ref || !c.g.type(test[0])->is_scalar() ||
      c.g.type(test[0])->dtype != DType::Bool)
    c.fail("PS-IR-112", "the condition (region 0) yields one bool scalar");
  need_yields_results(c, 1);
}

void rule_for(const OpCheck& c) {
  for (int i = 0; i < 3; ++i) {
    c.need_int_scalar(i);
    if (c.in(i).dtype != c.in(0).dtype)
      c.bad_operand(i, fmt::format("the lower bound has type {}", to_string(c.in(0))));
  }
  need_carried(c, 3, 0, 1);
  need_arg(c, 0, 0, c.in(0), "the lower bound");
  need_yields_results(c, 0);
}

void rule_scoped(const OpCheck& c) {
  for (size_t i = 0; i < region(c, 0).args.size(); ++i) {
    const ValueId v = region(c, 0).args[i];
    if (!c.g.type(v)->is_ref)
      c.fail("PS-IR-112", fmt::format("argument {} (%{}) of type {} is no allocation", i, v, to_string(c.g.type(v))));
  }
  need_yields_results(c, 0);
}

}  // namespace pallasim::ir
