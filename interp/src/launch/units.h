// Parts of a grid that are independent of each other, as far as PlanSplit::axes says.
#pragma once
#include <vector>

#include "../ops/execution.h"

namespace pallasim::interp {

// Halves boxes along the longest splittable axis until there are `wanted` of them, or nothing is left to halve.
std::vector<GridBox> split_grid(const Plan&, const std::vector<int64_t>& grid, size_t wanted);
// The smallest parts, in the order of their first grid points; one where nothing may be split.
std::vector<GridBox> units_of(const Plan&, const std::vector<int64_t>& grid);

}  // namespace pallasim::interp
