#include "pallasim/ir/op_table.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace pallasim::ir {
namespace {

AttrKind parse_kind(std::string_view k) {
  constexpr std::pair<std::string_view, AttrKind> kKinds[] = {{"int", AttrKind::Int},
                                                              {"ints", AttrKind::Ints},
                                                              {"bool", AttrKind::Bool},
                                                              {"sym", AttrKind::Sym},
                                                              {"str", AttrKind::Str},
                                                              {"type", AttrKind::Type},
                                                              {"literal", AttrKind::Literal},
                                                              {"list", AttrKind::List},
                                                              {"dict", AttrKind::Dict},
                                                              {"view", AttrKind::View},
                                                              {"transforms", AttrKind::Transforms},
                                                              {"operand", AttrKind::Operand},
                                                              {"view_or_operand", AttrKind::ViewOrOperand}};
  for (const auto& [text, kind] : kKinds)
    if (text == k) return kind;
  return AttrKind::Any;
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
