// Scalars that are others by a second name: what barriers of the optimiser, reshapes and conversions give that change
// nothing. Who used them uses the first name.
#include <unordered_map>

#include "pallasim/interp/rewrites.h"
#include "pallasim/ir/equal.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

bool may_change_nothing(OpCode code) {
  switch (code) {
    case OpCode::optimization_barrier:
    case OpCode::stop_gradient:
    case OpCode::reshape:
    case OpCode::broadcast_in_dim:
    case OpCode::convert: return true;
    default: return false;
  }
}

bool is_second_name(const ir::Graph& g, const Op& op) {
  if (!may_change_nothing(op.code) || op.operands.size() != op.results.size()) return false;
  for (size_t i = 0; i < op.results.size(); ++i)
    if (const ir::Type* t = g.type(op.results[i]);
        t->is_ref || !t->is_scalar() || !ir::equal(t, g.type(op.operands[i])))
      return false;
  return true;
}

int64_t forward(const ir::Graph& g, Region& r, std::unordered_map<ValueId, ValueId>* first) {
  int64_t forwarded = 0;
  std::erase_if(r.ops, [&](Op& op) {
    for (ValueId& v : op.operands)
      if (const auto it = first->find(v); it != first->end()) v = it->second;
    for (Region& inner : op.regions) forwarded += forward(g, inner, first);
    if (!is_second_name(g, op)) return false;
    for (size_t i = 0; i < op.results.size(); ++i) (*first)[op.results[i]] = op.operands[i];
    return ++forwarded, true;
  });
  return forwarded;
}

}  // namespace

int64_t forward_same(const Target& t) {
  std::unordered_map<ValueId, ValueId> first;
  const int64_t forwarded = forward(t.graph, t.graph.region, &first);
  count(Rewrite::SecondName, forwarded);
  return forwarded;
}

}  // namespace pallasim::interp::passes
