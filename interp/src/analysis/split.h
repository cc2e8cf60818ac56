// Which grid axes may be split over workers without anybody being able to tell. A unit is all
// grid points with the same coordinates on the split axes, run in the order of the grid.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp::analysis {

class Expressions;

struct Split {
  std::vector<int> axes;  // ascending; empty where nothing may be split
  std::string refused;    // why not
};

// `Expressions`: of the module's one body. `windows`: of the module's operands, in their order. What follows from how
// the body runs (threads, a modelled pipeline, copies of arrays) is the caller's to refuse.
Split find_split(const ir::Module&, const Expressions&, const hw::MachineModel&, const PlanOptions&,
                 std::span<const Window> windows);

// Whether the kernel stores every element of an output before anything reads it, so that it need not begin as poison.
bool fully_written(const ir::Module&, const Expressions&, const PlanOptions&, const Window&);

}  // namespace pallasim::interp::analysis
