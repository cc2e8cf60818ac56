// Lazy values: the one invariant that lets loads be views and operations wait for their consumer.
// Whoever emits a write says so first; what would show the new bytes becomes memory before it.
#include <functional>
#include <stdexcept>

#include "affine_arrays.h"

namespace pallasim::interp {

static bool is_lazy(const Val& v) { return v.is_pending() || (v.is_strided() && v.origin() != kNoOrigin); }

std::vector<Val> Emitter::about_to_write(const analysis::WriteSet& w, std::vector<Val> operands, const Val* in_place) {
  if (w.empty()) return operands;
  for (auto& [id, live] : values_) {
    if (!is_lazy(live.val) || !shows(live.val, w) || dies_here(id)) continue;
    // Memory made here would not be there where this region did not run.
    if (live.depth < depth_) throw std::logic_error("a region writes memory that its summary does not name");
    live.val = materialized(*this, live.val);
  }
  for (Val& v : operands)
    if (!in_place || overlaps_elsewhere(v, *in_place)) v = apart_from(*this, w, v);
  return operands;
}

Val apart_from(Emitter& e, const analysis::WriteSet& w, const Val& v) {
  return e.live().shows(v, w) ? materialized(e, v) : v;
}

void Emitter::before_regions(const Op& op) {
  const std::function<void(const Region&)> settle = [&](const Region& region) {
    for (const Op& inner : region.ops) {
      for (ir::ValueId v : inner.operands)
        if (const auto it = values_.find(v); it != values_.end() && it->second.val.is_pending())
          it->second.val = strided(*this, it->second.val);
      for (const Region& r : inner.regions) settle(r);
    }
  };
  for (const Region& r : op.regions) settle(r);
  about_to_write(writes_of(op));
}

void Emitter::define(ir::ValueId id, Val v) {
  // The verifier takes results of some operations as they are written.
  if (const ir::Type* t = type(id); !t->is_ref && !v.is_ref() && (v.dtype != t->dtype || v.dims != dims_of(t)))
    unsupported(*op(), std::string(ir::name(op()->code)) + " that gives another shape or type than it says");
  preassigned_.erase(id);
  const int used = uses(id);
  if (kept_) {
    if (v.is_pending() || v.is_strided()) v = materialized(*this, v);
    return bind(id, std::move(v));
  }
  if (v.is_pending() && ((used > 1 && !state<AffineArrays>().wanted(id)) || !plan_.options.fuse)) v = strided(*this, v);
  if (used == 0 && v.is_pending()) return;
  bind(id, std::move(v));
}

}  // namespace pallasim::interp
