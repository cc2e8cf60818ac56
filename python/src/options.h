// Run options as text: "checked=1;seed=7;policy=random". Python writes it, the launch reads it once.
#pragma once
#include <string_view>

#include "pallasim/interp/launch.h"

namespace pallasim::python {

// Throws DiagnosticError (PS-PY-001) for an unknown key or a value out of range.
interp::Options parse_options(std::string_view text);

}  // namespace pallasim::python
