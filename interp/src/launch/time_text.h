// Seconds for people.
#pragma once
#include <string>

namespace pallasim::interp {

std::string time_text(double seconds);  // "1.7 us"

}  // namespace pallasim::interp
