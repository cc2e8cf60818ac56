// Index maps that are linear in the program ids.
#pragma once
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp::analysis {

// The index map of an operand with a block as constant + coefficients, per result of the map; `known` is false where it
// is anything else, where its integers may wrap for some grid point, and for all results where the map prints or
// checks: it then runs at every grid point.
std::vector<Affine> affine_map(const ir::Module&, const ir::Operand&);

// Whether `index` changes with `axis` and with no other axis.
bool moves_alone(const Affine& index, size_t axis);
bool is_constant(const Affine&);

}  // namespace pallasim::interp::analysis
