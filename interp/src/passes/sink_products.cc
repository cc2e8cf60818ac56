// Products of integers that one sum of the same region uses, and nobody else, go to right before it: both become one
// step there. Of two for one sum the second operand.
#include <unordered_map>
#include <utility>

#include "pallasim/ir/op_table.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

class Sinker {
 public:
  explicit Sinker(ir::Graph& graph) : graph_(graph), values_(graph.types.size()) {}

  int64_t run() {
    learn(graph_.region);
    region(graph_.region);
    return sunk_;
  }

 private:
  struct Known {
    int uses = 0, made_in = -1, summed_in = -1;  // regions
  };
  Known& of(ValueId v) { return values_[static_cast<size_t>(v)]; }

  void learn(const Region& r) {
    const int number = regions_++;
    for (const Op& op : r.ops) {
      for (const ValueId v : op.results) of(v).made_in = number;
      for (const ValueId v : op.operands) {
        ++of(v).uses;
        if (op.code == OpCode::add) of(v).summed_in = number;
      }
      for (const Region& inner : op.regions) learn(inner);
    }
  }

  bool sinks(const Op& op) {
    if (op.code != OpCode::mul) return false;
    const ir::Type* t = graph_.type(op.results[0]);
    const Known& v = of(op.results[0]);
    return t->is_scalar() && ir::is_int(t->dtype) && v.uses == 1 && v.summed_in == v.made_in;
  }

  void region(Region& r) {
    std::vector<Op> ops;
    ops.reserve(r.ops.size());
    std::unordered_map<ValueId, Op> waiting;
    for (Op& op : r.ops) {
      for (Region& inner : op.regions) region(inner);
      if (sinks(op)) {
        waiting.emplace(op.results[0], std::move(op));
        continue;
      }
      if (op.code == OpCode::add && !waiting.empty())
        for (const ValueId v : op.operands)
          if (auto product = waiting.extract(v)) ops.push_back(std::move(product.mapped())), ++sunk_;
      ops.push_back(std::move(op));
    }
    r.ops = std::move(ops);
  }

  ir::Graph& graph_;
  std::vector<Known> values_;
  int regions_ = 0;
  int64_t sunk_ = 0;
};

}  // namespace

int64_t sink_products(const Target& t) { return Sinker(t.graph).run(); }

}  // namespace pallasim::interp::passes
