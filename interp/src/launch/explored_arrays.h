// Outputs of outcomes, one against the other.
#pragma once
#include <optional>

#include "pallasim/interp/explore.h"

namespace pallasim::interp {

// Says of each outcome where its outputs differ from the first one's that ended.
void compare_outputs(std::vector<ExploredOutcome>*);
// The largest difference of two numbers where all are alike within the tolerance (ExploreOptions); none: some are not.
std::optional<double> largest_difference(const std::vector<ExploredArray>&, const std::vector<ExploredArray>&,
                                         double tolerance);

}  // namespace pallasim::interp
