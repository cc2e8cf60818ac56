#include "copy_elision.h"

#include <algorithm>
#include <map>

#include "../../analysis/refs.h"
#include "../../plan/payload/copies.h"
#include "../../plan/steps.h"

namespace pallasim::interp {
namespace {

struct Elidable {
  std::map<int, int32_t> of;  // by origin
};

// An operand's array that no part of the launch writes: neither under its own name nor as an output.
bool is_constant(Emitter& e, const Val& ref) {
  const uint32_t buffer = ref.memory().addr.buffer;
  if (!ref.ref().read_only || buffer < kFirstOperandBuffer) return false;
  const size_t operand = buffer - kFirstOperandBuffer;
  const ir::Module& m = e.module();
  return operand < m.operands.size() && m.operands[operand].kind == ir::Operand::Kind::Input &&
         !m.is_aliased_input(operand);
}

}  // namespace

bool elide_copies(Emitter& e, const ir::Region& region, const Val& ref) {
  const PlanOptions& o = e.options();
  const uint32_t buffer = ref.memory().addr.buffer;
  if (!o.rewrites() || e.module().bodies.size() != 1) return false;
  if (ref.is_semaphore() || ref.ref().tiled || (e.plan().memory.is_private(buffer) && buffer != e.body().temps) ||
      !analysis::copies_elidable(e.live().graph(), region, ref.origin()))
    return false;
  PlanMemory& m = e.plan().memory;
  const auto number = static_cast<int32_t>(m.elidable.size());
  m.elidable.push_back(m.allocations.size() - 1);
  m.allocations.set_elidable(m.elidable.back(), number);
  e.state<Elidable>().of[ref.origin()] = number;
  count(Rewrite::CopyElided);
  return true;
}

int32_t elidable_of(Emitter& e, const Val& ref) {
  const auto& of = e.state<Elidable>().of;
  const auto it = ref.shows_memory() ? of.find(ref.origin()) : of.end();
  return it == of.end() ? -1 : it->second;
}

void begin_elision(Emitter& e, const Val& ref) {
  e.emit<Kind::elision_begin>(ElisionPayload{elidable_of(e, ref), ref.memory().addr, 0, 0});
}

void materialise_elided(Emitter& e, const Val& ref) {
  const int32_t elidable = elidable_of(e, ref);
  if (elidable >= 0) e.emit<Kind::elision_materialise>(ElisionPayload{elidable, ref.memory().addr, 0, 0});
}

void tell_elision(Emitter& e, const Val& src, const Val& dst, CopySide* from, CopySide* to) {
  to->elidable = elidable_of(e, dst);
  from->constant = is_constant(e, src);
}

Val where_elided(Emitter& e, Val shown) {
  const int32_t elidable = elidable_of(e, shown);
  if (elidable < 0 || shown.elements() == 0) return shown;
  Addr& addr = shown.memory().addr;
  const int64_t size = ir::byte_size(shown.dtype);
  ElisionPayload p{elidable, addr, 0, size};
  for (size_t d = 0; d < shown.dims.size(); ++d) {
    const int64_t last = (shown.dims[d] - 1) * shown.memory().strides[d] * size;
    (last < 0 ? p.begin : p.end) += last;
  }
  const uint32_t slot = e.new_slot();
  p.alias = e.plan().memory.new_alias();
  e.emit<Kind::elision_find>(p).dst = slot;
  addr.buffer = p.alias;
  addr.dyn = slot;
  return shown;
}

}  // namespace pallasim::interp
