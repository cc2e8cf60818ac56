// Whether steps touch what their footprints say, and nothing else.
#pragma once
#include "../ops/execution.h"

namespace pallasim::interp {

// Runs one step, Options::verify_footprints. Of a step whose row says Footprint::Static: throws PS-BUG-004 where a byte
// of the thread's memory changed that no box of it writes, or where the bytes that it writes become others once the
// bytes that no box of it reads are scrambled. It then runs twice; what it leaves is what it left the first time.
const Step* run_judged(Thread&, const Step*);

}  // namespace pallasim::interp
