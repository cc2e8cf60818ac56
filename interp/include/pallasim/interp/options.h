// Run options as text: "checked=1;seed=7;policy=random". Python and capsules write it, a launch reads it once.
#pragma once
#include <string_view>

#include "pallasim/interp/launch.h"

namespace pallasim::interp {

// Throws DiagnosticError (PS-OPT-001) for an unknown key or a value that it cannot have.
Options parse_options(std::string_view text);

}  // namespace pallasim::interp
