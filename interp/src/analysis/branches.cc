#include "branches.h"

#include <unordered_map>

#include "unused.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::ValueId;

class Branches {
 public:
  explicit Branches(ir::Graph& g) : graph_(g) {}
  int run() {
    region(graph_.region);
    if (replaced_ > 0) drop_unused_scalars(graph_);
    return replaced_;
  }

 private:
  bool is_truth(ValueId v) const {
    const ir::Type* t = graph_.type(v);
    return !t->is_ref && t->is_scalar() && t->dtype == ir::DType::Bool;
  }
  void region(ir::Region& r) {
    for (Op& op : r.ops) {
      if (op.code == OpCode::convert && is_truth(op.operands[0])) truths_[op.results[0]] = op.operands[0];
      const auto it = op.code == OpCode::cond && op.regions.size() == 2 ? truths_.find(op.operands[0]) : truths_.end();
      if (it != truths_.end() && ir::is_int(graph_.type(op.operands[0])->dtype)) {
        op.operands[0] = it->second;
        ++replaced_;
      }
      for (ir::Region& inner : op.regions) region(inner);
    }
  }

  ir::Graph& graph_;
  std::unordered_map<ValueId, ValueId> truths_;  // an integer -> the truth value that it is
  int replaced_ = 0;
};

}  // namespace

int branch_on_truths(ir::Graph& graph) { return Branches(graph).run(); }

}  // namespace pallasim::interp::analysis
