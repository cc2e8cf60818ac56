// Semaphores, as operations name them.
#pragma once
#include "../../plan/payload/copies.h"
#include "lowering.h"

namespace pallasim::interp {

SemPayload semaphore_of(Emitter&, const Op&, const Val&);

}  // namespace pallasim::interp
