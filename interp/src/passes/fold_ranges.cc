// Comparisons that the ranges of numbers answer become constants, and choices by them what is chosen.
#include "../analysis/expressions.h"
#include "pallasim/interp/rewrites.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

using analysis::Expressions, ir::Op, ir::OpCode, ir::Region, ir::ValueId;

class Folder {
 public:
  Folder(ir::Graph& graph, std::span<const ir::GridAxis> grid) : graph_(graph), values_(graph, grid) {}

  int run() {
    region(graph_.region);
    return replaced_;
  }

 private:
  void region(Region& r) {
    std::vector<Op> kept;
    kept.reserve(r.ops.size());
    for (Op& op : r.ops) {
      for (ValueId& v : op.operands)
        if (const auto it = instead_.find(v); it != instead_.end()) v = it->second;
      for (Region& inner : op.regions) region(inner);
      if (op.regions.empty() && op.results.size() == 1 && gone(op)) continue;
      kept.push_back(std::move(op));
    }
    r.ops = std::move(kept);
  }

  // True: somebody else is used instead of the result.
  bool gone(Op& op) {
    const ValueId out = op.results[0];
    if (op.code == OpCode::select_n && op.operands.size() == 3) {
      if (const std::optional<bool> p = values_.truth(op.operands[0])) {
        instead_[out] = op.operands[*p ? 2 : 1];
        return ++replaced_, true;
      }
    }
    const std::optional<bool> v = values_.truth(out);
    if (v && op.code != OpCode::constant && graph_.type(out)->is_scalar()) become(op, *v);
    return false;
  }
  void become(Op& op, bool value) {
    op.code = OpCode::constant;
    op.operands.clear();
    op.attrs = {{"value", ir::Attr::bits(ir::DType::Bool, value)}};
    ++replaced_;
  }

  ir::Graph& graph_;
  const Expressions values_;
  std::unordered_map<ValueId, ValueId> instead_;
  int replaced_ = 0;
};

}  // namespace

int64_t fold_ranges(const Target& t) {
  const int folded = Folder(t.graph, t.grid).run();
  count(Rewrite::KnownAnswer, folded);
  return folded;
}

}  // namespace pallasim::interp::passes
