#include "branches.h"

#include <unordered_map>

#include "unused.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::ValueId;

bool is_truth(const ir::Type* t) { return !t->is_ref && t->is_scalar() && t->dtype == ir::DType::Bool; }

// `truths`: an integer -> the truth value that it is.
int replace(const ir::Graph& g, ir::Region& r, std::unordered_map<ValueId, ValueId>* truths) {
  int replaced = 0;
  for (Op& op : r.ops) {
    if (op.code == OpCode::convert && is_truth(g.type(op.operands[0])) && ir::is_int(g.type(op.results[0])->dtype))
      (*truths)[op.results[0]] = op.operands[0];
    if (op.code == OpCode::cond && op.regions.size() == 2)
      if (const auto it = truths->find(op.operands[0]); it != truths->end()) op.operands[0] = it->second, ++replaced;
    for (ir::Region& inner : op.regions) replaced += replace(g, inner, truths);
  }
  return replaced;
}

}  // namespace

int branch_on_truths(ir::Graph& graph) {
  std::unordered_map<ValueId, ValueId> truths;
  const int replaced = replace(graph, graph.region, &truths);
  if (replaced > 0) drop_unused_scalars(graph);
  return replaced;
}

}  // namespace pallasim::interp::analysis
