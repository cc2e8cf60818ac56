#include "csv.h"

#include <algorithm>

namespace pallasim::hw {

std::vector<std::string> take_csv_line(std::string_view* csv) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  size_t i = 0;
  for (; i < csv->size(); ++i) {
    const char c = (*csv)[i];
    if (c == '"' && quoted && i + 1 < csv->size() && (*csv)[i + 1] == '"') cells.back() += c, ++i;
    else if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) cells.emplace_back();
    else if (c == '\n' && !quoted) break;
    else cells.back() += c;
  }
  csv->remove_prefix(std::min(i + 1, csv->size()));
  return cells;
}

}  // namespace pallasim::hw
