// Lines of the data files, quoted as in RFC 4180.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pallasim::hw {

// The cells of one line; `csv` loses it.
std::vector<std::string> take_csv_line(std::string_view* csv);

}  // namespace pallasim::hw
