// Barriers, as operations name them.
#pragma once
#include "../../plan/waiting.h"
#include "lowering.h"

namespace pallasim::interp {

// The barrier of the attribute `barrier`, with one arrival and what `count`, `expects` and `brings` say.
BarrierPayload barrier_of(Emitter&, const Op&);

}  // namespace pallasim::interp
