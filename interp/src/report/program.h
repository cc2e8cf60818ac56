// What reports say about the kernel's own text.
#pragma once
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp {

// An operation that writes to an operand, under the operand's own name or a view of it.
struct StoreSite {
  ir::LocId loc = -1;
  ir::LocId condition = -1;  // of the innermost branch around it; -1: it runs under none
};
// In the order of the text; `operand`: of the launch.
std::vector<StoreSite> stores_to(const Plan&, size_t operand);
// The same of scratch of the launch, by its name in the kernel.
std::vector<StoreSite> stores_to(const Plan&, const std::string& scratch);

}  // namespace pallasim::interp
