#include "plan.h"

#include <algorithm>

namespace pallasim::interp {

const ir::Module& module_of(const Plan& p) { return p.given ? *p.given : p.module; }

int64_t Plan::bytes() const {
  const size_t own = sizeof(Plan) + memory.constants.size() + steps.capacity() * sizeof(Step);
  int64_t n = static_cast<int64_t>(own) + payloads.bytes();
  for (const auto& b : bodies) n += static_cast<int64_t>(sizeof(Body) + b->image.size());
  return n;
}

bool Plan::shares_arrays_only(memory::Level level) const {
  const auto owned = [&](const auto& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& x) { return x.owner <= level; });
  };
  const bool moved = std::any_of(first().windows.begin(), first().windows.end(),
                                 [](const Window& w) { return w.stage() || ir::is_sync(w.dtype); });
  return !moved && !owned(memory.allocations) && !owned(memory.semaphores.blocks()) && !owned(memory.barriers) &&
         memory.outer_semaphores.empty() && memory.own_inputs.empty() && first().core_arrays.empty();
}

bool Plan::programs_meet() const {
  const Body& b = first();
  const auto& all = memory.semaphores.blocks();
  const bool shares_semaphores =
      std::any_of(all.begin(), all.end(), [](const auto& s) { return s.owner <= memory::Level::Device; });
  return b.mesh < 0 && bodies.size() == 1 && !b.model->in_order() && !module.grid.empty() && threads.count == 1 &&
         (threads.concurrent || (b.model->programs == hw::Programs::Cooperative && shares_semaphores));
}

bool Plan::may_speculate() const {
  if (bodies.size() != 1 || threads.concurrent || threads.has_peers) return false;
  const Body& b = first();
  if (b.mesh < 0)
    return b.model->programs == hw::Programs::Cooperative && !module.grid.empty() &&
           shares_arrays_only(memory::Level::Device);
  const std::vector<int64_t>& clusters = threads.units.meshes().front().clusters;
  if (clusters.empty()) return !threads.reach_cores && shares_arrays_only(memory::Level::Core);
  return std::any_of(clusters.begin(), clusters.end(), [](int64_t n) { return n > 1; }) &&
         shares_arrays_only(memory::Level::Device);
}

}  // namespace pallasim::interp
