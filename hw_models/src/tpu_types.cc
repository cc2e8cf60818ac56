#include "tpu_types.h"

#include <array>
#include <charconv>
#include <map>
#include <stdexcept>
#include <string>

#include "csv.h"
#include "data.h"

namespace pallasim::hw {
namespace {

struct Lacks {
  std::array<bool, 10> generations{};
  int64_t until = 0;  // JAX's minor version that comes with a compiler that takes it; 0: none so far
};

using Table = std::multimap<std::string, Lacks, std::less<>>;

std::string key(std::string_view operation, std::string_view form, std::string_view types) {
  std::string r(operation);
  return r.append("|").append(form).append("|").append(types);
}

Table read(std::string_view csv) {
  Table r;
  const auto malformed = [](size_t line) {
    throw std::runtime_error("tpu_types.csv, line " + std::to_string(line) + " is malformed");
  };
  take_csv_line(&csv);
  for (size_t line = 2; !csv.empty(); ++line) {
    const std::vector<std::string> cells = take_csv_line(&csv);
    if (cells.size() != 5) malformed(line);
    Lacks l;
    for (const char c : cells[3])
      if (c >= '0' && c <= '9') l.generations[static_cast<size_t>(c - '0')] = true;
      else if (c != ' ') malformed(line);
    const std::string& until = cells[4];
    if (!until.empty() && std::from_chars(until.data(), until.data() + until.size(), l.until).ec != std::errc())
      malformed(line);
    for (std::string_view types = cells[2]; !types.empty();) {
      const size_t end = std::min(types.find(' '), types.size());
      r.emplace(key(cells[0], cells[1], types.substr(0, end)), l);
      types.remove_prefix(std::min(end + 1, types.size()));
    }
  }
  return r;
}

}  // namespace

bool tpu_lacks(std::string_view operation, std::string_view form, std::string_view types, int64_t generation,
               int64_t jax) {
  static const Table table = read(kTpuTypes);
  const auto [begin, end] = table.equal_range(key(operation, form, types));
  for (auto it = begin; it != end; ++it)
    if (generation >= 0 && generation < 10 && it->second.generations[static_cast<size_t>(generation)] &&
        (it->second.until == 0 || jax < it->second.until))
      return true;
  return false;
}

}  // namespace pallasim::hw
