#include "pallasim/ir/attr.h"

namespace pallasim::ir {

Attr Attr::ints(const std::vector<int64_t>& v) {
  std::vector<Attr> items;
  items.reserve(v.size());
  for (int64_t x : v) items.push_back(integer(x));
  return list(std::move(items));
}

const Attr* find(const AttrDict& d, std::string_view key) {
  for (const auto& [k, v] : d)
    if (k == key) return &v;
  return nullptr;
}

}  // namespace pallasim::ir
