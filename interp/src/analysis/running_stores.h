// Stores of values that are still to grow, to a place that the next step stores over.
#pragma once
#include <string>
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp::analysis {

// A store into an output that happens at every trip of a loop, or at every point of some axes of the grid, always to
// the same place, of what is added up over these. Nothing in the kernel reads the output: of all that is stored the
// last alone is kept.
struct RunningStore {
  int operand = 0;  // the output
  ir::LocId loc = -1;
  ir::LocId loop = -1;    // where the loop is; none for axes of the grid
  std::vector<int> axes;  // of the grid, ascending
  std::string sum;        // what adds up, as the kernel calls it; "" where it has no name
  // What is added in a step comes behind the step's store, so that the last of it is in no store.
  bool early = false;
};
// Of all bodies. Where anything is unknown (conditions, another use of the output, memory that is not set at the first
// step) there is none.
std::vector<RunningStore> running_stores(const Plan&);

}  // namespace pallasim::interp::analysis
