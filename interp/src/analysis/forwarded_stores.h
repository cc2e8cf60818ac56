// Memory that is stored to for copies alone.
#pragma once
#include <unordered_map>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Of a ref: every store to it with the copy out of the same part that follows it in its region, with nothing between
// them that has to do with the ref. Empty where something else uses the ref, waits for copies excepted.
std::unordered_map<const ir::Op*, const ir::Op*> forwarded_stores(const ir::Graph&, const ir::Region&, ir::ValueId ref);

}  // namespace pallasim::interp::analysis
