// One checker per compiler.
#pragma once
#include "pallasim/hw/rules.h"

namespace pallasim::hw {

void check_triton(const ir::Module&);

}  // namespace pallasim::hw
