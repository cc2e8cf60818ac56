// Blocks of outputs that the grid comes back to.
#include <fmt/format.h>

#include "bodies.h"
#include "elements.h"
#include "findings.h"

namespace pallasim::interp::ops {
// An output's window is written back when it moves on, and not read again when it comes back.
const Step* output_visit(Thread& t, const Step* s) {
  const auto& w = payload<Kind::output_visit>(s);
  Execution& ex = *t.exec;
  std::vector<int64_t> block(w.places()), here;
  window_place(t, w, block.data());
  for (uint32_t p : t.body->pid_slots) here.push_back(t.slot<int64_t>(p));
  Log::Visits& v = ex.log.visits[{t.index, w.operand}];
  const bool same = v.now == block && !v.seen.empty();
  v.now = block;
  const auto [seen, first] = v.seen.try_emplace(block, here);
  if (!first && !same && !v.reported) {
    v.reported = true;
    diagnose(t).revisited(t, s, w, block, seen->second);
  }
  seen->second = std::move(here);
  return s + 1;
}

}  // namespace pallasim::interp::ops
