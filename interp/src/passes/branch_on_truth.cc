// Branches on integers that are truth values become branches on the truth values (`pl.when` converts its condition).
#include <unordered_map>

#include "pallasim/interp/rewrites.h"
#include "passes.h"

namespace pallasim::interp::passes {
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

int64_t branch_on_truth(const Target& t) {
  std::unordered_map<ValueId, ValueId> truths;
  const int replaced = replace(t.graph, t.graph.region, &truths);
  count(Rewrite::BranchOnTruth, replaced);
  return replaced;
}

}  // namespace pallasim::interp::passes
