#include "live_values.h"

#include <algorithm>

#include "../../analysis/refs.h"

namespace pallasim::interp {
namespace {

bool reads_slot(const Val& v, uint32_t slot) {
  const auto in = [&](const std::vector<uint32_t>& slots) {
    return std::find(slots.begin(), slots.end(), slot) != slots.end();
  };
  const auto in_all = [&](const std::vector<Val>& vals) {
    return std::any_of(vals.begin(), vals.end(), [&](const Val& x) { return reads_slot(x, slot); });
  };
  switch (v.kind()) {
    case Val::Kind::Scalar:
    case Val::Kind::Splat: return v.scalar().slot == slot;
    case Val::Kind::Pending: return in_all(v.node()->args);
    case Val::Kind::Strided: return v.memory().addr.dyn == slot;
    case Val::Kind::Ref:
      return v.memory().addr.dyn == slot || in(v.ref().extents) || in(v.ref().valid) || in(v.ref().before) ||
             in(v.ref().gates) || (v.ref().choice && (v.ref().choice->slot == slot || in_all(v.ref().choice->refs))) ||
             (v.ref().through && reads_slot(v.ref().through->base, slot));
    default: return false;
  }
}

template <typename F>
void for_each_use(const ir::Op& op, const F& f) {
  for (ir::ValueId v : op.operands) f(v);
  for (const ir::Region& r : op.regions)
    for (const ir::Op& o : r.ops) for_each_use(o, f);
}

}  // namespace

const Val* LiveValues::find(ir::ValueId v) const {
  const auto it = values_.find(v);
  return it == values_.end() ? nullptr : &it->second.val;
}

int LiveValues::uses(ir::ValueId v) const {
  const auto it = uses_.find(v);
  return it == uses_.end() ? 0 : it->second;
}

const Op* LiveValues::only_user(ir::ValueId v) const {
  const auto it = only_users_.find(v);
  return it == only_users_.end() ? nullptr : it->second;
}

void LiveValues::set_graph(const ir::Graph& graph) {
  if (graph_ == &graph) return;
  graph_ = &graph;
  next_origin_ = std::max(next_origin_, static_cast<int>(graph.types.size()));
  writes_ = std::make_unique<analysis::Writes>(graph);
  uses_.clear(), dies_.clear(), only_users_.clear();
  compute_last_uses(graph.region);
}

// For every value: how often it is used, and after which operation of its own region it is dead.
void LiveValues::compute_last_uses(const Region& region) {
  std::unordered_map<ir::ValueId, const Op*> last;
  for (const Op& op : region.ops) {
    for_each_use(op, [&](ir::ValueId v) { last[v] = &op; });
    for (ir::ValueId v : op.operands) ++uses_[v];
    for (const Region& r : op.regions) compute_last_uses(r);
  }
  for (const Op& op : region.ops)
    for (ir::ValueId v : op.results) {
      auto it = last.find(v);
      dies_[it == last.end() ? &op : it->second].push_back(v);
    }
  const Op* user = nullptr;
  for (size_t i = region.ops.size(); i-- > 0;) {
    const Op& op = region.ops[i];
    for (ir::ValueId v : op.results)
      if (user && uses(v) == 1 && std::count(user->operands.begin(), user->operands.end(), v)) only_users_[v] = user;
    if (op.code != OpCode::constant) user = &op;  // constants are no steps
  }
}

Val LiveValues::take(ir::ValueId v) {
  const auto it = values_.find(v);
  Val r = std::move(it->second.val);
  values_.erase(it);
  return r;
}

void LiveValues::forget(const Region& region) {
  if (kept_) kept_->end(region);
  for (ir::ValueId a : region.args) values_.erase(a);
  for (const Op& op : region.ops)
    for (ir::ValueId v : op.results) values_.erase(v);
}

bool LiveValues::dropped(const Op& op) const {
  return op.code == OpCode::add && uses_.contains(op.results[0]) && uses(op.results[0]) == 0;
}

void LiveValues::end_of(const Op& op) {
  if (const auto it = dies_.find(&op); it != dies_.end())
    for (ir::ValueId v : it->second) {
      if (kept_) kept_->unused(v);
      values_.erase(v);
    }
}

void LiveValues::add_alias(int a, int b) { aliases_.insert({std::min(a, b), std::max(a, b)}); }

const analysis::WriteSet& everything() {
  static const analysis::WriteSet all{true, {}};
  return all;
}

analysis::WriteSet LiveValues::written(const Val& ref) const {
  analysis::WriteSet w;
  if (ref.origin() != kNoOrigin) w.add(ref.origin());
  if (ref.is_choice())
    for (const Val& r : ref.ref().choice->refs) w.add(written(r));
  return w;
}

bool LiveValues::may_alias(int a, int b) const {
  if (a == kNoOrigin || b == kNoOrigin) return false;
  return a == b || aliases_.count({std::min(a, b), std::max(a, b)});
}

bool LiveValues::shows(const Val& v, const analysis::WriteSet& w) const {
  if (v.is_pending())
    return std::any_of(v.node()->args.begin(), v.node()->args.end(), [&](const Val& a) { return shows(a, w); });
  if (!v.is_strided() || v.origin() == kNoOrigin) return false;
  return w.everything ||
         std::any_of(w.origins.begin(), w.origins.end(), [&](int o) { return may_alias(v.origin(), o); });
}

bool LiveValues::overlaps(const Val& v, const Val& dst) const {
  if (v.is_strided()) return may_alias(v.origin(), dst.origin());
  return v.is_pending() &&
         std::any_of(v.node()->args.begin(), v.node()->args.end(), [&](const Val& a) { return overlaps(a, dst); });
}

bool LiveValues::overlaps_elsewhere(const Val& v, const Val& dst) const {
  if (v.is_strided()) return may_alias(v.origin(), dst.origin()) && !same_place(v, dst);
  if (!v.is_pending()) return false;
  return std::any_of(v.node()->args.begin(), v.node()->args.end(), [&](const Val& a) {
    return v.node()->elementwise() ? overlaps_elsewhere(a, dst) : overlaps(a, dst);
  });
}

// Whether the operation under compilation is the last to use the value, which its own operands stand for then.
bool LiveValues::dies_here(ir::ValueId id) const {
  if (!now_ || !now_->regions.empty()) return false;
  const auto it = dies_.find(now_);
  return it != dies_.end() && std::find(it->second.begin(), it->second.end(), id) != it->second.end();
}

bool LiveValues::slot_is_read(uint32_t slot, ir::ValueId but_for) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& entry) {
    return entry.first != but_for && !dies_here(entry.first) && reads_slot(entry.second.val, slot);
  });
}

void LiveValues::preassign_carries(const Region& body, std::span<const ir::ValueId> args,
                                   std::span<const ir::ValueId> all_next, const std::vector<Val>& carries) {
  if (kept_) return;  // both stay
  const Op& yield = body.ops.back();
  for (size_t i = 0; i < carries.size(); ++i) {
    const ir::ValueId next = all_next[i], carry = args[i];
    if (!carries[i].is_scalar() || std::count(yield.operands.begin(), yield.operands.end(), next) > 1) continue;
    const auto makes = [&](const Op& op) {
      return op.regions.empty() && op.results.size() == 1 && op.results[0] == next;
    };
    const auto def = std::find_if(body.ops.begin(), body.ops.end() - 1, makes);
    if (def == body.ops.end() - 1) continue;
    if (std::none_of(def + 1, body.ops.end(), [&](const Op& op) { return analysis::touches(op, carry); }))
      preassigned_[next] = {carries[i].scalar().slot, carry};
  }
}

}  // namespace pallasim::interp
