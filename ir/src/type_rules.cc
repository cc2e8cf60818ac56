// The verifier's type rules: dispatch, and the rules that are one-liners.
#include <fmt/format.h>

#include "text.h"
#include "verify.h"

namespace pallasim::ir {

// Families whose operations take values alone.
static bool of_values(Family f) {
  return f == Family::Elementwise || f == Family::Shape || f == Family::Reduction || f == Family::Random;
}

void check_types(const OpCheck& c) {
  if (of_values(c.info.family))
    for (int i = 0; i < c.num_in(); ++i)
      if (c.in(i).is_ref) c.bad_operand(i, "a tensor is needed", "read the ref with 'get'");
  switch (c.info.rule) {
    case TypeRule::Abs: return rule_abs(c);
    case TypeRule::ArgReduce: return rule_arg_reduce(c);
    case TypeRule::BitcastConvert: return rule_bitcast_convert(c);
    case TypeRule::Broadcast: return rule_broadcast(c);
    case TypeRule::Call: return rule_call(c);
    case TypeRule::Clamp: return rule_clamp(c);
    case TypeRule::Compare: return rule_compare(c);
    case TypeRule::ComplexPart: return rule_complex_part(c);
    case TypeRule::Concat: return rule_concat(c);
    case TypeRule::Cond: return rule_cond(c);
    case TypeRule::Constant: return rule_constant(c);
    case TypeRule::Convert: return rule_convert(c);
    case TypeRule::Cumulative: return rule_cumulative(c);
    case TypeRule::Declared: return rule_declared(c);
    case TypeRule::Dot: return rule_dot(c);
    case TypeRule::DynamicSlice: return rule_dynamic_slice(c);
    case TypeRule::DynamicUpdate: return rule_dynamic_update(c);
    case TypeRule::For: return rule_for(c);
    case TypeRule::Get: return rule_get(c);
    case TypeRule::Identity: return rule_identity(c);
    case TypeRule::Index: return rule_index(c);
    case TypeRule::Iota: return rule_iota(c);
    case TypeRule::MaskedLoad: return rule_masked_load(c);
    case TypeRule::NoResult: return rule_no_result(c);
    case TypeRule::Pad: return rule_pad(c);
    case TypeRule::Pow: return rule_pow(c);
    case TypeRule::Predicate: return rule_predicate(c);
    case TypeRule::Reduce: return rule_reduce(c);
    case TypeRule::RefResult: return rule_ref_result(c);
    case TypeRule::Reshape: return rule_reshape(c);
    case TypeRule::Same: return rule_same(c);
    case TypeRule::Scoped: return rule_scoped(c);
    case TypeRule::Select: return rule_select(c);
    case TypeRule::Slice: return rule_slice(c);
    case TypeRule::Store: return rule_store(c);
    case TypeRule::Swap: return rule_swap(c);
    case TypeRule::Transpose: return rule_transpose(c);
    case TypeRule::Variadic: return rule_variadic(c);
    case TypeRule::While: return rule_while(c);
  }
}

// Results are taken as written, but for those of a few; the body of the operation knows the rest.
void rule_declared(const OpCheck& c) {
  switch (c.op.code) {
    case OpCode::split: return rule_split(c);
    case OpCode::stack: return rule_stack(c);
    case OpCode::repeat:
    case OpCode::tile: return rule_tile(c);
    case OpCode::unstack: return rule_unstack(c);
    case OpCode::freeze:
    case OpCode::wgmma_accumulator_deref: return rule_get(c);
    case OpCode::wgmma_accumulator_store: return rule_store(c);
    default: break;
  }
  if (const Attr* v = c.op.attr("view"))
    if ((v->is(Attr::Kind::List) || v->is(Attr::Kind::View)) && c.num_in() > 0 && c.in(0).is_ref)
      view_shape(c, c.in(0), v);
}

void rule_identity(const OpCheck& c) {
  const bool all = c.op.code == OpCode::optimization_barrier;
  if (c.num_out() > c.num_in() || (all && c.num_out() != c.num_in()))
    c.fail("PS-IR-106", fmt::format("{} for {}", plural(c.num_out(), "result"), plural(c.num_in(), "operand")));
  for (int i = 0; i < c.num_out(); ++i)
    if (!same_type(c.in(i), c.out(i))) c.bad_result(i, fmt::format("operand {} has type {}", i, to_string(c.in(i))));
}

void rule_variadic(const OpCheck& c) {
  if (c.op.code == OpCode::threefry2x32) {
    c.need_results(2);
    for (int i = 0; i < c.num_in(); ++i)
      if (c.in(i).is_ref || c.in(i).dtype != DType::U32) c.bad_operand(i, "the threefry function takes u32");
    int lead = 0;
    while (lead < 3 && c.in(lead).is_scalar()) ++lead;
    for (int i = 0; i < 2; ++i)
      if (!same_type(c.in(lead), c.out(i)))
        c.bad_result(i, fmt::format("operand {} has type {}", lead, to_string(c.in(lead))));
    return;
  }
  c.need_results(c.num_in());
  for (int i = 0; i < c.num_in(); ++i) {
    c.need_tensor(i);
    if (!may_equal(c.in(i).dims, c.in(0).dims))
      c.bad_operand(i, fmt::format("operand 0 has type {}", to_string(c.in(0))));
    if (!same_type(c.in(i), c.out(i))) c.bad_result(i, fmt::format("operand {} has type {}", i, to_string(c.in(i))));
  }
  c.axis_attr("axis", c.in(0).rank());
  const int64_t keys = c.int_attr("num_keys");
  if (keys < 1 || keys > c.num_in())
    c.bad_attr("num_keys", fmt::format("not between 1 and the {} operands", c.num_in()));
}

void rule_index(const OpCheck& c) {
  c.need_results(1);
  if (!c.out().is_scalar() || !is_int(c.out().dtype)) c.bad_result(0, "the result is an integer scalar");
  const Attr* axis = c.op.attr("axis");
  if (axis && axis->is_int() && axis->i < 0) c.bad_attr("axis", "not an axis of the grid");
}

void rule_no_result(const OpCheck& c) {
  c.need_results(0);
  if (c.op.code == OpCode::check && (c.in(0).is_ref || c.in(0).dtype != DType::Bool))
    c.bad_operand(0, "the predicate is bool");
  if (c.op.code == OpCode::dma_start || c.op.code == OpCode::dma_wait) {
    const ViewShape src = check_view_attr(c, "src", *c.op.attr("src")),
                    dst = check_view_attr(c, "dst", *c.op.attr("dst"));
    if (src.known_dtype && dst.known_dtype && src.dtype != dst.dtype)
      c.fail("PS-IR-107", fmt::format("source of {} and destination of {}", name(src.dtype), name(dst.dtype)));
    if (src.known_shape && dst.known_shape && !may_equal(src.dims, dst.dims))
      c.fail("PS-IR-107", fmt::format("the source shows {}, but the destination shows {}",
                                      shape_text(src.dtype, src.dims), shape_text(dst.dtype, dst.dims)));
    return;
  }
  rule_declared(c);
}

}  // namespace pallasim::ir
