// How much of a slice exists.
#include "existing.h"

#include "../../plan/payload/places.h"
#include "../../plan/steps.h"

namespace pallasim::interp {
namespace {

uint32_t emit(Emitter& e, ValidPayload p) {
  const uint32_t slot = e.new_slot();
  e.emit<Kind::valid_extent>(p).dst = slot;
  return slot;
}

// Of an array that ends at `extent`, or at what its slot says.
ValidPayload from(const IndexTerm* term, int64_t start, int64_t extent, uint32_t extent_slot) {
  ValidPayload p{};
  p.extent = extent;
  p.extent_slot = extent_slot;
  p.start = start;
  p.start_slot = term ? term->slot : Addr::kNoSlot;
  p.wide = term && term->wide;
  p.size_slot = Addr::kNoSlot;
  return p;
}

uint32_t known(const std::vector<uint32_t>& slots, size_t d) { return slots.empty() ? Addr::kNoSlot : slots[d]; }

}  // namespace

uint32_t valid_slot(Emitter& e, const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size,
                    uint32_t size_slot, std::optional<ValidPayload::Notes> notes, int64_t named,
                    const std::vector<uint32_t>& sizes) {
  const uint32_t partial = known(ref.ref().valid, d);
  const bool padded = term ? term->padding > 0 : !ref.ref().padding.empty() && ref.ref().padding[d] > 0;
  if (partial == Addr::kNoSlot && (!padded || (!term && start + size <= ref.dims[d]))) return Addr::kNoSlot;
  ValidPayload p = from(term, start, ref.dims[d], partial);
  p.size = size;
  p.size_slot = size_slot;
  if (notes && term) {
    p.notes = *notes, p.noted = *term, p.sizes = sizes;
    p.noted.padding = named;
    p.ref = ref.memory().name, p.shape = ref.dims;
  }
  return emit(e, std::move(p));
}

// As many as exist of an array that ends where the other one begins.
uint32_t before_slot(Emitter& e, const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size) {
  const uint32_t partial = known(ref.ref().before, d);
  if (partial == Addr::kNoSlot && !term) return Addr::kNoSlot;
  ValidPayload p = from(term, start, 0, partial);
  p.size = size;
  return emit(e, p);
}

uint32_t behind_start(Emitter& e, uint32_t before) {
  ValidPayload p = from(nullptr, 0, 1, Addr::kNoSlot);
  p.start_slot = before;
  p.wide = true;
  p.size = 1;
  return emit(e, p);
}

}  // namespace pallasim::interp
