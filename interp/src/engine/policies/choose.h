// What policies share.
#pragma once
#include "pallasim/interp/policy.h"

namespace pallasim::interp::policies {

// The thread itself while it can go on and does not poll in vain, else the next one by number, the first behind the
// last; where none of them can, the oldest operation. kNone: nothing can go on.
size_t run_on(const Choices&, int32_t thread);
// The position of a choice; kNone where it is none.
size_t find(const Choices&, const Choice&);

}  // namespace pallasim::interp::policies
