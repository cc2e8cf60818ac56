// Scalars that are computed sooner than somebody asks for them.
#pragma once
#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Products of integers that one sum of the same region uses, and nobody else, go to right before it: both become one
// step there. Of two for one sum the second operand.
void sink_products(ir::Graph&);

}  // namespace pallasim::interp::analysis
