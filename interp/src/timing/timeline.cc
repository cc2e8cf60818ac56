#include "timeline.h"

#include <algorithm>

namespace pallasim::interp {
namespace {
int32_t number(std::vector<std::string>* all, const std::string& text) {
  const auto it = std::find(all->begin(), all->end(), text);
  if (it != all->end()) return static_cast<int32_t>(it - all->begin());
  all->push_back(text);
  return static_cast<int32_t>(all->size()) - 1;
}
}  // namespace

int32_t Timeline::track(const std::string& n) { return number(&tracks, n); }
int32_t Timeline::name(const std::string& n) { return number(&names, n); }

}  // namespace pallasim::interp
