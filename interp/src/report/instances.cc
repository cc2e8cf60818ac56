#include "instances.h"

#include "../plan/kinds.h"

namespace pallasim::interp {

int32_t Instances::of(const Execution& ex, int32_t thread, uint32_t buffer) {
  const std::byte* base = ex.threads[static_cast<size_t>(thread)].bases[buffer];
  if (buffer >= last_.size()) last_.resize(buffer + size_t{1});
  Known& k = last_[buffer];
  if (k.base != base || k.instance < 0)
    k = {base, bases_.try_emplace(base, static_cast<int32_t>(bases_.size())).first->second};
  return k.instance;
}

int32_t Instances::site(const Plan& plan, const Step& step, ir::LocId loc) {
  if (loc == plan.loc_of(step)) return step.id;
  const auto [at, added] =
      sites_.try_emplace(int64_t{step.id} << 32 | static_cast<uint32_t>(loc), -1 - static_cast<int32_t>(lines_.size()));
  if (added) lines_.emplace_back(step.id, loc);
  return at->second;
}

Instances::Line Instances::line(const Plan& plan, int32_t site) const {
  const auto step = [&](int32_t id) { return &plan.steps[static_cast<size_t>(id)]; };
  if (site >= 0) return {step(site), plan.loc_of(*step(site))};
  const auto& [id, loc] = lines_[static_cast<size_t>(-1 - site)];
  return {step(id), loc};
}

const memory::shadow::Access& Seen::shadow() {
  if (known_) return shadow_;
  known_ = true;
  shadow_ = instances_.access(ex_, access, access.thread);
  box_ = shadow_.box();
  shadow_.known = &box_;
  return shadow_;
}

memory::shadow::Access Instances::access(const Execution& ex, const Access& a, memory::shadow::Actor who) {
  memory::shadow::Access r;
  r.who = who;
  r.instance = of(ex, a.owner < 0 ? a.thread : a.owner, a.buffer);
  r.offset = a.offset;
  r.dims = a.dims;
  r.strides = a.strides;
  r.rank = a.rank;
  r.element_bytes = a.element_bytes;
  r.write = a.write;
  r.atomic = a.atomic;
  const Step& step = ex.plan->steps[static_cast<size_t>(a.step)];
  r.adds = step.adds;
  r.site = site(*ex.plan, step, a.loc);
  return r;
}

memory::shadow::Access Instances::side(const Execution& ex, const memory::AsyncCopy& c, bool dst,
                                       memory::shadow::Actor who) {
  const memory::Place& p = dst ? c.dst : c.src;
  memory::shadow::Access r;
  r.who = who;
  r.instance = of(ex, p.thread, p.buffer);
  r.offset = p.offset;
  r.dims = dst ? c.dst_dims() : c.dims;
  r.strides = dst ? c.dst_strides : c.src_strides;
  r.rank = c.rank;
  r.element_bytes = ir::byte_size(c.dtype);
  r.write = dst;
  r.atomic = dst && c.combine != memory::Combine::Replace;  // of two copies that add to a place both count
  r.site = c.step;
  return r;
}

std::string allocation_name(const Plan& p, uint32_t buffer, int64_t offset) {
  const size_t operand = buffer - kFirstOperandBuffer;
  if (buffer >= kFirstOperandBuffer && operand < p.module.operands.size()) return p.module.operands[operand].name;
  const memory::Allocation* a = p.memory.allocations.at(buffer, offset);
  return a ? a->name : std::string();
}

uint32_t operand_buffer(size_t operand) { return kFirstOperandBuffer + static_cast<uint32_t>(operand); }
std::string_view step_kind(const Plan& p, int32_t step) { return row(p.steps[static_cast<size_t>(step)]).name; }
ir::LocId step_line(const Plan& p, int32_t step) { return p.loc_of(p.steps[static_cast<size_t>(step)]); }

}  // namespace pallasim::interp
