// What the plan may assume of its grid: which axes are split over workers, which outputs need no poison.
#include <algorithm>

#include "../../analysis/facts.h"
#include "../../analysis/split.h"
#include "compiler.h"

namespace pallasim::interp {

// Asked before any step is emitted, when operands and scratch have their places.
void Compiler::find_splittable(const analysis::Expressions& values) {
  auto refuse = [&](std::string why) { plan_.split.refused = std::move(why); };
  if (m_.grid.empty()) return refuse("the grid has one point");
  if (body_.threads > 1 || plan_.bodies.size() > 1) return refuse("the kernel runs on a mesh");
  if (body_.modelled) return refuse("the pipeline is modelled");
  if (plan_.threads.concurrent) return refuse("programs may wait for each other");
  if (plan_.threads.has_peers) return refuse("devices reach into each other");
  if (!prefetch_copies_.empty()) return refuse("the kernel writes to its prefetched scalars");
  if (!body_.core_arrays.empty()) return refuse("arrays lie in memory of the cores");
  const auto is_shared = [](const memory::Allocation& a) { return !a.private_to_thread(); };
  if (std::any_of(plan_.memory.allocations.begin(), plan_.memory.allocations.end(), is_shared) ||
      !plan_.memory.semaphores.empty() || analysis::makes_semaphores(ir_body_))
    return refuse("scratch is shared by the grid");
  analysis::Split split = analysis::find_split(m_, values, model_, plan_.options, body_.windows);
  plan_.split.axes = std::move(split.axes);
  plan_.split.refused = std::move(split.refused);
}

}  // namespace pallasim::interp
