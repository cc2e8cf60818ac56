// Whose threads the bodies of a launch are: the units of a device, before anything is emitted.
#pragma once
#include "../../plan/plan.h"

namespace pallasim::interp {

// Sets PlanThreads::units and the place of each body among them. The scalar and vector subcores of one SparseCore are
// its threads, the scalar one first; other meshes lie side by side.
void place_threads(Plan&);
// Cores that share the grid of a plan without meshes along PlanThreads::core_axis.
void place_cores(Plan&, int cores);

}  // namespace pallasim::interp
