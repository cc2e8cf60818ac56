// Comparisons that the ranges of numbers answer become constants, and choices by them what is chosen.
#pragma once
#include <span>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// How many; of the body of a kernel on the grid.
int fold_by_ranges(ir::Graph&, std::span<const ir::GridAxis> grid);

}  // namespace pallasim::interp::analysis
