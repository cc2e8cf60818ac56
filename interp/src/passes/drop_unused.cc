// Elementwise operations without effects whose scalars nobody uses since a pass changed who does, in all regions.
#include <unordered_map>

#include "pallasim/ir/op_table.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

using ir::Op, ir::Region, ir::ValueId;
using Uses = std::unordered_map<ValueId, int>;

void count_uses(const Region& r, Uses* uses) {
  for (const Op& op : r.ops) {
    for (ValueId v : op.operands) ++(*uses)[v];
    for (const Region& inner : op.regions) count_uses(inner, uses);
  }
}

// How many. The last ones first: what they were made of may be of no use, too.
int64_t drop(const ir::Graph& g, Region& r, Uses* uses) {
  int64_t dropped = 0;
  for (size_t i = r.ops.size(); i-- > 0;) {
    Op& op = r.ops[i];
    for (Region& inner : op.regions) dropped += drop(g, inner, uses);
    const ir::OpInfo& info = ir::info(op.code);
    const bool plain = info.family == ir::Family::Elementwise && info.effects == ir::kEffectNone &&
                       op.regions.empty() && op.results.size() == 1 && g.type(op.results[0])->is_scalar();
    if (!plain || (*uses)[op.results[0]] > 0) continue;
    for (ValueId v : op.operands) --(*uses)[v];
    r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(i));
    ++dropped;
  }
  return dropped;
}

}  // namespace

int64_t drop_unused(const Target& t) {
  if (t.changed == 0) return 0;  // what the kernel itself leaves unused stays, also what runs nowhere
  Uses uses;
  count_uses(t.graph.region, &uses);
  return drop(t.graph, t.graph.region, &uses);
}

}  // namespace pallasim::interp::passes
