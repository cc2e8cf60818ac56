// Inputs whose block may lie outside of the array, and that are read under conditions only.
#pragma once
#include <map>

#include "../../plan/payload/grid.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {

struct UnreadWindows {
  std::map<ir::ValueId, const UnreadWindow*> of;  // by the body's argument
};

}  // namespace pallasim::interp
