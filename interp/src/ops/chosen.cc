#include "chosen.h"

#include <algorithm>

#include "elements.h"

namespace pallasim::interp::ops {

// Whether the list holds what it would hold if values were computed: an argument that lies where it is, which no
// result shares.
static bool is_there(const Thread& t, const ChosenRows& r) {
  const Execution& ex = *t.exec;
  if (ex.makes_values) return true;
  const ir::Module& m = ex.plan->module;
  const size_t operand = size_t{r.list.buffer} - kFirstOperandBuffer;
  if (r.list.buffer < kFirstOperandBuffer || operand >= m.operands.size()) return false;
  const ir::Operand& o = m.operands[operand];
  if (o.kind == ir::Operand::Kind::Output || m.is_aliased_input(operand)) return false;
  return o.space == ir::Space::Smem || !t.body->windows[operand].modelled();
}

std::vector<int64_t> chosen_rows(const Thread& t, const ChosenRows& r, int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(std::max<int64_t>(n, 0)));
  if (is_there(t, r)) {
    integer_elements(t.resolve(r.list), r.dtype, r.stride, rows);
    return rows;
  }
  const int64_t all = r.extent_slot == Addr::kNoSlot ? r.extent : t.slot<int64_t>(r.extent_slot);
  for (int64_t i = 0; i < n && all > 0; ++i) rows[static_cast<size_t>(i)] = 2 * (t.index * n + i) % all;
  return rows;
}

}  // namespace pallasim::interp::ops
