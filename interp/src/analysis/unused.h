// Scalars that a rewrite left without a use.
#pragma once
#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Elementwise operations without effects, in all regions.
void drop_unused_scalars(ir::Graph&);

}  // namespace pallasim::interp::analysis
