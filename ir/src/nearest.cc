#include "pallasim/ir/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace pallasim::ir {
namespace {

constexpr size_t kLongest = 64;  // the work is quadratic, and no name is longer

std::string lower(std::string_view s) {
  std::string r(s);
  std::transform(r.begin(), r.end(), r.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return r;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b, size_t substitution) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = a[i - 1] != b[j - 1] ? substitution : 0;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.size() > kLongest) return {};
  const std::string meant = lower(word);
  std::string_view best;
  size_t least = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (std::string_view c : candidates) {
    if (c.size() > kLongest) continue;
    if (const size_t d = edit_distance(meant, lower(c)); d < least) least = d, best = c;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string_view c = nearest(word, candidates);
  return c.empty() ? std::string() : fmt::format("did you mean '{}'?", c);
}

}  // namespace pallasim::ir
