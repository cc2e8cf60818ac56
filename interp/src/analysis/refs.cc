#include "refs.h"

#include <algorithm>

#include "expressions.h"

namespace pallasim::interp::analysis {

bool touches(const ir::Op& op, ir::ValueId ref) {
  return std::find(op.operands.begin(), op.operands.end(), ref) != op.operands.end() ||
         std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) { return touches(r, ref); });
}

bool touches(const ir::Region& r, ir::ValueId ref) {
  return std::any_of(r.ops.begin(), r.ops.end(), [&](const ir::Op& o) { return touches(o, ref); });
}

namespace {

bool op_may_write(const ir::Region& region, const ir::Op& op, ir::ValueId ref) {
  if (op.code == ir::OpCode::dma_wait || std::find(op.operands.begin(), op.operands.end(), ref) == op.operands.end())
    return false;
  if (op.code == ir::OpCode::view || op.code == ir::OpCode::select_ref) return may_write(region, op.results[0]);
  // A copy writes to its destination alone.
  if (const ir::Viewed* dst = op.viewed("dst"); dst && op.viewed("src"))
    return op.operands[static_cast<size_t>(dst->operand)] == ref;
  // The region knows the ref by another name.
  if (!op.regions.empty()) return true;
  return (ir::info(op.code).effects & (ir::kEffectWrite | ir::kEffectAtomic)) != 0;
}

}  // namespace

bool may_write(const ir::Region& region, ir::ValueId ref) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& op) {
    return op_may_write(region, op, ref) ||
           std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) { return may_write(r, ref); });
  });
}

bool writes_by_name(const ir::Region& region, ir::ValueId ref) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& op) {
    return (op.regions.empty() && op_may_write(region, op, ref)) ||
           std::any_of(op.regions.begin(), op.regions.end(),
                       [&](const ir::Region& r) { return writes_by_name(r, ref); });
  });
}

bool touched_always(const ir::Region& region, ir::ValueId ref) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& op) {
    if (std::find(op.operands.begin(), op.operands.end(), ref) != op.operands.end()) return true;
    return op.code != ir::OpCode::cond && std::any_of(op.regions.begin(), op.regions.end(),
                                                      [&](const ir::Region& r) { return touched_always(r, ref); });
  });
}

bool full_store_first(const ir::Region& region, ir::ValueId ref, const Expressions* values, std::vector<int>* axes) {
  for (const ir::Op& op : region.ops) {
    if (!touches(op, ref)) continue;
    if (op.code == ir::OpCode::store && op.operands[0] == ref && op.operands[1] != ref) { return op.view().empty(); }
    const bool direct = std::find(op.operands.begin(), op.operands.end(), ref) != op.operands.end();
    if (direct) return false;
    if (op.code == ir::OpCode::cond && op.regions.size() == 2 && values && !touches(op.regions[0], ref)) {
      const auto zero = zero_axes(*values, op.operands[0]);
      if (!zero || !full_store_first(op.regions[1], ref)) return false;
      axes->insert(axes->end(), zero->begin(), zero->end());
      return true;
    }
    return op.code == ir::OpCode::run_scoped && full_store_first(op.regions[0], ref);
  }
  return false;
}

uint16_t effects_of(const ir::Region& r) {
  uint16_t effects = 0;
  for (const ir::Op& op : r.ops) {
    effects |= ir::info(op.code).effects;
    for (const ir::Region& inner : op.regions) effects |= effects_of(inner);
  }
  return effects;
}

}  // namespace pallasim::interp::analysis
