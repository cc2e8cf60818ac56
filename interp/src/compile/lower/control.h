// Values that loops carry, and memory that operations allocate.
#pragma once
#include <span>
#include <vector>

#include "../../plan/payload/copies.h"
#include "lowering.h"

namespace pallasim::interp {

std::vector<Val> allocate_carries(Emitter&, const std::vector<Val>& init);
// Binds a region's arguments from `first` on.
void enter_carries(Emitter&, const Region&, size_t first, const std::vector<Val>& carries);
// Parallel assignment of a region's results to the carries.
void assign_carries(Emitter&, const std::vector<Val>& carries, std::span<const ir::ValueId> yielded);
// Memory or semaphores of the thread for a ref value; what it took is noted in `scope`.
Val allocate_ref(Emitter&, const Op&, ir::ValueId, ScopePayload* scope);

}  // namespace pallasim::interp
