// Memory that copies alone write and loads alone read. What comes from an array that nobody writes stays there until
// somebody needs it here; what nobody wrote is poison as soon as somebody looks.
#include "../plan/payload/tensor.h"
#include "elided_copies.h"

#include <algorithm>

#include "../plan/kinds.h"
#include "../plan/payload/bulk.h"
#include "../plan/payload/copies.h"
#include "../plan/payload/rows.h"
#include "copies.h"

namespace pallasim::interp {

const memory::Allocation& Execution::elidable_allocation(int32_t number) const {
  return plan->memory.allocations[plan->memory.elidable[static_cast<size_t>(number)]];
}

ElidedCopies& Execution::elided_copies(int32_t number, int32_t unit) {
  const auto owner = static_cast<size_t>(units.unit_of(elidable_allocation(number).owner, unit));
  return elided[owner * plan->memory.elidable.size() + static_cast<size_t>(number)];
}

std::byte* Execution::elidable_memory(int32_t number, const Thread& t) const {
  const memory::Allocation& of = elidable_allocation(number);
  return t.bases[of.buffer] + of.offset;
}

void Execution::materialise(int32_t number, const Thread& t) {
  const memory::Allocation& of = elidable_allocation(number);
  std::byte* const own = elidable_memory(number, t);
  const int64_t size = ir::byte_size(of.dtype);
  elided_copies(number, t.unit)
      .materialise(
          own, of.bytes, [&](const ElidedCopies::Source& s) { return operand(s.device, s.buffer) + s.offset; },
          [&](int64_t begin, int64_t end) {
            poison(own + begin, (end - begin) / size, of.dtype, options->uninitialized);
          });
}

namespace ops {
const Transfer* transfer_of(const Step& s) {
  switch (s.kind) {
    case Kind::dma_start: return &payload<Kind::dma_start>(s);
    case Kind::row_copy: return &payload<Kind::row_copy>(s);
    case Kind::bulk_load: return &payload<Kind::bulk_load>(s);
    case Kind::bulk_store: return &payload<Kind::bulk_store>(s);
    case Kind::tmem_copy: return &payload<Kind::tmem_copy>(s);
    default: return nullptr;
  }
}

bool elides(Execution& ex, const memory::AsyncOperation& op, const memory::Side& to, int32_t elidable,
            bool from_constant) {
  if (to.empty()) return false;
  const memory::Side& from = op.reads.front();
  const auto thread = [&](const memory::Side& s) -> const Thread& {
    return ex.threads[static_cast<size_t>(ex.thread_of(s.place))];
  };
  const int64_t size = to.element_bytes(), bytes = dense_bytes(to.dims, to.strides, to.rank, size),
                at = to.place.offset - ex.elidable_allocation(elidable).offset;
  if (bytes > 0 && op.combine == memory::Combine::Replace) {
    ElidedCopies& copies = ex.elided_copies(elidable, thread(to).unit);
    const bool there = from_constant && !copies.gathers() && ex.elides_copies && op.rest == memory::Rest::None &&
                       dense_bytes(to.dims, from.strides, from.rank, size) == bytes;
    std::optional<ElidedCopies::Source> source;
    if (there) source = {ex.device_of(thread(from)), from.place.buffer, from.place.offset};
    if (copies.arrive(at, at + bytes, source)) return there;
  }
  ex.materialise(elidable, thread(to));
  return false;
}

void arrives_there(Execution& ex, const memory::Side& to, int32_t elidable) {
  if (elidable >= 0) ex.materialise(elidable, ex.threads[static_cast<size_t>(ex.thread_of(to.place))]);
}

const Step* elision_begin(Thread& t, const Step* s) {
  t.exec->elided_copies(payload<Kind::elision_begin>(s).elidable, t.unit).clear();
  return s + 1;
}

const Step* elision_materialise(Thread& t, const Step* s) {
  t.exec->materialise(payload<Kind::elision_materialise>(s).elidable, t);
  return s + 1;
}

const Step* elision_find(Thread& t, const Step* s) {
  const ElisionPayload& p = payload<Kind::elision_find>(s);
  Execution& ex = *t.exec;
  const int64_t at = t.resolve(p.addr) - ex.elidable_memory(p.elidable, t);
  const ElidedCopies::Found found = ex.elided_copies(p.elidable, t.unit).find(at + p.begin, at + p.end);
  if (!found.whole) ex.materialise(p.elidable, t);
  if (found.from) {
    ex.set_alias(t, p.alias, BufferAlias::of_operand(found.from->device, found.from->buffer));
    t.slot<int64_t>(s->dst) = found.from->offset - p.begin - p.addr.offset;
  } else {
    ex.set_alias(t, p.alias, {t.index, p.addr.buffer});
    t.slot<int64_t>(s->dst) = p.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.addr.dyn);
  }
  return s + 1;
}

}  // namespace ops
}  // namespace pallasim::interp
