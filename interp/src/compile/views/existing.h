// How much of a slice exists: what lies in padding, or outside of the array of a box, does not.
#pragma once
#include "../../plan/payload/places.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// i64 slots, kNoSlot where all of a slice of dim `d` exists: how many elements up to the end do, and how many of a box
// lie before the array. `term`: where the slice begins, else it begins at `start`. `notes`: what of it is told, unless
// one of `sizes` is 0, or no more than `named` elements lie behind the end.
uint32_t valid_slot(Emitter&, const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size,
                    uint32_t size_slot, std::optional<ValidPayload::Notes> notes, int64_t named,
                    const std::vector<uint32_t>& sizes);
uint32_t before_slot(Emitter&, const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size);
// Of one element: the slot that is 1 where the one of `before_slot` is 0.
uint32_t behind_start(Emitter&, uint32_t before);

}  // namespace pallasim::interp
