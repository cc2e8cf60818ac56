// Programs (clusters of thread blocks) and cores of a mesh on several OS threads: those that share nothing but the
// arrays of the launch, as long as no two of them turn out to touch the same bytes there. Nothing is proven before: who
// meets begins anew, in order.
#pragma once
#include "session.h"

namespace pallasim::interp {

// The programs or threads of the call, in parts. False, with outputs as they were before: parts met, or one of
// them has something to say (an error, a finding, a print), for which the order matters. Then, or where such a run does
// not come into question, nothing of `report` has changed. Throws what is not the kernel's doing.
bool run_speculatively(const Call&, int workers, Report*);

}  // namespace pallasim::interp
