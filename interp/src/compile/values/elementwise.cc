// Elementwise tensor operations: expression trees become strip programs over collapsed loops.
#include <algorithm>
#include <array>

#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../../plan/steps.h"
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
    op.code = n.op;
    op.arity = static_cast<uint8_t>(n.args.size());
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
      a = strided(e, a);
    else if (a.is_pending()) count(Rewrite::FusedChain);
    if (a.is_pending()) n->size += a.node()->size;
  }
  n->args = std::move(args);
  return {result, std::move(dims), std::move(n)};
}

Val convert_value(Emitter& e, const Val& v, ir::DType to, ir::ValueId defines) {
  if (v.dtype == to) return v;
  if (v.is_uniform()) { return scalar_convert(e, v, to, defines).spread(v.dims); }
  StripParams params;
  params.semantics = e.semantics();
  params.dtype = to;
  Val r = node(e, ir::OpCode::convert, v.dtype, to, {v}, v.dims, params);
  r.node()->kind = Node::Kind::Convert;
  return r;
}

Val elementwise_value(Emitter& e, ir::OpCode code, ir::DType operand_dtype, const ir::Type& result,
                      std::vector<Val> args, const StripParams& params, ir::ValueId defines) {
  const bool uniform = std::all_of(args.begin(), args.end(), [](const Val& v) { return v.is_uniform(); });
  if (!result.is_scalar() && !uniform)
    return node(e, code, operand_dtype, result.dtype, std::move(args), dims_of(&result), params);
  for (Val& v : args) {
    if (!v.is_uniform()) v = load_scalar(e, strided(e, v));
    v = v.spread({});
  }
  const Val r = scalar_result(e, code, operand_dtype, result.dtype, args, params, defines);
  return result.is_scalar() ? r : r.spread(dims_of(&result));
}

}  // namespace pallasim::interp
