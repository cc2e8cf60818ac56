#include "unused.h"

#include <unordered_map>

#include "pallasim/ir/op_table.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::Region, ir::ValueId;
using Uses = std::unordered_map<ValueId, int>;

void count_uses(const Region& r, Uses* uses) {
  for (const Op& op : r.ops) {
    for (ValueId v : op.operands) ++(*uses)[v];
    for (const Region& inner : op.regions) count_uses(inner, uses);
  }
}

// The last ones first: what they were made of may be of no use, too.
void drop(const ir::Graph& g, Region& r, Uses* uses) {
  for (size_t i = r.ops.size(); i-- > 0;) {
    Op& op = r.ops[i];
    for (Region& inner : op.regions) drop(g, inner, uses);
    const ir::OpInfo& info = ir::info(op.code);
    const bool plain = info.family == ir::Family::Elementwise && info.effects == ir::kEffectNone &&
                       op.regions.empty() && op.results.size() == 1 && g.type(op.results[0])->is_scalar();
    if (!plain || (*uses)[op.results[0]] > 0) continue;
    for (ValueId v : op.operands) --(*uses)[v];
    r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace

void drop_unused_scalars(ir::Graph& graph) {
  Uses uses;
  count_uses(graph.region, &uses);
  drop(graph, graph.region, &uses);
}

}  // namespace pallasim::interp::analysis
