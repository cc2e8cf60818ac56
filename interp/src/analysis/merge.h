// Scalars that are computed twice from the same values.
#pragma once
#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Scalar operations without effects that an earlier one of the same operands and attributes computed, in the same
// region or one around it, go; who used their results uses the earlier ones. Returns how many went; the numbers of
// values are no longer without gaps.
int merge_equal_scalars(ir::Graph&);

}  // namespace pallasim::interp::analysis
