// Elementwise operations.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "../../plan/payload/arithmetic.h"
#include "../values/elementwise.h"
#include "arrays.h"

namespace pallasim::interp {

namespace {
StripParams params_of(const ir::Op& op, ir::DType dtype, const Semantics& semantics) {
  StripParams p;
  p.dtype = dtype;
  p.semantics = semantics;
  if (op.code == ir::OpCode::integer_pow) p.imm = op.attr("y")->i;
  if (op.code == ir::OpCode::round) p.imm = op.attr("method")->s == "to_nearest_even";
  // More bits than any format has change nothing.
  if (op.code == ir::OpCode::reduce_precision)
    p.imm =
        std::min<int64_t>(op.attr("exponent_bits")->i, 16) << 8 | std::min<int64_t>(op.attr("mantissa_bits")->i, 255);
  return p;
}
}  // namespace

// Products that wait for the sum behind them, which alone uses them: one step makes both.
struct WaitingProducts {
  struct Factors {
    const Op* product;
    uint32_t a, b;
  };
  std::unordered_map<ir::ValueId, Factors> of;
};

static const StepForm* multiply_add_form(const Emitter& e, ir::DType t) {
  return ir::is_int(t) && ir::byte_size(t) == byte_size(compute_type(t)) ? e.functions().scalar_mul_add(compute_type(t))
                                                                         : nullptr;
}

static bool waits_for_sum(Emitter& e, const Op& op) {
  const Op* sum = e.live().only_user(op.results[0]);
  const ir::Type* t = e.type(op.results[0]);
  if (op.code != OpCode::mul || !e.options().fuse || !t->is_scalar() || !multiply_add_form(e, t->dtype) || !sum ||
      sum->code != OpCode::add || !e.type(sum->results[0])->is_scalar())
    return false;
  const Val &a = e.operand(op, 0), &b = e.operand(op, 1);
  const auto is_const = [](const Val& v) { return v.is_uniform() && v.scalar().is_const; };
  if (is_const(a) && is_const(b)) return false;  // folds
  e.state<WaitingProducts>().of[op.results[0]] = {&op, scalar_slot(e, a), scalar_slot(e, b)};
  return true;
}

static std::optional<Val> multiply_add(Emitter& e, const Op& op) {
  auto& waiting = e.state<WaitingProducts>().of;
  for (size_t i = 0; i < op.operands.size() && op.code == OpCode::add; ++i) {
    const auto product = waiting.extract(op.operands[i]);
    if (!product) continue;
    const auto [made, a, b] = product.mapped();
    const uint32_t c = scalar_slot(e, e.operand(op, 1 - i));
    const Val r = e.new_scalar(e.type(op.results[0])->dtype, op.results[0]);
    Step& s = e.emit(*multiply_add_form(e, r.dtype));
    s.dst = r.scalar().slot, s.a = a, s.b = b, s.c = c;
    const Op* const both[] = {made, &op};
    e.plan().step_ops.replace(both);
    count(Rewrite::MultiplyAdd);
    return r;
  }
  return {};
}

static void lower_elementwise(Emitter& e, const Op& op) {
  const ir::Type* result = e.type(op.results[0]);
  // The exponent of pow may be an integer.
  const ir::DType operand_dtype = e.type(op.code == ir::OpCode::pow ? op.operands.front() : op.operands.back())->dtype;
  if (!e.kernels().strip(op.code, operand_dtype))
    e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(operand_dtype)));
  const StripParams params = params_of(op, operand_dtype, e.semantics());
  if (waits_for_sum(e, op)) return;
  if (const std::optional<Val> r = multiply_add(e, op)) return e.define(op.results[0], *r);
  std::vector<Val> args;
  for (size_t i = 0; i < op.operands.size(); ++i)
    args.push_back(op.code == ir::OpCode::pow ? convert_value(e, e.operand(op, i), operand_dtype) : e.operand(op, i));
  e.define(op.results[0],
           elementwise_value(e, op.code, operand_dtype, *result, std::move(args), params, op.results[0]));
}

static void lower_convert(Emitter& e, const Op& op) {
  const ir::DType to = e.type(op.results[0])->dtype;
  const Val& v = e.operand(op, 0);
  if (v.dtype != to && !e.kernels().convert(v.dtype, to))
    e.unsupported(op, "convert from " + std::string(ir::name(v.dtype)) + " to " + std::string(ir::name(to)));
  e.define(op.results[0], convert_value(e, v, to, op.results[0]));
}

