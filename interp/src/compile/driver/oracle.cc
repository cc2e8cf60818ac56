// Options::Numerics::Oracle: a module whose kernel body holds every float in f64 (complex in c128). Values are rounded
// to their own type where they are stored, where the kernel itself converts to a narrower type, and by operations that
// look at bits.
#include "compile.h"

namespace pallasim::interp {
namespace {

using ir::DType, ir::OpCode, ir::Op, ir::Region, ir::Type, ir::ValueId;

DType wide(DType t) { return ir::is_float(t) ? DType::F64 : ir::is_complex(t) ? DType::C128 : t; }
bool is_widened(const Type* t) { return t && !t->is_ref && wide(t->dtype) != t->dtype; }

// Operations that mean the same on f64. All others get and give their own types.
bool works_on_any_float(OpCode code) {
  switch (code) {
    case OpCode::nextafter:
    case OpCode::bitcast_convert:
    case OpCode::constant:
    case OpCode::gather:
    case OpCode::pack_elementwise:
    case OpCode::unpack_elementwise:
    case OpCode::bitcast_tpu:
    case OpCode::stochastic_round:
    case OpCode::conj: return false;
    case OpCode::yield:
    case OpCode::cond:
    case OpCode::while_:
    case OpCode::for_:
    case OpCode::parallel_loop:
    case OpCode::run_scoped:
    case OpCode::call:
    case OpCode::multiple_of:
    case OpCode::max_contiguous:
    case OpCode::optimization_barrier:
    case OpCode::layout_cast:
    case OpCode::memory_space_constraint: return true;
    default: {
      const ir::Family f = ir::info(code).family;
      return f == ir::Family::Elementwise || f == ir::Family::Shape || f == ir::Family::Reduction;
    }
  }
}

class Widener {
 public:
  Widener(ir::Module& m, ir::Graph& g) : m_(m), g_(g), own_(g.types) {}

  void run() { region(g_.region); }

 private:
  const Type* widened(const Type* t) { return is_widened(t) ? m_.types->tensor(wide(t->dtype), t->dims) : t; }
  const Type* own(ValueId v) const { return own_[static_cast<size_t>(v)]; }
  void widen(ValueId v) { g_.types[static_cast<size_t>(v)] = widened(own(v)); }

  // A value of the kernel's own type.
  ValueId fresh(const Type* t) {
    g_.types.push_back(t);
    own_.push_back(t);
    g_.names.emplace_back();
    return static_cast<ValueId>(g_.types.size()) - 1;
  }
  // to = convert from
  static Op convert(ValueId from, ValueId to, ir::LocId loc) {
    Op op;
    op.code = OpCode::convert;
    op.loc = loc;
    op.operands = {from};
    op.results = {to};
    return op;
  }

  void region(Region& r) {
    for (ValueId a : r.args) widen(a);
    std::vector<Op> ops;
    for (Op& op : r.ops) operation(std::move(op), &ops);
    r.ops = std::move(ops);
  }

  void operation(Op op, std::vector<Op>* out) {
    for (Region& r : op.regions) region(r);
    if (op.code == OpCode::convert) return conversion(std::move(op), out);
    if (works_on_any_float(op.code)) {
      for (ValueId v : op.results) widen(v);
      out->push_back(std::move(op));
      return;
    }
    for (ValueId& v : op.operands) {
      if (!is_widened(own(v))) continue;
      const ValueId narrow = fresh(own(v));
      out->push_back(convert(v, narrow, op.loc));
      v = narrow;
    }
    std::vector<Op> after;
    for (ValueId& v : op.results) {
      if (!is_widened(own(v))) continue;
      const ValueId narrow = fresh(own(v));
      widen(v);
      after.push_back(convert(narrow, v, op.loc));
      v = narrow;
    }
    out->push_back(std::move(op));
    for (Op& a : after) out->push_back(std::move(a));
  }

  // The kernel's own conversion rounds where the result's format holds less; else the value stays as it is.
  void conversion(Op op, std::vector<Op>* out) {
    const ValueId to = op.results[0];
    const DType from = own(op.operands[0])->dtype, result = own(to)->dtype;
    const bool floats = (ir::is_float(from) || ir::is_complex(from)) && is_widened(own(to));
    const int width = ir::bit_width(result) / (ir::is_complex(result) ? 2 : 1),
              had = ir::bit_width(from) / (ir::is_complex(from) ? 2 : 1);
    const ir::LocId loc = op.loc;
    widen(to);
    if (floats && from != result && width <= had && !(ir::is_complex(result) != ir::is_complex(from) && width == had)) {
      const ValueId rounded = fresh(own(to));
      op.results[0] = rounded;
      out->push_back(std::move(op));
      out->push_back(convert(rounded, to, loc));
      return;
    }
    out->push_back(std::move(op));
  }

  ir::Module& m_;
  ir::Graph& g_;
  std::vector<const Type*> own_;  // the types of the kernel
};

}  // namespace

ir::Module widened(const ir::Module& module) {
  const std::string text = ir::print(module);  // a module is copied, and its values are numbered, through its text
  ir::Module m = ir::parse(text);
  for (ir::Body& b : m.bodies) Widener(m, b.graph).run();
  m = ir::parse(ir::print(m));
  ir::verify(m);
  return m;
}

}  // namespace pallasim::interp
