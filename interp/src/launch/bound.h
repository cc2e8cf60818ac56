// The arrays of a launch, bound to its plan.
#pragma once
#include <memory>

#include "session.h"

namespace pallasim::interp {

struct Bound {
  Call call;
  int64_t points = 1;                          // of the grid
  std::vector<std::vector<std::byte>> copies;  // of inputs that the kernel writes to
};

// Of a plan without shape parameters. Throws PS-ARG-001 where arrays are not those of its operands. A launch without
// values leaves outputs as they are.
std::unique_ptr<Bound> bind_launch(const Plan&, const ir::LocTable&, Session&, std::span<const DeviceCall> devices,
                                   const Options&, const Watch&, bool values = true);
// The plan for the shapes of these arrays, of one with shape parameters.
std::shared_ptr<const Plan> specialised(const Plan&, const ir::LocTable&, std::span<const DeviceCall> devices);

}  // namespace pallasim::interp
