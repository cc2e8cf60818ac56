// What the scalars of a body say about the grid, before anything is emitted.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// The operations of one region (not of the regions inside it) by their results.
class Definitions {
 public:
  explicit Definitions(const ir::Region&);
  // Null for arguments and for values of other regions.
  const ir::Op* of(ir::ValueId) const;

 private:
  std::unordered_map<ir::ValueId, const ir::Op*> ops_;
};

// The axes of program_id, ascending, all of which are 0 exactly where `pred` chooses the second of two regions: `pred`
// is true, or the integer 1. Nothing where `pred` is anything else, or nobody can tell. Understood are what `pl.when`
// and the operators of Python make of `k == 0` and of `and`s of such.
std::optional<std::vector<int>> zero_axes(const ir::Graph&, const Definitions&, ir::ValueId pred);

}  // namespace pallasim::interp::analysis
