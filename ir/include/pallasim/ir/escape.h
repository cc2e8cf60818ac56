// Text that came from a kernel or a file, for people.
#pragma once
#include <string>
#include <string_view>

namespace pallasim::ir {

// Control characters but tabs become \xNN: such text never reaches a terminal raw.
std::string escaped(std::string_view text);

}  // namespace pallasim::ir
