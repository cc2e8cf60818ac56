// Semaphores and other units, as operations name them.
#pragma once
#include "../../plan/payload/copies.h"
#include "lowering.h"

namespace pallasim::interp {

SemPayload semaphore_of(Emitter&, const Op&, const Val&);
// The unit that attributes device_id and core_index name.
Peer peer(Emitter&, const Op&);

}  // namespace pallasim::interp
