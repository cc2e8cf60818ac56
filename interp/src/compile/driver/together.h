// Grid points of scalars as one point of arrays.
#pragma once
#include <optional>

#include "../../plan/plan.h"

namespace pallasim::interp {

struct Together {
  ir::Module module;  // of operands without blocks; its axis `axis` has 1 / `lanes` of the points
  int axis = 0;
  int64_t lanes = 1;
};

// A module that does what the plan's does, for `lanes` points of an axis along which they are independent at once.
// Nothing where the body has more than scalars, or an access whose place is not an affine function of the program ids
// that lies inside its array at every point: what runs together neither fails nor reports.
std::optional<Together> points_together(const Plan&);

}  // namespace pallasim::interp
