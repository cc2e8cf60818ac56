// The pages of docs/diagnostics, which every program has with it.
#pragma once
#include <string_view>

#include "pallasim/ir/code.h"

namespace pallasim::ir {

// The code's page as Markdown; its first line is "# PS-OOB-001: title".
std::string_view page(Code);

}  // namespace pallasim::ir