static void lower_select(Emitter& e, const Op& op) {
  const ir::Type* result = e.type(op.results[0]);
  const ir::DType dt = result->dtype;
  if (!e.kernels().strip(ir::OpCode::select_n, dt)) e.unsupported(op, "select_n on " + std::string(ir::name(dt)));
  StripParams params;
  params.dtype = dt;
  params.semantics = e.semantics();
  const Val pred = e.operand(op, 0);
  auto choose = [&](const Val& p, const Val& no, const Val& yes) {
    if (result->is_scalar()) return scalar_result(e, ir::OpCode::select_n, dt, dt, {p, no, yes}, params);
    return node(e, ir::OpCode::select_n, dt, dt, {p, no, yes}, dims_of(result), params);
  };
  if (pred.dtype == ir::DType::Bool) {
    if (op.operands.size() == 2) return e.define(op.results[0], e.operand(op, 1));
    return e.define(op.results[0], choose(pred, e.operand(op, 1), e.operand(op, 2)));
  }
  // An integer predicate: case k replaces the running choice where the predicate equals k.
  Val chosen = e.operand(op, 1);
  const Val which = pred.is_pending() ? strided(e, pred) : pred;
  for (size_t c = 2; c < op.operands.size(); ++c) {
    const Val k = e.const_int(pred.dtype, static_cast<int64_t>(c) - 1);
    StripParams eq = params;
    eq.dtype = pred.dtype;
    const Val is = pred.is_scalar() ? scalar_result(e, ir::OpCode::eq, pred.dtype, ir::DType::Bool, {which, k}, eq)
                                    : node(e, ir::OpCode::eq, pred.dtype, ir::DType::Bool, {which, k}, pred.dims, eq);
    chosen = choose(is, chosen, e.operand(op, c));
  }
  e.define(op.results[0], chosen);
}

static void lower_bitcast(Emitter& e, const Op& op) {
  const ir::Type* to = e.type(op.results[0]);
  Val v = e.operand(op, 0);
  if (v.dtype == to->dtype) return e.define(op.results[0], v);
  const int from_bits = ir::bit_width(v.dtype), to_bits = ir::bit_width(to->dtype);
  if (from_bits == to_bits && e.kernels().bitcast(v.dtype, to->dtype)) {
    if (v.is_uniform()) {
      const Val r = scalar_in(e.new_slot(), to->dtype).spread(v.dims);
      Step& s = e.emit<Kind::scalar_strip>(ScalarStrip{1, e.kernels().bitcast(v.dtype, to->dtype), nullptr, {}});
      s.dst = r.scalar().slot;
      s.a = s.b = s.c = v.scalar().slot;
      return e.define(op.results[0], r);
    }
    Val r = node(e, op.code, v.dtype, to->dtype, {v}, v.dims, {});
    r.node()->kind = Node::Kind::Bitcast;
    return e.define(op.results[0], r);
  }
  if ((from_bits < 8 || to_bits < 8) && from_bits != to_bits) {
    // Sub-byte elements are one per byte here, packed on the machine.
    const int64_t inner = from_bits > to_bits ? 1 : from_bits ? to_bits / from_bits : 1;
    return define_array(
        e, op, e.functions().arrays.regroup(v.elements() / std::max<int64_t>(inner, 1), inner, 1, v.dtype, to->dtype));
  }
  // Widths differ: the same dense bytes under another type.
  Val d = materialized(e, dense(e, v));
  d.dtype = to->dtype;
  d.dims = dims_of(to);
  d.memory().strides = dense_strides(d.dims);
  if (d.dims.empty()) d = load_scalar(e, d);
  e.define(op.results[0], d);
}

Rows elementwise_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> r = {
        {OpCode::convert, lower_convert}, {OpCode::bitcast_convert, lower_bitcast}, {OpCode::select_n, lower_select}};
    // The others of the family are strips of the table of kernels.
    for (int k = 0; k < ir::kNumOps; ++k) {
      const auto code = static_cast<OpCode>(k);
      const bool own = std::any_of(r.begin(), r.end(), [&](const Row& row) { return row.code == code; });
      if (ir::info(code).family == ir::Family::Elementwise && !own && code != OpCode::stop_gradient)
        r.push_back({code, lower_elementwise});
    }
    return r;
  }();
  return rows;
}

}  // namespace pallasim::interp
