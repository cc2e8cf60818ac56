#include "landing.h"

#include <algorithm>
#include <map>

#include "../analysis/refs.h"
#include "../plan/payload/copies.h"
#include "../plan/steps.h"

namespace pallasim::interp {
namespace {

struct Landings {
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

bool land(Emitter& e, const ir::Region& region, const Val& ref) {
  const PlanOptions& o = e.options();
  const uint32_t buffer = ref.memory().addr.buffer;
  if (!o.rewrites() || e.module().bodies.size() != 1) return false;
  if (ref.is_semaphore() || ref.ref().tiled || (e.plan().memory.is_private(buffer) && buffer != e.body().temps) ||
      !analysis::lands(e.graph(), region, ref.origin()))
    return false;
  PlanMemory& m = e.plan().memory;
  const auto number = static_cast<int32_t>(m.landings.size());
  m.landings.push_back(m.allocations.size() - 1);
  m.allocations.set_landing(m.landings.back(), number);
  e.state<Landings>().of[ref.origin()] = number;
  count(Rewrite::StaysAway);
  return true;
}

int32_t landing_of(Emitter& e, const Val& ref) {
  const auto& of = e.state<Landings>().of;
  const auto it = ref.shows_memory() ? of.find(ref.origin()) : of.end();
  return it == of.end() ? -1 : it->second;
}

void begin_landing(Emitter& e, const Val& ref) {
  e.emit<Kind::landing_begin>(LandingPayload{landing_of(e, ref), ref.memory().addr, 0, 0});
}

void settle_landing(Emitter& e, const Val& ref) {
  const int32_t landing = landing_of(e, ref);
  if (landing >= 0) e.emit<Kind::landing_settle>(LandingPayload{landing, ref.memory().addr, 0, 0});
}

void tell_landing(Emitter& e, const Val& src, const Val& dst, CopySide* from, CopySide* to) {
  to->landing = landing_of(e, dst);
  from->constant = is_constant(e, src);
}

Val where_landed(Emitter& e, Val shown) {
  const int32_t landing = landing_of(e, shown);
  if (landing < 0 || shown.elements() == 0) return shown;
  Addr& addr = shown.memory().addr;
  const int64_t size = ir::byte_size(shown.dtype);
  LandingPayload p{landing, addr, 0, size};
  for (size_t d = 0; d < shown.dims.size(); ++d) {
    const int64_t last = (shown.dims[d] - 1) * shown.memory().strides[d] * size;
    (last < 0 ? p.begin : p.end) += last;
  }
  const uint32_t slot = e.new_slot();
  e.emit<Kind::landing_find>(p).dst = slot;
  addr.dyn = slot;
  return shown;
}

}  // namespace pallasim::interp
