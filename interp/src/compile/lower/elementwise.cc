// Elementwise tensor operations: expression trees become strip programs over collapsed loops.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../../plan/steps.h"
#include "arrays.h"
#include "elementwise.h"

namespace pallasim::interp {
namespace {

constexpr int kMaxInlined = 16;

// Collapses loop dims that are contiguous with each other for every operand.
struct Loops {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  // per operand
};

Loops collapse(const std::vector<int64_t>& dims, const std::vector<std::vector<int64_t>>& strides) {
  Loops r;
  r.strides.resize(strides.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool merge = !r.dims.empty();
    for (size_t o = 0; merge && o < strides.size(); ++o) merge = r.strides[o].back() == strides[o][d] * dims[d];
    if (merge) {
      r.dims.back() *= dims[d];
      for (size_t o = 0; o < strides.size(); ++o) r.strides[o].back() = strides[o][d];
      continue;
    }
    r.dims.push_back(dims[d]);
    for (size_t o = 0; o < strides.size(); ++o) r.strides[o].push_back(strides[o][d]);
  }
  if (r.dims.empty()) {
    r.dims.push_back(1);
    for (auto& s : r.strides) s.push_back(1);
  }
  return r;
}

bool register_form_is_memory_form(ir::DType t) {
  switch (t) {
    case ir::DType::Bool:
    case ir::DType::I32:
    case ir::DType::U32:
    case ir::DType::I64:
    case ir::DType::U64:
    case ir::DType::F32:
    case ir::DType::F64:
    case ir::DType::C64:
    case ir::DType::C128: return true;
    default: return false;
  }
}

// Builds one program from an expression tree.
class ProgramBuilder {
 public:
  ProgramBuilder(const KernelTable& k, EltProgram& p, std::vector<std::vector<int64_t>>& strides,
                 std::vector<const ir::Op*>* sources)
      : k_(k), p_(p), strides_(strides), sources_(sources) {}

  // `one`: who uses it takes one element.
  uint16_t value(const Val& v, bool one = false) {
    switch (v.kind()) {
      case Val::Kind::Scalar:
      case Val::Kind::Splat: {
        const CType c = compute_type(v.dtype);
        for (const EltSplat& s : p_.splats)
          if (s.slot == v.scalar().slot && s.ctype == c && s.one == one) return s.entry;
        p_.splats.push_back({v.scalar().slot, c, fresh(), one});
        return p_.splats.back().entry;
      }
      case Val::Kind::Strided: {
        for (size_t i = 0; i < p_.operands.size(); ++i)
          if (vals_[i].memory().addr == v.memory().addr && vals_[i].memory().strides == v.memory().strides &&
              vals_[i].dtype == v.dtype)
            return p_.operands[i].entry;
        EltOperand o;
        o.addr = v.memory().addr;
        o.element_bytes = ir::byte_size(v.dtype);
        o.load = k_.load(v.dtype);
        o.entry = fresh();
        p_.operands.push_back(o);
        strides_.push_back(v.memory().strides);
        vals_.push_back(v);
        return o.entry;
      }
      default: return operation(*v.node());
    }
  }

  uint16_t operation(const Node& n) {
    EltOp op{};
    std::array<uint16_t, 3> in{};
    const bool plain = n.kind != Node::Kind::Convert && n.kind != Node::Kind::Bitcast;
    const uint8_t may = plain ? takes_scalars(n.op, n.operand_dtype) : 0;
    op.params = n.params;
    for (size_t i = 0; i < n.args.size(); ++i) {
      const bool one = (may >> i & 1) && n.args[i].is_uniform();
      in[i] = value(n.args[i], one);
      if (one) op.params.scalars |= static_cast<uint8_t>(1 << i);
    }
    for (size_t i = 0; i < n.args.size(); ++i)
      uses_.push_back({in[i], p_.ops.size(), static_cast<uint8_t>(may & 1 << i)});
    op.a = in[0];
    op.b = in[1];
    op.c = in[2];
    if (n.kind == Node::Kind::Convert) op.convert = k_.convert(n.operand_dtype, n.dtype);
    else if (n.kind == Node::Kind::Bitcast) op.fn = k_.bitcast(n.operand_dtype, n.dtype);
    else op.fn = k_.strip(n.op, n.operand_dtype);
    // The result may take an argument's register only where elements have one width: bodies run element by element.
    const int width = byte_size(compute_type(n.dtype));
    auto release = [&](bool same_width) {
      for (size_t i = 0; i < n.args.size(); ++i)
        if (n.args[i].is_pending() && (byte_size(compute_type(n.args[i].dtype)) == width) == same_width)
          free_.push_back(in[i]);
    };
    release(true);
    op.dst = strip();
    release(false);
    p_.ops.push_back(op);
    if (sources_ && n.source && (sources_->empty() || sources_->back() != n.source)) sources_->push_back(n.source);
    return op.dst;
  }

