// Memory whose bytes may stay where copies brought them from (memory::Landing).
#pragma once
#include "../plan/payload/copies.h"
#include "emitter.h"

namespace pallasim::interp {

// The allocation that was noted last is memory of that kind, where its ref, which `region` knows by its origin, is used
// as that needs. True: what is emitted for its begin is `begin_landing`.
bool land(Emitter&, const ir::Region&, const Val& ref);
void begin_landing(Emitter&, const Val& ref);

int32_t landing_of(Emitter&, const Val& ref);  // memory::Allocation::landing; -1
// Of a copy between the two: what its sides say of that.
void tell_landing(Emitter&, const Val& src, const Val& dst, CopySide* from, CopySide* to);
// Before something uses the memory in another way than plain copies and loads do.
void settle_landing(Emitter&, const Val& ref);
// The part of the memory that a load shows, at the place where its bytes lie.
Val where_landed(Emitter&, Val shown);

}  // namespace pallasim::interp
