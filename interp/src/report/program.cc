#include "program.h"

#include <algorithm>

#include "../analysis/writes.h"

namespace pallasim::interp {
namespace {

void collect(const analysis::Writes& writes, const ir::Region& region, ir::ValueId ref, ir::LocId condition,
             std::vector<StoreSite>* out) {
  for (const ir::Op& op : region.ops) {
    for (const ir::Region& r : op.regions)
      collect(writes, r, ref, op.code == ir::OpCode::cond ? op.loc : condition, out);
    const std::vector<ir::ValueId>& origins = writes.of(op).origins;
    if (op.regions.empty() && std::binary_search(origins.begin(), origins.end(), ref))
      out->push_back({op.loc, condition});
  }
}

}  // namespace

std::vector<StoreSite> stores_to(const Plan& p, size_t operand) {
  std::vector<StoreSite> r;
  for (const ir::Body& b : p.module.bodies) {
    const ir::Region& region = b.graph.region;
    if (operand >= region.args.size()) continue;
    collect(analysis::Writes(b.graph), region, region.args[operand], -1, &r);
  }
  return r;
}

std::vector<StoreSite> stores_to(const Plan& p, const std::string& scratch) {
  std::vector<StoreSite> r;
  for (const ir::Body& b : p.module.bodies)
    for (ir::ValueId arg : b.graph.region.args)
      if (!scratch.empty() && b.graph.names[static_cast<size_t>(arg)] == scratch)
        collect(analysis::Writes(b.graph), b.graph.region, arg, -1, &r);
  return r;
}

}  // namespace pallasim::interp
