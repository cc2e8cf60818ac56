// Blocks of outputs that the grid comes back to.
#include <fmt/format.h>

#include "elements.h"
#include "steps.h"

namespace pallasim::interp::run {
namespace {

ir::Diagnostic revisited(const Thread& t, const Step* s, const Window& w, const std::vector<int64_t>& block, const std::vector<int64_t>& before) {
  const ir::Module& m = t.exec->plan->module;
  const ir::Operand& o = m.operands[static_cast<size_t>(w.operand)];
  const int inputs = static_cast<int>(m.operands.size()) - m.count(ir::Operand::Kind::Output);
  std::vector<int64_t> here;
  for (uint32_t p : t.exec->plan->pid_slots) here.push_back(t.slot<int64_t>(p));
  const std::vector<int64_t> start(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(w.dims.size()));
  ir::Diagnostic d = diagnostic_at(t, s, "PS-OUT-002",
                                   fmt::format("Revisited block at {} of output {} in iteration {}: {} was there before, and at other blocks since then", shape_text(start),
                                               w.operand - inputs, shape_text(here), o.name));
  for (const ir::Op& op : o.index_map->region.ops)
    if (op.loc >= 0) {
      d.site = ir::site_of(m, op.loc);
      break;
    }
  d.numbers.push_back(fmt::format("last visited at grid point {}", shape_text(before)));
  d.numbers.push_back("a TPU wrote the block back then, and its window does not get it again; this run did");
  d.hint = "let the grid axes that the block does not depend on be the last ones, so that its visits follow each other";
  return d;
}

}  // namespace

// An output's window is written back when it moves on, and not read again when it comes back.
const Step* output_visit(Thread& t, const Step* s) {
  const auto& w = *static_cast<const Window*>(s->payload);
  Execution& ex = *t.exec;
  std::vector<int64_t> block(w.places()), here;
  window_place(t, w, block.data());
  for (uint32_t p : ex.plan->pid_slots) here.push_back(t.slot<int64_t>(p));
  Execution::Visits& v = ex.visits[{t.index, w.operand}];
  const bool same = v.now == block && !v.seen.empty();
  v.now = block;
  const auto [seen, first] = v.seen.try_emplace(block, here);
  if (!first && !same && !v.reported) {
    v.reported = true;
    ir::Diagnostic d = revisited(t, s, w, block, seen->second);
    if (ex.options->revisit_is_error) throw ir::DiagnosticError(std::move(d));
    d.severity = ir::Severity::Warning;
    ex.findings.push_back(std::move(d));
  }
  seen->second = std::move(here);
  return s + 1;
}

}  // namespace pallasim::interp::run
