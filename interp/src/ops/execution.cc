#include "execution.h"

#include <algorithm>

#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

std::atomic<uint64_t> g_interrupt_epoch{0};

void poison(std::byte* at, int64_t count, ir::DType t, Options::Fill fill) {
  const memory::Element e = memory::uninitialized(t, fill);
  const int64_t one = 1;
  fill_strided(at, &one, &e, &count, 1, ir::byte_size(t));
}

void Execution::poison_gaps(const DeferredInit& u) const {
  const int64_t size = ir::byte_size(u.dtype);
  u.written.for_gaps(u.bytes, [&](int64_t begin, int64_t end) {
    poison(operand(0, u.buffer) + begin, (end - begin) / size, u.dtype, options->uninitialized);
  });
}

Execution::Execution(const Plan& p, const ops::Diagnostics& d) : plan(&p), diagnostics(&d), host(p.memory.max_strips) {
  locs = &p.module.locs;
  for (size_t i = 0; i < p.memory.allocations.size(); ++i)
    if (!p.memory.allocations[i].private_to_thread()) shared_memory.push_back({i, {}, {}});
}

Execution::~Execution() = default;

namespace {
// Of the threads of the launch: those of the plan, or of the programs that are resident.
memory::Units units_of(const Plan& p, const Population& population, int64_t devices) {
  std::vector<memory::Mesh> meshes = p.threads.units.meshes();
  if (population.programs > 0) meshes.front().clusters = {population.resident};
  return memory::Units(std::move(meshes), devices);
}
}  // namespace

void Execution::bind(std::span<const std::vector<std::byte*>> arrays, std::span<const int64_t> grid_sizes,
                     int32_t first, const Population& who) {
  operands.assign(arrays.begin(), arrays.end());
  host.interrupt_epoch = g_interrupt_epoch.load(std::memory_order_relaxed);
  first_device = first;
  const bool same = (population.programs > 0) == (who.programs > 0) && population.resident == who.resident &&
                    population.crew == who.crew && (devices == 1 || population.programs == who.programs);
  population = who;
  if (const auto n = static_cast<int32_t>(operands.size()); n != devices || !bound || !same) {
    for (SharedMemory& m : shared_memory) m.of_units.clear();
    bound = true;
    devices = n;
    units = units_of(*plan, population, devices);
    device_threads = static_cast<int32_t>(units.per_device(memory::Level::Thread));
    semaphore_layout = plan->memory.semaphores;
    semaphore_layout.set_units(has_early_semaphores() ? plan->threads.units : units_of(*plan, population, 1));
    semaphores = memory::Semaphores(semaphore_layout.total(n));
    barrier_layout = memory::BarrierLayout(units);
    for (const memory::BarrierBlock& b : plan->memory.barriers) barrier_layout.add(b);
    first_barriers_ = barrier_layout.make();
    unit_threads = units.count(memory::Level::Thread);
    for (const auto& b : plan->bodies) max_children = std::max(max_children, b->max_children);
  }
  for (SharedMemory& m : shared_memory) {
    const memory::Allocation& of = plan->memory.allocations[m.allocation];
    const auto owners = static_cast<size_t>(units.count(of.owner));
    const bool now = population.programs == 0 || of.owner == memory::Level::Device;
    while (m.of_units.size() < owners) m.of_units.emplace_back(now ? static_cast<size_t>(of.bytes) : 0);
  }
  grid.assign(grid_sizes.begin(), grid_sizes.end());
  // Affine windows stay inside for the whole grid exactly when they do at its corners.
  check_windows = false;
  for (const Window& w : plan->first().windows) {
    if (w.map.index.empty() || !w.map.affine || w.edge()) continue;
    for (size_t d = 0; d < w.dims.size(); ++d) {
      const auto [first, last] = w.map.starts(d, grid);
      if (first < 0 || memory::add(last, w.map.extent[d]) > w.dims[d]) check_windows = true;
    }
  }
}

int64_t Execution::linear_point(const Thread& t) const {
  int64_t r = 0;
  for (size_t g = 0; g < grid.size(); ++g) r = r * grid[g] + t.slot<int64_t>(t.body->pid_slots[g]);
  return r;
}

}  // namespace pallasim::interp
