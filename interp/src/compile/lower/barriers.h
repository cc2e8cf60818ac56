// Barriers, as operations name them.
#pragma once
#include "../../plan/payload/barriers.h"
#include "lowering.h"

namespace pallasim::interp {

// The block of a ref to barriers; `facts`: what its type does not say, {num_arrivals = 2}.
int add_barrier(Emitter&, const Val&, const ir::Type&, const Attr* facts);

// The barrier of the attribute `barrier`, with one arrival and what `count`, `expects` and `brings` say.
BarrierPayload barrier_of(Emitter&, const Op&);

}  // namespace pallasim::interp
