#include "instances.h"

#include <algorithm>

#include "../plan/kinds.h"

namespace pallasim::interp {

Instances::Memory Instances::memory_of(const Execution& ex, int32_t thread, uint32_t buffer) const {
  const Thread* t = &ex.threads[static_cast<size_t>(thread)];
  if (const size_t operand = buffer - kFirstOperandBuffer;
      buffer >= kFirstOperandBuffer && operand < ex.plan->module.operands.size()) {
    const std::vector<std::byte*>& arrays = ex.operands[static_cast<size_t>(ex.device_of(*t))];
    if (arrays[operand]) {
      const auto first = std::find(arrays.begin(), arrays.end(), arrays[operand]) - arrays.begin();
      return {kFirstOperandBuffer + static_cast<uint32_t>(first), ~int64_t{ex.device_of(*t)}};
    }
  }
  for (const Execution::SharedMemory& m : ex.shared_memory)
    if (const memory::Allocation& a = ex.plan->memory.allocations[m.allocation]; a.buffer == buffer)
      return {buffer, ex.units.unit_of(a.owner, t->unit)};
  while (t->temps != buffer && t->parent >= 0) t = &ex.threads[static_cast<size_t>(t->parent)];  // who spawned it
  return {buffer, t->index};
}

int32_t Instances::of(const Execution& ex, int32_t thread, uint32_t buffer) {
  if (buffer >= known_.size()) known_.resize(buffer + size_t{1});
  std::vector<int32_t>& by_thread = known_[buffer];
  const auto t = static_cast<size_t>(thread);
  if (t >= by_thread.size()) by_thread.resize(t + 1, -1);
  if (by_thread[t] >= 0) return by_thread[t];
  const int32_t r = all_.try_emplace(memory_of(ex, thread, buffer), static_cast<int32_t>(all_.size())).first->second;
  if (ex.threads[t].parent < 0) by_thread[t] = r;  // others get parents anew
  return r;
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
  if (shadow_) return *shadow_;
  shadow_ = instances_.access(ex_, access, instance(), access.thread);
  shadow_->known = &box();
  if (access.places) shadow_->places = {access.places, static_cast<size_t>(access.boxes)};
  return *shadow_;
}

memory::shadow::Access Instances::access(const Execution& ex, const Access& a, int32_t instance,
                                         memory::shadow::Actor who) {
  memory::shadow::Access r;
  r.who = who;
  r.instance = instance;
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

Instances::OfSide::OfSide(const memory::AsyncOperation& op, const memory::Side& side)
    : form(side), rows(op.rows_of(side)) {
  if (rows.dim < 0) return;
  form.dims[rows.dim] = 1;
  for (int d = 0; d < form.rank; ++d)  // a row begins where its place says
    if (form.strides[d] < 0 && form.dims[d] > 0) {
      for (int64_t& place : rows.places) place += (form.dims[d] - 1) * form.strides[d] * form.element_bytes();
      form.strides[d] = -form.strides[d];
    }
  if (!rows.places.empty()) form.place.offset = rows.places.front();
}

const memory::shadow::Access& Instances::side(const Execution& ex, const memory::AsyncOperation& op, OfSide& of,
                                              bool write, memory::shadow::Actor who) {
  const memory::Side& side = of.form;
  memory::shadow::Access& r = of.access;
  r.who = who;
  r.instance = this->of(ex, ex.thread_of(side.place), side.place.buffer);
  r.offset = side.place.offset;
  r.dims = side.dims;
  r.strides = side.strides;
  r.rank = side.rank;
  r.element_bytes = side.element_bytes();
  r.write = write;
  r.atomic = write && op.combine != memory::Combine::Replace;  // of two copies that add to a place both count
  r.site = op.step;
  r.places = of.rows.places;
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
