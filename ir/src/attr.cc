#include "pallasim/ir/attr.h"

#include "pallasim/ir/view.h"

namespace pallasim::ir {

Attr Attr::ints(const std::vector<int64_t>& v) {
  std::vector<Attr> items;
  items.reserve(v.size());
  for (int64_t x : v) items.push_back(integer(x));
  return list(std::move(items));
}

Attr Attr::of_view(Viewed v) {
  Attr a;
  a.kind = Kind::View;
  a.view = std::make_shared<const Viewed>(std::move(v));
  return a;
}

const Attr* find(const AttrDict& d, std::string_view key) {
  for (const auto& [k, v] : d)
    if (k == key) return &v;
  return nullptr;
}

}  // namespace pallasim::ir
