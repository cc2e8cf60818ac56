// Which threads a launch has.
#pragma once
#include "../ops/execution.h"

namespace pallasim::interp {

// Together, but for grids whose points are programs (where the machine has no order of them, and they communicate or an
// order is asked for) and clusters of thread blocks: of those as many at a time as the chip holds.
Population population_of(const Plan&, const Options&, const std::vector<int64_t>& grid);

}  // namespace pallasim::interp
