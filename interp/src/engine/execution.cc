#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "../ops/bodies.h"
#include "engine.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

std::atomic<uint64_t> g_interrupt_epoch{0};

void poison(std::byte* at, int64_t count, ir::DType t, Options::Fill fill) {
  const memory::Element e = memory::uninitialized(t, fill);
  const int64_t one = 1;
  fill_strided(at, &one, &e, &count, 1, ir::byte_size(t));
}

void Execution::poison_gaps(const Unwritten& u) const {
  const int64_t size = ir::byte_size(u.dtype);
  u.written.for_gaps(u.bytes, [&](int64_t begin, int64_t end) {
    poison(u.at + begin, (end - begin) / size, u.dtype, options->uninitialized);
  });
}

namespace {
std::byte* align(std::byte* q) { return q + (64 - reinterpret_cast<uintptr_t>(q) % 64) % 64; }
int64_t image_bytes(const Plan& p) { return static_cast<int64_t>((p.image.size() + 63) / 64 * 64); }
}  // namespace

Execution::Execution(const Plan& p) : plan(&p) {
  for (size_t i = 0; i < p.allocations.size(); ++i)
    if (!p.allocations[i].private_to_thread()) shared_memory.push_back({i, {}});
  strips_ = std::make_unique<std::byte[]>(static_cast<size_t>(p.max_strips) * kStripBytes + 64);
}

std::unique_ptr<Execution::Arena> Execution::new_arena() {
  const Plan& p = *plan;
  auto a = std::make_unique<Arena>();
  const int64_t image = image_bytes(p);
  a->memory = std::unique_ptr<std::byte[]>(new std::byte[static_cast<size_t>(image + p.temp_bytes + 64)]);
  a->at = align(a->memory.get());
  a->bases.assign(p.num_buffers, nullptr);
  a->bases[kSlotBuffer] = a->at;
  a->bases[kTempBuffer] = a->at + image;
  a->bases[kConstBuffer] = const_cast<std::byte*>(p.constants.data());
  return a;
}

void Execution::bind_arena(Arena& a, int32_t thread) const {
  const std::vector<std::byte*>& own = operands[static_cast<size_t>(units.device_of(memory::Level::Thread, thread))];
  std::copy(own.begin(), own.end(), a.bases.begin() + kFirstOperandBuffer);
  for (const SharedMemory& m : shared_memory) {
    const memory::Allocation& of = plan->allocations[m.allocation];
    a.bases[of.buffer] =
        align(const_cast<std::byte*>(m.of_units[static_cast<size_t>(units.unit_of(of.owner, thread))].data()));
  }
}

Execution::~Execution() = default;

void Execution::bind(std::span<const std::vector<std::byte*>> arrays, std::span<const int64_t> grid_sizes,
                     int32_t first) {
  operands.assign(arrays.begin(), arrays.end());
  interrupt_epoch = g_interrupt_epoch.load(std::memory_order_relaxed);
  first_device = first;
  if (const auto n = static_cast<int32_t>(operands.size()); n != devices || !bound) {
    bound = true;
    devices = n;
    semaphores = memory::Semaphores(plan->semaphores.total(n));
    units = memory::Units(plan->units.meshes(), devices);
  }
  for (SharedMemory& m : shared_memory) {
    const memory::Allocation& of = plan->allocations[m.allocation];
    while (static_cast<int64_t>(m.of_units.size()) < units.count(of.owner))
      m.of_units.emplace_back(static_cast<size_t>(of.bytes) + 64);
  }
  grid.assign(grid_sizes.begin(), grid_sizes.end());
  // Affine windows stay inside for the whole grid exactly when they do at its corners.
  check_windows = false;
  for (const Window& w : plan->windows) {
    if (w.index.empty() || !w.affine || w.edge) continue;
    for (size_t d = 0; d < w.dims.size(); ++d) {
      int64_t lo = w.index[d].constant, hi = lo;
      for (size_t g = 0; g < grid.size(); ++g) {
        const int64_t reach = memory::mul(w.index[d].coefficient[g], std::max<int64_t>(grid[g] - 1, 0));
        int64_t& end = reach < 0 ? lo : hi;
        end = memory::add(end, reach);
      }
      lo = memory::add(memory::mul(lo, w.scale[d]), -w.pad_lo[d]),
      hi = memory::add(memory::mul(hi, w.scale[d]), -w.pad_lo[d]);
      if (lo < 0 || memory::add(hi, w.extent[d]) > w.dims[d]) check_windows = true;
    }
  }
}

