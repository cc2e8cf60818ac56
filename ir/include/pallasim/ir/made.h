// Lines of a launch that say what its declarations are: a BlockSpec, a scratch shape, an argument.
#pragma once
#include <string_view>

#include "pallasim/ir/module.h"

namespace pallasim::ir {

// A number in the table of locations; -1: nobody says.
inline LocId line_in(const LocTable& locs, const Attr* a) {
  return a && a->is_int() && a->i >= 0 && a->i < static_cast<int64_t>(locs.size()) ? static_cast<LocId>(a->i) : -1;
}

// Where an operand, scratch memory or an alias was asked for, outside of the kernel (the attribute `made`).
inline LocId made_at(const LocTable& locs, const AttrDict& attrs) { return line_in(locs, find(attrs, "made")); }

// The line of an argument of the launch (the attribute `lines` of the module).
inline LocId argument_at(const Module& m, const LocTable& locs, std::string_view argument) {
  const Attr* lines = find(m.attrs, "lines");
  for (size_t i = 0; lines && i < lines->keys.size(); ++i)
    if (lines->keys[i] == argument) return line_in(locs, &lines->items[i]);
  return -1;
}

}  // namespace pallasim::ir
