#include "emitter.h"

#include <algorithm>

#include "../plan/payload/movement.h"
#include "affine_arrays.h"
#include "lower/lowering.h"
#include "nans.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/tiles.h"
#include "pallasim/memory/uninitialized.h"
#include "unread.h"
#include "views.h"

namespace pallasim::interp {

// What has no operation here runs once its meaning is registered.
[[noreturn]] static void refuse_extern(const ir::Module& m, const Op& op) {
  const Attr *name = op.attr("name"), *why = op.attr("why");
  const std::string primitive = name ? name->s : "without a name";
  ir::Diagnostic("PS-UNSUP-001", "unsupported: primitive " + primitive)
      .of(m.name)
      .at(ir::site_of(m, op.loc))
      .with({why ? why->s : "operation extern on machine " + std::string(ir::name(m.machine))})
      .hinted("nothing ran; pallasim.register_lowering(\"" + primitive + "\", function) says in JAX what it does")
      .raise();
}

void Emitter::compile_region_ops(const Region& region) {
  const IndexedViews::Scope views(*this);
  for (size_t i = 0; i + 1 < region.ops.size(); ++i) {
    const Op& op = region.ops[i];
    at(op);
    const Op* const outer = now_;
    now_ = &op;
    const Lowering lower = lowering(op.code);
    if (!lower) {
      if (op.code == ir::OpCode::extern_) refuse_extern(m_, op);
      unsupported(op, std::string(ir::name(op.code)));
    }
    if (plan_.bodies.size() > 1) check_reach(*this, op);
    if (const auto& unread = state<UnreadWindows>().of; !unread.empty() && &graph() == &ir_body_.graph)
      for (ir::ValueId v : op.operands)
        if (const auto at = unread.find(v); at != unread.end()) emit<Kind::window_read>(at->second);
    NanLook look(*this, op);
    if (!dropped(op)) lower(*this, op);
    look.after_lowering();
    learn_affine_array(op);
    now_ = outer;
    for (const Region& r : op.regions) forget(r);
    end_of(op);
  }
  at(region.ops.back());
}

// Behind an operation whose result an access may use as index or mask: such a value stays an operation, whose elements
// nobody computes, where it is not also used as memory.
void Emitter::learn_affine_array(const Op& op) {
  auto& known = state<AffineArrays>();
  if (op.results.size() != 1 || !known.wanted(op.results[0])) return;
  known.learn(*this, op);
  const auto it = values_.find(op.results[0]);
  if (it == values_.end() || !it->second.val.is_pending()) return;
  if (const int used = uses(op.results[0]); used > 1 && !known.stays_pending(op.results[0], used))
    it->second.val = strided(it->second.val);
}

void emit_fill_uninitialized(Emitter& e, const Val& ref) {
  FillPayload p{};
  p.dst = ref.memory().addr;
  p.dims = {ref.elements()};
  p.strides = {1};
  p.size = ir::byte_size(ref.dtype);
  p.element = memory::uninitialized(ref.dtype, e.options().uninitialized);
  p.name = ref.memory().name.empty() ? "an allocation" : ref.memory().name;
  e.emit<Kind::fill>(std::move(p));
}

void note_allocation(Plan& plan, const Val& v, ir::Space space, memory::Level owner,
                     memory::Allocation::Lifetime lifetime) {
  plan.memory.allocations.add({v.memory().name, space, owner, lifetime, v.memory().addr.buffer, v.memory().addr.offset,
                               v.bytes(), v.dtype, v.dims});
}

void add_tile_padding(const Context& c, Val* ref, ir::Space space) {
  if (c.model().spaces[space].layout != hw::Layout::Tiles || ref->dims.empty() || ref->ref().semaphore >= 0) return;
  if (c.options().padding == Options::Padding::Nobody) return;
  std::vector<int64_t> padding = hw::tile_padding(ref->dtype, ref->dims);
  if (std::any_of(padding.begin(), padding.end(), [](int64_t n) { return n > 0; }))
    ref->ref().padding = std::move(padding);
}

}  // namespace pallasim::interp