GridPart Execution::make_part(GridBox box) const {
  const Plan& p = *plan;
  const size_t windows = p.moving.size();
  GridPart r{std::move(box), std::vector<int64_t>(p.pid_slots.size() * windows)};
  for (size_t g = 0; g < p.pid_slots.size(); ++g)
    for (size_t m = 0; m < windows; ++m) {
      int64_t by = p.moving[m].step[g];
      for (size_t e = g + 1; e < p.pid_slots.size(); ++e)
        by = memory::add(by, memory::mul(p.moving[m].step[e], r.box.lo[e] + 1 - r.box.hi[e]));
      r.advance[g * windows + m] = by;
    }
  return r;
}

namespace {
// Positions of the core axis that each core runs: equal runs, the last ones shorter.
int64_t core_share(const Plan& p, const std::vector<int64_t>& grid) {
  return std::max<int64_t>(1, (grid[static_cast<size_t>(p.core_axis)] + p.cores - 1) / p.cores);
}
}  // namespace

int Execution::core_of(const Thread& t) const {
  const Plan& p = *plan;
  if (p.core_axis < 0 || p.num_threads > 1) return t.index % p.num_threads;
  const auto g = static_cast<size_t>(p.core_axis);
  const int64_t at = t.slot<int64_t>(options->grid_order.empty() ? p.pid_slots[g] : p.place_slots[g]);
  return static_cast<int>(at / core_share(p, grid));
}

void Execution::start(const GridBox& b) {
  const Plan& p = *plan;
  parts.clear();
  if (p.core_axis >= 0 && p.num_threads > 1) {
    const auto g = static_cast<size_t>(p.core_axis);
    const int64_t share = core_share(p, grid);
    for (int core = 0; core < p.cores; ++core) {
      GridBox own = b;
      own.lo[g] = std::min(b.hi[g], core * share);
      own.hi[g] = std::min(b.hi[g], own.lo[g] + share);
      parts.push_back(make_part(std::move(own)));
    }
  } else {
    parts.push_back(make_part(b));
  }
  semaphores.reset();
  copies.clear();
  copies_issued = 0;
  woken.clear();
  prints.clear();
  findings.clear();
  noted.clear();
  visits.clear();
  steps = 0;
  const Options::Fill mode = options ? options->uninitialized : Options::Fill::Nan;
  for (SharedMemory& m : shared_memory) {
    const memory::Allocation& of = p.allocations[m.allocation];
    for (std::vector<std::byte>& one : m.of_units) poison(align(one.data()), of.elements(), of.dtype, mode);
  }
  points = spins = 0;
  points_ended.store(0, std::memory_order_relaxed);
  threads.resize(static_cast<size_t>(devices) * static_cast<size_t>(p.num_threads));
  while (arenas.size() < threads.size()) arenas.push_back(new_arena());
  for (size_t i = 0; i < threads.size(); ++i) {
    Thread& t = threads[i];
    t = {};
    bind_arena(*arenas[i], static_cast<int32_t>(i));
    t.arena = arenas[i]->at;
    t.bases = arenas[i]->bases.data();
    t.exec = this;
    t.strips = align(strips_.get());
    t.index = static_cast<int32_t>(i);
    enter(t);
  }
}

