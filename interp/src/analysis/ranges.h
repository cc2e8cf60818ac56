// What is known of scalars before a run: between which numbers they lie.
#pragma once
#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Comparisons of i32 scalars that have one answer, whatever the arguments (JAX's `%` and `//` ask for signs of indices,
// which are not negative), become constants; selections by such an answer, and scalars that nobody uses then, go.
// Returns how many operations were replaced.
int fold_by_ranges(ir::Graph&);

}  // namespace pallasim::interp::analysis
