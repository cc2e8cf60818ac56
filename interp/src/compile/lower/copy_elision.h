// Memory whose bytes may stay where copies brought them from (ElidedCopies).
#pragma once
#include "../../plan/payload/copies.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// The allocation that was noted last is memory of that kind, where its ref, which `region` knows by its origin, is used
// as that needs. True: what is emitted for its begin is `begin_elision`.
bool elide_copies(Emitter&, const ir::Region&, const Val& ref);
void begin_elision(Emitter&, const Val& ref);

int32_t elidable_of(Emitter&, const Val& ref);  // memory::Allocation::elidable; -1
// Of a copy between the two: what its sides say of that.
void tell_elision(Emitter&, const Val& src, const Val& dst, CopySide* from, CopySide* to);
// Before something uses the memory in another way than plain copies and loads do.
void materialise_elided(Emitter&, const Val& ref);
// The part of the memory that a load shows, at the place where its bytes lie.
Val where_elided(Emitter&, Val shown);

}  // namespace pallasim::interp
