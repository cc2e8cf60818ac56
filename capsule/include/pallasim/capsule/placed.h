// What refuses a kernel as a whole has a line, too.
#pragma once
#include <utility>

#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/module.h"

namespace pallasim::capsule {

// What refuses a kernel as a whole while `f` looks at it has the line that launches it, as far as the module says.
template <typename F>
auto placed(const ir::Module& m, const F& f) {
  ir::Module where;  // `f` may take the module
  where.attrs = m.attrs;
  where.locs = m.locs;
  try {
    return f();
  } catch (ir::DiagnosticError& e) {
    ir::place(e.diagnostic(), where);
    std::move(e.diagnostic()).raise();
  }
}

}  // namespace pallasim::capsule