void Execution::enter(Thread& t) {
  const Plan& p = *plan;
  const Options::Fill mode = options ? options->uninitialized : Options::Fill::Nan;
  std::copy(p.image.begin(), p.image.end(), t.arena);
  for (const memory::Allocation& a : p.allocations)
    if (a.private_to_thread() && a.lifetime == memory::Allocation::Lifetime::Launch)
      poison(t.bases[kTempBuffer] + a.offset, a.elements(), a.dtype, mode);
  for (const Window& w : p.windows)
    if (w.slots) poison(t.bases[kTempBuffer] + w.stage_offset, w.slots * w.slot_bytes / w.element_bytes, w.dtype, mode);
  int64_t device = first_device + device_of(t), rest = t.index;
  for (size_t a = p.device_axes.size(); a-- > 0;) {
    const Plan::DeviceAxis& axis = p.device_axes[a];
    t.slot<int64_t>(axis.slot) = device % axis.size;
    device /= axis.size;
  }
  size_t slot = p.mesh_slots.size();
  for (size_t m = p.module.meshes.size(); m-- > 0;)
    for (size_t a = p.module.meshes[m].axes.size(); a-- > 0;) {
      const int64_t n = p.module.meshes[m].axes[a].size;
      t.slot<int64_t>(p.mesh_slots[--slot]) = rest % n;
      rest /= n;
    }
  t.pc = p.entry;
  t.stop = Stop::None;
  t.wait_sem = -1;
}

void Execution::start_programs(int64_t resident) {
  GridBox whole{std::vector<int64_t>(grid.size(), 0), grid};
  start(whole);
  points = 1;
  for (int64_t n : grid) points *= n;
  free_arenas.clear();
  for (size_t i = 0; i < arenas.size(); ++i) {
    bind_arena(*arenas[i], 0);
    free_arenas.push_back(static_cast<int32_t>(i));
  }
  threads.assign(static_cast<size_t>(std::min(resident, points)), {});
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].index = static_cast<int32_t>(i);
    threads[i].point = static_cast<int64_t>(i);
    threads[i].exec = this;
    threads[i].strips = align(strips_.get());
  }
  next_point = static_cast<int64_t>(threads.size());
}

void Execution::begin_program(Thread& t) {
  if (free_arenas.empty()) {
    const int64_t each = image_bytes(*plan) + plan->temp_bytes;
    if (memory::mul(each, static_cast<int64_t>(arenas.size()) + 1) > options->max_memory) {
      too_many_programs(*this, each);
    }
    arenas.push_back(new_arena());
    bind_arena(*arenas.back(), 0);
    free_arenas.push_back(static_cast<int32_t>(arenas.size()) - 1);
  }
  t.home = free_arenas.back();
  free_arenas.pop_back();
  Arena& a = *arenas[static_cast<size_t>(t.home)];
  t.arena = a.at;
  t.bases = a.bases.data();
  enter(t);
}

bool Execution::next_program(Thread& t) {
  if (t.home >= 0) free_arenas.push_back(t.home);
  t.home = -1;
  t.arena = nullptr;
  t.pc = nullptr;
  if (next_point >= points) return false;
  t.point = next_point++;
  t.stop = Stop::None;
  return true;
}

Stop Execution::run(Thread& t, int64_t budget) {
  const Step* s = t.pc;
  t.stop = Stop::None;
  int64_t left = budget;
  const uint64_t epoch = interrupt_epoch;
  try {
    while (left > 0 && g_interrupt_epoch.load(std::memory_order_relaxed) == epoch) {
      --left;
      const Step* next = s->fn(t, s);
      if (!next) {
        steps += budget - left;
        return t.stop;
      }
      s = next;
    }
  } catch (...) {
    steps += budget - left;
    t.pc = s;
    throw;
  }
  t.pc = s;
  steps += budget - left;
  return Stop::None;
}

int64_t Execution::linear_point(const Thread& t) const {
  int64_t r = 0;
  for (size_t g = 0; g < grid.size(); ++g) r = r * grid[g] + t.slot<int64_t>(plan->pid_slots[g]);
  return r;
}

}  // namespace pallasim::interp