  // Once strides are known: operands that are already in register form are used where they lie; of those that are the
  // same along a row one element is enough, where all who use them take one.
  void place_operands() {
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      EltOperand& o = p_.operands[i];
      if (o.strides.back() == 0 && o.entry != p_.result) {
        const auto uses = [&](const Use& u) { return u.entry == o.entry; };
        o.one = std::all_of(uses_.begin(), uses_.end(), [&](const Use& u) { return !uses(u) || u.scalar != 0; });
        for (const Use& u : uses_)
          if (o.one && uses(u)) p_.ops[u.op].params.scalars |= u.scalar;
      }
      if ((o.strides.back() == 1 || o.one) && register_form_is_memory_form(vals_[i].dtype)) o.load = nullptr;
    }
  }

 private:
  // Operands are loaded before the first operation, so they never share a register with a result.
  uint16_t fresh() { return static_cast<uint16_t>(p_.entries++); }
  uint16_t strip() {
    if (!free_.empty()) {
      const uint16_t e = free_.back();
      free_.pop_back();
      return e;
    }
    return fresh();
  }

  const KernelTable& k_;
  EltProgram& p_;
  std::vector<std::vector<int64_t>>& strides_;
  std::vector<const ir::Op*>* sources_;  // of the operations, in their order; may be null
  std::vector<Val> vals_;
  std::vector<uint16_t> free_;
  struct Use {
    uint16_t entry;
    size_t op;
    uint8_t scalar;  // StripParams::scalars where one element is enough; 0: it is not
  };
  std::vector<Use> uses_;
};

}  // namespace

// A store to bf16 or f16 rounds as the operation before it does: of a register that nothing else reads one of the two
// is enough.
static void leave_rounding_to_store(const Val& v, StoreFn rounding, EltProgram* p) {
  if (!v.is_pending() || !rounding) return;
  EltOp& last = p->ops.back();
  const OpCode op = v.node()->op;
  if (v.node()->kind == Node::Kind::Convert && compute_type(v.node()->operand_dtype) == CType::F32) {
    p->result = last.a;
    p->ops.pop_back();
  } else if (v.node()->kind == Node::Kind::Elementwise &&
             (op == OpCode::add || op == OpCode::sub || op == OpCode::mul || op == OpCode::div)) {
    last.params.dtype = ir::DType::F32;
  } else {
    return;
  }
  p->store = rounding;
  count(Rewrite::RoundedByStore);
}

EltProgram elementwise_program(Emitter& e, const Val& dst, const Val& v, bool joined,
                               std::vector<const ir::Op*>* sources) {
  EltProgram p;
  std::vector<std::vector<int64_t>> strides;
  ProgramBuilder b(e.kernels(), p, strides, sources);
  p.result = b.value(v);
  strides.push_back(dst.memory().strides);
  Loops loops = joined ? collapse(dst.dims, strides) : Loops{dst.dims, strides};
  p.dims = loops.dims;
  p.dst_strides = loops.strides.back();
  for (size_t i = 0; i < p.operands.size(); ++i) p.operands[i].strides = loops.strides[i];
  b.place_operands();
  p.dst = dst.memory().addr;
  p.dst_bytes = ir::byte_size(dst.dtype);
  // The last operation may write memory directly; a bare operand or a splat is stored instead.
  const bool direct = register_form_is_memory_form(dst.dtype) && p.dst_strides.back() == 1 && !p.ops.empty();
  p.store = direct ? nullptr : e.kernels().store(dst.dtype);
  if (p.store && e.options().fuse && !p.ops.empty() && p.ops.back().dst == p.result)
    leave_rounding_to_store(v, e.kernels().rounding_store(dst.dtype), &p);
  if (direct) p.result = p.ops.back().dst = static_cast<uint16_t>(p.entries++);  // nothing else writes this entry
  p.strips = p.entries;
  for (const EltOp& o : p.ops) p.complex |= ir::is_complex(o.params.dtype);
  for (const EltSplat& s : p.splats) p.complex |= byte_size(s.ctype) == 16;
  e.plan().memory.max_strips = std::max(e.plan().memory.max_strips, p.strips);
  p.ns = host_cost::kElementwise.of(static_cast<double>(dst.elements()) * static_cast<double>(p.ops.size() + 1));
  e.plan().split.step_cost_ns += p.ns;
  return p;
}

void emit_elementwise(Emitter& e, const Val& dst, const Val& v, bool writes_memory) {
  std::vector<const ir::Op*> sources;
  EltProgram p = elementwise_program(e, dst, v, true, &sources);
  p.writes_memory = writes_memory;
  e.emit<Kind::elementwise>(std::move(p));
  if (sources.empty()) return;
  if (writes_memory && e.op() && sources.back() != e.op()) sources.push_back(e.op());
  e.plan().step_ops.replace(sources);
}

