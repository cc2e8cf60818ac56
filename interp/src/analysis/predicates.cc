#include "predicates.h"

#include <set>

namespace pallasim::interp::analysis {

Definitions::Definitions(const ir::Region& region) {
  for (const ir::Op& op : region.ops)
    for (ir::ValueId v : op.results) ops_[v] = &op;
}

const ir::Op* Definitions::of(ir::ValueId v) const {
  const auto it = ops_.find(v);
  return it == ops_.end() ? nullptr : it->second;
}

namespace {

bool truth_or_integer(const ir::Type* t) {
  return t->is_scalar() && !t->is_ref && (t->dtype == ir::DType::Bool || ir::is_int(t->dtype));
}

bool is_zero(const ir::Graph& g, const ir::Op* op) {
  if (!op || op->code != ir::OpCode::constant || !truth_or_integer(g.type(op->results[0]))) return false;
  const ir::Attr* v = op->attr("value");
  return v && v->is(ir::Attr::Kind::Bits) && v->i == 0;
}

// The axis of `program_id == 0`, either way round; -1 for everything else.
int zero_axis(const ir::Graph& g, const Definitions& defs, const ir::Op& op) {
  const ir::Op *a = defs.of(op.operands[0]), *b = defs.of(op.operands[1]);
  if (is_zero(g, a)) std::swap(a, b);
  if (!a || a->code != ir::OpCode::program_id || !is_zero(g, b)) return -1;
  return static_cast<int>(a->attr("axis")->i);
}

}  // namespace

std::optional<std::vector<int>> zero_axes(const ir::Graph& g, const Definitions& defs, ir::ValueId pred) {
  constexpr int kMostOps = 64;  // a predicate of more operations is nobody's `when`
  std::set<int> axes;
  std::vector<ir::ValueId> open{pred};  // all of them must be true; each is a truth value: true or false, 1 or 0
  for (int seen = 0; !open.empty(); ++seen) {
    const ir::Op* op = seen < kMostOps ? defs.of(open.back()) : nullptr;
    open.pop_back();
    if (!op || op->results.size() != 1 || !truth_or_integer(g.type(op->results[0]))) return std::nullopt;
    switch (op->code) {
      case ir::OpCode::convert:  // every integer type holds 0 and 1; what is converted must be a truth value itself
        open.push_back(op->operands[0]);
        break;
      case ir::OpCode::and_: open.insert(open.end(), op->operands.begin(), op->operands.end()); break;
      case ir::OpCode::ne: {  // x != 0 is x
        const bool first = is_zero(g, defs.of(op->operands[0]));
        if (!first && !is_zero(g, defs.of(op->operands[1]))) return std::nullopt;
        open.push_back(op->operands[first ? 1 : 0]);
        break;
      }
      case ir::OpCode::eq: {
        const int axis = zero_axis(g, defs, *op);
        if (axis < 0) return std::nullopt;
        axes.insert(axis);
        break;
      }
      default: return std::nullopt;
    }
  }
  return std::vector<int>(axes.begin(), axes.end());
}

}  // namespace pallasim::interp::analysis
