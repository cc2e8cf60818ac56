#include "pallasim/ir/op_table.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <unordered_map>

namespace pallasim::ir {
namespace {

constexpr std::string_view kAttrKinds[] = {"int",
                                           "ints",
                                           "bool",
                                           "sym",
                                           "str",
                                           "type",
                                           "literal",
                                           "list",
                                           "dict",
                                           "view",
                                           "transforms",
                                           "operand",
                                           "view_or_operand",
                                           "any"};
static_assert(std::size(kAttrKinds) == static_cast<size_t>(AttrKind::Any) + 1);

AttrKind parse_kind(std::string_view k) {
  const auto it = std::find(std::begin(kAttrKinds), std::end(kAttrKinds), k);
  if (it == std::end(kAttrKinds)) std::abort();  // a mistake in ops.def
  return static_cast<AttrKind>(it - std::begin(kAttrKinds));
}

OpInfo make(OpCode code, std::string_view op_name, Family family, int lo, int hi, int regions, TypeRule rule,
            std::string_view attrs, int effects, Fidelity fidelity, std::string_view doc) {
  OpInfo r{code, op_name, family, lo, hi, regions, rule, {}, false, static_cast<uint16_t>(effects), fidelity, doc};
  while (!attrs.empty()) {
    std::string_view item = attrs.substr(0, attrs.find(' '));
    attrs.remove_prefix(std::min(attrs.size(), item.size() + 1));
    if (item == "any:any?") {
      r.open_attrs = true;
      continue;
    }
    const bool optional = item.back() == '?';
    if (optional) item.remove_suffix(1);
    const size_t colon = item.find(':');
    r.attrs.push_back({item.substr(0, colon), parse_kind(item.substr(colon + 1)), optional});
  }
  return r;
}

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo>* infos = [] {
    return new std::vector<OpInfo>{
#define OP(e, text, family, lo, hi, regions, rule, attrs, effects, fidelity, doc) \
  make(OpCode::e, text, Family::family, lo, hi, regions, TypeRule::rule, attrs, effects, Fidelity::fidelity, doc),
#include "pallasim/ir/ops.def"
#undef OP
    };
  }();
  return *infos;
}

}  // namespace

std::string_view name(AttrKind k) { return kAttrKinds[static_cast<size_t>(k)]; }

const OpInfo& info(OpCode c) { return table()[static_cast<size_t>(c)]; }

bool parse_op(std::string_view text, OpCode* out) {
  static const auto* index = [] {
    auto* m = new std::unordered_map<std::string_view, OpCode>;
    for (const OpInfo& i : table()) m->emplace(i.name, i.code);
    return m;
  }();
  auto it = index->find(text);
  if (it == index->end()) return false;
  *out = it->second;
  return true;
}

}  // namespace pallasim::ir