Val node(Emitter& e, ir::OpCode op, ir::DType operand, ir::DType result, std::vector<Val> args,
         std::vector<int64_t> dims, const StripParams& params) {
  auto n = std::make_shared<Node>();
  n->op = op;
  n->operand_dtype = operand;
  n->dtype = result;
  n->params = params;
  n->source = e.op();
  for (Val& a : args) {
    // Arguments that are not worth inlining, or too many, become memory first.
    if (a.is_pending() && (!a.node()->elementwise() || n->size + a.node()->size > kMaxInlined || !e.options().fuse))
      a = e.strided(a);
    else if (a.is_pending()) count(Rewrite::FusedChain);
    if (a.is_pending()) n->size += a.node()->size;
  }
  n->args = std::move(args);
  return {result, std::move(dims), std::move(n)};
}

Val convert_value(Emitter& e, const Val& v, ir::DType to, ir::ValueId defines) {
  if (v.dtype == to) return v;
  if (v.is_uniform()) { return e.scalar_convert(v, to, defines).spread(v.dims); }
  StripParams params;
  params.semantics = e.semantics();
  params.dtype = to;
  Val r = node(e, ir::OpCode::convert, v.dtype, to, {v}, v.dims, params);
  r.node()->kind = Node::Kind::Convert;
  return r;
}

namespace {
StripParams params_of(const ir::Op& op, ir::DType dtype, const Semantics& semantics) {
  StripParams p;
  p.dtype = dtype;
  p.semantics = semantics;
  if (op.code == ir::OpCode::integer_pow) p.imm = op.attr("y")->i;
  if (op.code == ir::OpCode::round) p.imm = op.attr("method")->s == "to_nearest_even";
  if (op.code == ir::OpCode::reduce_precision) p.imm = op.attr("exponent_bits")->i << 8 | op.attr("mantissa_bits")->i;
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
  const Op* sum = e.only_user(op.results[0]);
  const ir::Type* t = e.type(op.results[0]);
  if (op.code != OpCode::mul || !e.options().fuse || !t->is_scalar() || !multiply_add_form(e, t->dtype) || !sum ||
      sum->code != OpCode::add || !e.type(sum->results[0])->is_scalar())
    return false;
  const Val &a = e.operand(op, 0), &b = e.operand(op, 1);
  const auto is_const = [](const Val& v) { return v.is_uniform() && v.scalar().is_const; };
  if (is_const(a) && is_const(b)) return false;  // folds
  e.state<WaitingProducts>().of[op.results[0]] = {&op, e.scalar_slot(a), e.scalar_slot(b)};
  return true;
}

static std::optional<Val> multiply_add(Emitter& e, const Op& op) {
  auto& waiting = e.state<WaitingProducts>().of;
  for (size_t i = 0; i < op.operands.size() && op.code == OpCode::add; ++i) {
    const auto product = waiting.extract(op.operands[i]);
    if (!product) continue;
    const auto [made, a, b] = product.mapped();
    const uint32_t c = e.scalar_slot(e.operand(op, 1 - i));
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

Val elementwise_value(Emitter& e, ir::OpCode code, ir::DType operand_dtype, const ir::Type& result,
                      std::vector<Val> args, const StripParams& params, ir::ValueId defines) {
  const bool uniform = std::all_of(args.begin(), args.end(), [](const Val& v) { return v.is_uniform(); });
  if (!result.is_scalar() && !uniform)
    return node(e, code, operand_dtype, result.dtype, std::move(args), dims_of(&result), params);
  for (Val& v : args) {
    if (!v.is_uniform()) v = e.load_scalar(e.strided(v));
    v = v.spread({});
  }
  const Val r = e.scalar_result(code, operand_dtype, result.dtype, args, params, defines);
  return result.is_scalar() ? r : r.spread(dims_of(&result));
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
    if (result->is_scalar()) return e.scalar_result(ir::OpCode::select_n, dt, dt, {p, no, yes}, params);
    return node(e, ir::OpCode::select_n, dt, dt, {p, no, yes}, dims_of(result), params);
  };
  if (pred.dtype == ir::DType::Bool) {
    if (op.operands.size() == 2) return e.define(op.results[0], e.operand(op, 1));
    return e.define(op.results[0], choose(pred, e.operand(op, 1), e.operand(op, 2)));
  }
  // An integer predicate: case k replaces the running choice where the predicate equals k.
  Val chosen = e.operand(op, 1);
  const Val which = pred.is_pending() ? e.strided(pred) : pred;
  for (size_t c = 2; c < op.operands.size(); ++c) {
    const Val k = e.const_int(pred.dtype, static_cast<int64_t>(c) - 1);
    StripParams eq = params;
    eq.dtype = pred.dtype;
    const Val is = pred.is_scalar() ? e.scalar_result(ir::OpCode::eq, pred.dtype, ir::DType::Bool, {which, k}, eq)
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
      Step& s = e.emit<Kind::scalar_strip>(ScalarStrip{e.kernels().bitcast(v.dtype, to->dtype), nullptr, {}});
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
  Val d = e.materialized(e.dense(v));
  d.dtype = to->dtype;
  d.dims = dims_of(to);
  d.memory().strides = dense_strides(d.dims);
  if (d.dims.empty()) d = e.load_scalar(d);
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
