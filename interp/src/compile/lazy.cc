// Lazy values: the one invariant that lets loads be views and operations wait for their consumer (DESIGN section 3).
// Whoever emits a write says so first; what would show the new bytes becomes memory before it.
#include <algorithm>
#include <stdexcept>

#include "../analysis/refs.h"
#include "../plan/steps.h"
#include "emitter.h"

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
      return v.memory().addr.dyn == slot || in(v.ref().extents) || in(v.ref().valid) || in(v.ref().before) || in(v.ref().gates) ||
             (v.ref().choice && (v.ref().choice->slot == slot || in_all(v.ref().choice->refs))) ||
             (v.ref().through && reads_slot(v.ref().through->base, slot));
    default: return false;
  }
}

bool is_lazy(const Val& v) { return v.is_pending() || (v.is_strided() && v.origin() != kNoOrigin); }

}  // namespace

const analysis::WriteSet& Emitter::everything() {
  static const analysis::WriteSet all{true, {}};
  return all;
}

analysis::WriteSet Emitter::written(const Val& ref) const {
  analysis::WriteSet w;
  if (ref.origin() != kNoOrigin) w.add(ref.origin());
  if (ref.is_choice())
    for (const Val& r : ref.ref().choice->refs) w.add(written(r));
  return w;
}

bool Emitter::may_alias(int a, int b) const {
  if (a == kNoOrigin || b == kNoOrigin) return false;
  return a == b || aliases_.count({std::min(a, b), std::max(a, b)});
}

bool Emitter::shows(const Val& v, const analysis::WriteSet& w) const {
  if (v.is_pending())
    return std::any_of(v.node()->args.begin(), v.node()->args.end(), [&](const Val& a) { return shows(a, w); });
  if (!v.is_strided() || v.origin() == kNoOrigin) return false;
  return w.everything ||
         std::any_of(w.origins.begin(), w.origins.end(), [&](int o) { return may_alias(v.origin(), o); });
}

// Whether evaluating `v` element by element into `dst` may read an element of dst's memory after it was written.
bool Emitter::overlaps_elsewhere(const Val& v, const Val& dst) const {
  if (v.is_strided()) return may_alias(v.origin(), dst.origin()) && !same_place(v, dst);
  if (!v.is_pending()) return false;
  const bool whole = v.node()->kind == Node::Kind::Contraction;  // reads all of its operands for every element
  return std::any_of(v.node()->args.begin(), v.node()->args.end(), [&](const Val& a) {
    return whole ? may_alias(a.origin(), dst.origin()) : overlaps_elsewhere(a, dst);
  });
}

// Whether the operation under compilation is the last to use the value, which its own operands stand for then.
bool Emitter::dies_here(ir::ValueId id) const {
  if (!now_.op || !now_.op->regions.empty()) return false;
  const auto it = dies_.find(now_.op);
  return it != dies_.end() && std::find(it->second.begin(), it->second.end(), id) != it->second.end();
}

std::vector<Val> Emitter::about_to_write(const analysis::WriteSet& w, std::vector<Val> operands, const Val* in_place) {
  if (w.empty()) return operands;
  for (auto& [id, live] : values_) {
    if (!is_lazy(live.val) || !shows(live.val, w) || dies_here(id)) continue;
    // Memory made here would not be there where this region did not run.
    if (live.depth < depth_) throw std::logic_error("a region writes memory that its summary does not name");
    live.val = materialized(live.val);
  }
  for (Val& v : operands)
    if (!in_place || overlaps_elsewhere(v, *in_place)) v = apart_from(w, v);
  return operands;
}

Val Emitter::apart_from(const analysis::WriteSet& w, const Val& v) { return shows(v, w) ? materialized(v) : v; }

void Emitter::before_regions(const Op& op) {
  const std::function<void(const Region&)> settle = [&](const Region& region) {
    for (const Op& inner : region.ops) {
      for (ir::ValueId v : inner.operands)
        if (const auto it = values_.find(v); it != values_.end() && it->second.val.is_pending())
          it->second.val = strided(it->second.val);
      for (const Region& r : inner.regions) settle(r);
    }
  };
  for (const Region& r : op.regions) settle(r);
  about_to_write(writes_->of(op));
}

bool Emitter::slot_is_read(uint32_t slot, ir::ValueId but_for) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& entry) {
    return entry.first != but_for && !dies_here(entry.first) && reads_slot(entry.second.val, slot);
  });
}

// A scalar result may be computed straight into its carry's slot where nothing looks at the old value afterwards:
// neither an operation that names the carry (seen here), nor a value that was made from it (seen when the result is
// defined).
void Emitter::preassign_carries(const Region& body, size_t first, const std::vector<Val>& carries) {
  const Op& yield = body.ops.back();
  for (size_t i = 0; i < carries.size(); ++i) {
    const ir::ValueId next = yield.operands[i], carry = body.args[first + i];
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

void Emitter::take_preassigned_slot(ir::ValueId id, Val* v) {
  const auto it = preassigned_.find(id);
  if (it == preassigned_.end()) return;
  const Preassigned to = it->second;
  preassigned_.erase(it);
  // Only a slot of this operation's own, written by its last step, can move elsewhere.
  const bool own = v->is_scalar() && !v->scalar().is_const && v->scalar().slot >= now_.first_slot &&
                   plan_.steps.size() > now_.first_step;
  if (!own || plan_.steps.back().dst != v->scalar().slot || slot_is_read(to.slot, to.carry)) return;
  plan_.steps.back().dst = v->scalar().slot = to.slot;
}

void Emitter::define(ir::ValueId id, Val v) {
  take_preassigned_slot(id, &v);
  const int uses = uses_[id];
  if (v.is_pending() && (uses > 1 || !plan_.options.fuse)) v = strided(v);
  if (uses == 0 && v.is_pending()) return;
  bind(id, std::move(v));
}

}  // namespace pallasim::interp
