#include "emitter.h"

#include <algorithm>

#include "../../plan/payload/movement.h"
#include "affine_arrays.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/tiles.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

void Emitter::end_op(const Op& op, const Op* outer) {
  learn_affine_array(op);
  now_ = outer;
  for (const Region& r : op.regions) forget(r);
  end_of(op);
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
    it->second.val = strided(*this, it->second.val);
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
