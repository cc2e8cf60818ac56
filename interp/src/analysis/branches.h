// Branches on integers that are truth values become branches on the truth values (`pl.when` converts its condition).
#pragma once
#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

int branch_on_truths(ir::Graph&);  // how many

}  // namespace pallasim::interp::analysis
