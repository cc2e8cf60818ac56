// What the plan may assume of its grid: which axes are split over workers, which outputs need no poison.
#include <algorithm>

#include "../analysis/refs.h"
#include "../analysis/split.h"
#include "compiler.h"

namespace pallasim::interp {

// Cores that share the grid along an axis whose units are independent cannot be told from one core.
void Compiler::prove_parallel(const ir::Body&) {
  for (Window& w : plan_.windows) w.fully_written = analysis::fully_written(m_, w);
  find_splittable();
  if (plan_.core_axis < 0) return;
  if (std::count(plan_.splittable.begin(), plan_.splittable.end(), plan_.core_axis)) {
    plan_.set_units(memory::Units(1));
    return;
  }
  plan_.splittable.clear();
  plan_.sequential_because =
      "cores share the grid, and " +
      (plan_.sequential_because.empty() ? "its parallel axis moves no block" : plan_.sequential_because);
}

void Compiler::find_splittable() {
  auto refuse = [&](std::string why) { plan_.sequential_because = std::move(why); };
  if (m_.grid.empty()) return refuse("the grid has one point");
  if (plan_.num_threads > 1 && plan_.core_axis < 0) return refuse("the kernel runs on a mesh");
  if (plan_.modelled) return refuse("the pipeline is modelled");
  if (plan_.concurrent) return refuse("programs may wait for each other");
  if (plan_.has_peers) return refuse("devices reach into each other");
  if (!prefetch_copies_.empty()) return refuse("the kernel writes to its prefetched scalars");
  if (!plan_.core_arrays.empty()) return refuse("arrays lie in memory of the cores");
  const auto is_shared = [](const memory::Allocation& a) { return !a.private_to_thread(); };
  if (std::any_of(plan_.allocations.begin(), plan_.allocations.end(), is_shared) || !plan_.semaphores.empty())
    return refuse("scratch is shared by the grid");
  analysis::Split split = analysis::find_split(m_, model_, plan_.options, plan_.windows);
  plan_.splittable = std::move(split.axes);
  plan_.sequential_because = std::move(split.refused);
}

}  // namespace pallasim::interp
