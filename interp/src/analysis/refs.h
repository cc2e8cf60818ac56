// What a region does to a ref, before anything is emitted.
#pragma once
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

class Expressions;

// Whether an operation of the region, or one inside it, has the value as an operand.
bool touches(const ir::Op&, ir::ValueId);
bool touches(const ir::Region&, ir::ValueId);

// Whether something in the region may write through the ref: itself, a view of it, or a region that it is handed to.
bool may_write(const ir::Region&, ir::ValueId ref);
// Whether some operation writes to the ref, or to a view of it, under its own name: not as an argument of a region.
bool writes_by_name(const ir::Region&, ir::ValueId ref);

// Whether an operation that runs under no condition has the ref as an operand.
bool touched_always(const ir::Region&, ir::ValueId ref);

// Whether the first thing that happens to `ref` in every run of `region` is a store of the whole. `axes` collects the
// axes of the grid whose coordinates are 0 where such a store under a condition runs; without `values` conditions are
// refused.
bool full_store_first(const ir::Region&, ir::ValueId ref, const Expressions* values = nullptr,
                      std::vector<int>* axes = nullptr);

// Effects of all operations of the region and of those inside it: ir::kEffect… joined.
uint16_t effects_of(const ir::Region&);

}  // namespace pallasim::interp::analysis
