// Which threads there are: all at once, or programs that begin when others end; and what each begins with.
#include <algorithm>

#include "bodies.h"
#include "dispatch_order.h"
#include "findings.h"

namespace pallasim::interp {

GridPart Execution::make_part(GridBox box) const {
  const Body& p = plan->first();
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
  return std::max<int64_t>(1, (grid[static_cast<size_t>(p.threads.core_axis)] + p.threads.cores - 1) / p.threads.cores);
}

}  // namespace

int Execution::core_of(const Thread& t) const {
  const Plan& p = *plan;
  if (p.threads.core_axis < 0 || p.threads.count > 1) return t.unit % device_threads;
  const auto g = static_cast<size_t>(p.threads.core_axis);
  const int64_t at = t.slot<int64_t>(options->grid_order.empty() ? t.body->pid_slots[g] : t.body->place_slots[g]);
  return static_cast<int>(at / core_share(p, grid));
}

std::unique_ptr<Execution::Arena> Execution::new_arena(const Body& b) {
  auto a = std::make_unique<Arena>();
  a->memory.resize(static_cast<size_t>(b.image_bytes() + std::max(b.temp_bytes, b.child_bytes)));
  a->bases.assign(plan->memory.num_buffers, nullptr);
  a->bases[kConstBuffer] = const_cast<std::byte*>(plan->memory.constants.data());
  return a;
}

// The arena at the thread's home is its own from now on: its slots, and temporaries in buffer `temps`.
void Execution::take_arena(Thread& t, uint32_t temps) {
  Arena& a = arena_of(t);
  t.arena = a.memory.data();
  t.bases = a.bases.data();
  t.temps = temps;
  a.bases[kSlotBuffer] = t.arena;
  a.bases[temps] = t.arena + t.body->image_bytes();
}

int32_t Execution::take_free_arena(const Body& b) {
  if (free_arenas.empty()) {
    int64_t each = b.image_bytes() + std::max(b.temp_bytes, b.child_bytes);
    for (const SharedMemory& m : shared_memory)
      if (const memory::Allocation& of = plan->memory.allocations[m.allocation]; of.owner != memory::Level::Device)
        each = memory::add(each, of.bytes);
    if (memory::mul(each, static_cast<int64_t>(arenas.size()) + 1) > options->max_memory)
      diagnostics->too_many_programs(*this, each);
    arenas.push_back(new_arena(b));
    aliases.resize(arenas.size());
    return static_cast<int32_t>(arenas.size()) - 1;
  }
  const int32_t r = free_arenas.back();
  free_arenas.pop_back();
  return r;
}

void Execution::bind_arena(Arena& a, int32_t unit) const {
  const std::vector<std::byte*>& own = operands[static_cast<size_t>(units.device_of(memory::Level::Thread, unit))];
  std::copy(own.begin(), own.end(), a.bases.begin() + kFirstOperandBuffer);
  for (const SharedMemory& m : shared_memory) {
    const memory::Allocation& of = plan->memory.allocations[m.allocation];
    a.bases[of.buffer] = const_cast<std::byte*>(m.of_units[static_cast<size_t>(units.unit_of(of.owner, unit))].data());
  }
}

void Execution::rebind() {
  aliases.resize(arenas.size());
  const auto is_child = [](const Thread& t) { return t.parent >= 0; };
  for (Thread& t : threads) {
    t.exec = this;
    t.strips = host.strips_of(0);
    if (t.home < 0 || is_child(t)) continue;
    bind_arena(arena_of(t), t.unit);
    take_arena(t, t.temps);
  }
  for (Thread& t : threads) {
    if (t.home < 0 || !is_child(t)) continue;
    t.bases = arena_of(t).bases.data();  // of one that ended copies may still be in flight
    if (t.stop == Stop::Done) continue;
    arena_of(t).bases = arena_of(threads[static_cast<size_t>(t.parent)]).bases;
    take_arena(t, t.temps);
  }
  const std::vector<uint32_t>& numbers = plan->memory.aliases;
  for (Thread& t : threads)
    for (size_t i = 0; t.arena && i < numbers.size(); ++i) arena_of(t).bases[numbers[i]] = base_of(aliases_of(t)[i]);
}

std::byte* Execution::base_of(const BufferAlias& a) const {
  if (a.buffer == 0) return nullptr;
  if (a.thread < 0) return operand(~a.thread, a.buffer);
  const Thread& of = threads[static_cast<size_t>(a.thread)];
  return of.bases ? of.bases[a.buffer] : nullptr;
}

namespace {
size_t place_of(const Plan& p, uint32_t buffer) {
  const std::vector<uint32_t>& all = p.memory.aliases;
  return static_cast<size_t>(std::lower_bound(all.begin(), all.end(), buffer) - all.begin());
}
}  // namespace

void Execution::set_alias(Thread& t, uint32_t buffer, BufferAlias of) {
  BufferAlias& known = aliases_of(t)[place_of(*plan, buffer)];
  if (known == of) return;
  if (of.thread == t.index && plan->memory.is_alias(of.buffer)) of = aliases_of(t)[place_of(*plan, of.buffer)];
  known = of;
  arena_of(t).bases[buffer] = base_of(of);
}

std::pair<int32_t, uint32_t> Execution::stands_for(const Thread& t, uint32_t buffer) const {
  const BufferAlias& a = aliases[static_cast<size_t>(t.home)][place_of(*plan, buffer)];
  if (a.thread >= 0) return {a.thread, a.buffer};
  return {device_of(t) == ~a.thread ? t.index : ~a.thread * device_threads, a.buffer};
}

memory::Place Execution::place(const Thread& t, uint32_t buffer, int64_t offset) const {
  if (!plan->memory.is_alias(buffer)) return {t.index, buffer, offset};
  const BufferAlias& a = aliases[static_cast<size_t>(t.home)][place_of(*plan, buffer)];
  return {a.thread, a.buffer, offset};
}

Thread& Execution::begin_child(Thread& parent, int64_t i, uint32_t temps) {
  const Body& b = *parent.body;
  Thread& c = child(parent, i);
  const auto index = static_cast<int32_t>(&c - threads.data());
  const int64_t issued = c.issued;
  c = parent;
  c.issued = issued;
  c.index = index;
  c.parent = parent.index;
  c.children = 0;
  c.wait = {};
  c.stop = Stop::None;
  if (points > 0) {
    c.home = take_free_arena(b);
  } else {
    c.home = index;
    if (std::unique_ptr<Arena>& a = arenas[static_cast<size_t>(index)]; !a) a = new_arena(b);
  }
  arena_of(c).bases.assign(parent.bases, parent.bases + plan->memory.num_buffers);
  aliases_of(c) = aliases_of(parent);
  take_arena(c, temps);
  std::copy(parent.arena, parent.arena + b.image_bytes(), c.arena);
  return c;
}

// Copies that a thread left in flight go on in memory that was its parent's all the time: its own arena may be another
// one's soon.
static void leave_copies(Execution& ex, const Thread& c) {
  const auto of_child = [&](const memory::Side& s) { return s.place.thread == c.index && s.place.buffer != c.temps; };
  bool any = false;
  for (size_t i = 0; i < ex.copies.size() && !any; ++i)
    any = ex.copies[i].reads.any(of_child) || ex.copies[i].writes.any(of_child);
  if (!any) return;
  std::vector<memory::AsyncOperation> all;
  while (!ex.copies.empty()) all.push_back(ex.copies.take(0));
  for (memory::AsyncOperation& op : all) {
    for (auto* sides : {&op.reads, &op.writes})
      for (memory::Side& s : *sides)
        if (of_child(s)) s.place.thread = c.parent;
    ex.copies.push(std::move(op));
  }
}

void Execution::end_child(Thread& c) {
  Thread& parent = threads[static_cast<size_t>(c.parent)];
  leave_copies(*this, c);
  if (points > 0) free_arenas.push_back(c.home);
  c.arena = nullptr;
  if (--parent.children == 0 && parent.stop == Stop::Blocked && parent.wait.kind == Wait::Kind::Join)
    woken.push_back(parent.index);
}

void Execution::reset(const GridBox& b) {
  const Plan& p = *plan;
  parts.clear();
  if (p.threads.core_axis >= 0 && p.threads.count > 1) {
    const auto g = static_cast<size_t>(p.threads.core_axis);
    const int64_t share = core_share(p, grid);
    for (int core = 0; core < p.threads.cores; ++core) {
      GridBox own = b;
      own.lo[g] = std::min(b.hi[g], core * share);
      own.hi[g] = std::min(b.hi[g], own.lo[g] + share);
      parts.push_back(make_part(std::move(own)));
    }
  } else {
    parts.push_back(make_part(b));
  }
  semaphores.reset();
  barriers = first_barriers_;
  barriers_told = 0;
  copies.clear();
  copies_issued = 0;
  woken.clear();
  log.clear();
  steps = 0;
  const Options::Fill mode = options ? options->uninitialized : Options::Fill::Nan;
  for (SharedMemory& m : shared_memory) {
    const memory::Allocation& of = p.memory.allocations[m.allocation];
    for (Bytes& one : m.of_units)
      if (!one.empty() && plan->memory.elidable_of(m.allocation) < 0 && fills(of.space))
        poison(one.data(), of.elements(), of.dtype, mode);
  }
  points = spins = 0;
  next_points.clear();
  claims.clear();
  answers = {};
  host.points_ended.store(0, std::memory_order_relaxed);
}

void Execution::rest() {
  parts.clear();
  deferred_init.clear();
  log.clear();
}

void Execution::clear_elided() {
  elided.resize(plan->memory.elidable.size() * static_cast<size_t>(unit_threads));
  for (ElidedCopies& l : elided) l.reset();
}

// Of each engine one per thread: the bulk streams first.
void Execution::reset_streams() {
  const auto last = plan->threads.tensor_memory ? memory::AsyncEngine::TensorStores : memory::AsyncEngine::Products;
  streams.reset(static_cast<size_t>(last) * threads.size(), threads.size());
}

void Execution::start(const GridBox& b) {
  reset(b);
  clear_elided();
  threads.assign(static_cast<size_t>(unit_threads * (1 + max_children)), {});
  reset_streams();
  arenas.resize(std::max(arenas.size(), threads.size()));
  aliases.resize(arenas.size());
  for (Thread& t : threads) t.stop = Stop::Done;  // until it begins
  for (int32_t device = 0; device < devices; ++device)
    for (const auto& body : plan->bodies)
      for (int64_t n = 0; n < body->threads; ++n) {
        const int32_t i = device * device_threads + body->thread(n);
        Thread& t = threads[static_cast<size_t>(i)];
        t.exec = this;
        t.strips = host.strips_of(0);
        t.index = t.unit = i;
        t.body = body.get();
        if (!population.runs(i)) continue;
        std::unique_ptr<Arena>& a = arenas[static_cast<size_t>(i)];
        if (!a) a = new_arena(*body);
        t.home = i;
        bind_arena(*a, i);
        take_arena(t, body->temps);
        enter(t, *body, n);
      }
}

void Execution::enter(Thread& t, const Body& b, int64_t n) {
  const Options::Fill mode = options ? options->uninitialized : Options::Fill::Nan;
  std::copy(b.image.begin(), b.image.end(), t.arena);
  aliases_of(t).assign(plan->memory.aliases.size(), {});
  for (size_t i = 0; i < plan->memory.allocations.size(); ++i)
    if (const memory::Allocation& a = plan->memory.allocations[i];
        a.private_to_thread() && a.buffer == b.temps && a.lifetime == memory::Allocation::Lifetime::Launch) {
      if (const int32_t e = plan->memory.elidable_of(i); e >= 0) elided_copies(e, t.unit).clear();
      else if (fills(a.space)) poison(t.bases[a.buffer] + a.offset, a.elements(), a.dtype, mode);
    }
  for (const Window& w : b.windows)
    if (const Window::Modelled* m = w.modelled();
        m && fills(plan->module.operands[static_cast<size_t>(w.operand)].space))
      poison(t.bases[b.temps] + m->stage.offset, m->slots * m->slot_bytes / w.element_bytes, w.dtype, mode);
  int64_t device = first_device + device_of(t);
  for (size_t a = plan->threads.device_axes.size(); a-- > 0;) {
    t.slot<int64_t>(b.device_slots[a]) = device % plan->threads.device_axes[a].size;
    device /= plan->threads.device_axes[a].size;
  }
  for (size_t a = b.axis_slots.size(); a-- > 0;) {
    const int64_t size = plan->module.meshes[static_cast<size_t>(b.mesh)].axes[a].size;
    t.slot<int64_t>(b.axis_slots[a]) = n % size;
    n /= size;
  }
  t.body = &b;
  t.pc = b.entry;
  t.stop = Stop::None;
  t.wait = {};
}

void Execution::start_programs() {
  reset({std::vector<int64_t>(grid.size(), 0), grid});
  points = population.first + population.programs * population.stride;
  free_arenas.clear();
  for (size_t i = 0; i < arenas.size(); ++i) free_arenas.push_back(static_cast<int32_t>(i));
  const auto resident = static_cast<size_t>(std::min(population.resident, population.programs));
  const size_t places = resident * static_cast<size_t>(devices);
  begun.assign(places, -1);
  unit_threads = static_cast<int64_t>(places) * population.crew;
  clear_elided();
  threads.assign(static_cast<size_t>(unit_threads * (1 + max_children)), {});
  reset_streams();
  for (size_t i = static_cast<size_t>(unit_threads); i < threads.size(); ++i) threads[i].stop = Stop::Done;
  for (size_t i = 0; i < static_cast<size_t>(unit_threads); ++i) {
    threads[i].index = threads[i].unit = static_cast<int32_t>(i);
    const auto place = static_cast<int64_t>(i / static_cast<size_t>(population.crew) % resident);
    threads[i].point = program_at(*plan, grid, population.first + place * population.stride);
    threads[i].exec = this;
    threads[i].body = &plan->first();
    threads[i].strips = host.strips_of(0);
  }
  next_points.assign(static_cast<size_t>(devices),
                     population.first + static_cast<int64_t>(resident) * population.stride);
}

// What the threads of a program share comes with the first of them that runs.
void Execution::begin_crew(int64_t place) {
  const Thread& first = threads[static_cast<size_t>(place * population.crew)];
  if (begun[static_cast<size_t>(place)] == first.point) return;
  begun[static_cast<size_t>(place)] = first.point;
  for (SharedMemory& m : shared_memory) {
    const memory::Allocation& of = plan->memory.allocations[m.allocation];
    if (of.owner == memory::Level::Device) continue;
    for (int32_t i = 0; i < population.crew; ++i) {
      Bytes& one = m.of_units[static_cast<size_t>(units.unit_of(of.owner, first.index + i))];
      if (!one.empty() || of.bytes == 0) continue;
      if (!m.free.empty()) {
        one = std::move(m.free.back());
        m.free.pop_back();
      } else {
        one.resize(static_cast<size_t>(of.bytes));
      }
      if (const int32_t e = plan->memory.elidable_of(m.allocation); e >= 0) elided_copies(e, first.index + i).clear();
      else if (fills(of.space)) poison(one.data(), of.elements(), of.dtype, options->uninitialized);
      events->memory({MemoryEvent::What::Given, first.index + i, of.buffer, 0, of.bytes});
    }
  }
}

void Execution::begin_program(Thread& t) {
  const Body& b = plan->first();
  begin_crew(t.index / population.crew);
  t.home = take_free_arena(b);
  bind_arena(arena_of(t), t.unit);
  take_arena(t, b.temps);
  events->memory({MemoryEvent::What::Given, t.index, b.temps, 0, b.temp_bytes});
  enter(t, b, t.point * population.crew + t.index % population.crew);
}

// Nothing of a program is left behind: what it leaves in semaphores is a finding.
void Execution::end_crew(int64_t place, Thread& last) {
  const auto first = static_cast<int32_t>(place * population.crew);
  // Its memory is the next program's: copies that still use it move now.
  for (size_t i = 0; i < copies.size();) {
    const int32_t by = threads[static_cast<size_t>(copies[i].thread)].unit;  // of a warp its warpgroup's
    if (by >= first && by < first + population.crew) ops::complete_copy(*this, i);
    else ++i;
  }
  for (int32_t i = 0; i < population.crew; ++i) answers.forget(units.unit_of(memory::Level::Core, first + i));
  for (size_t b = 0; b < semaphore_layout.blocks().size(); ++b) {
    const memory::SemaphoreBlock& block = semaphore_layout.blocks()[b];
    if (block.owner == memory::Level::Device || has_early_semaphores()) continue;
    for (int32_t i = 0; i < population.crew; ++i)
      for (int64_t k = 0; k < block.count; ++k) {
        const int64_t id = semaphore_layout.id(static_cast<int>(b), k, first + i);
        diagnostics->left_over(last, last.pc, id);
        events->sync({SyncEvent::What::Emptied, -1, id});
      }
  }
  const auto each_barrier = [&](const auto& f) {
    for (size_t b = 0; b < plan->memory.barriers.size(); ++b)
      for (int32_t i = 0; i < population.crew && plan->memory.barriers[b].owner != memory::Level::Device; ++i)
        for (int64_t k = 0; k < plan->memory.barriers[b].count; ++k)
          f(barrier_layout.id_of_thread(static_cast<int>(b), k, first + i));
  };
  each_barrier([&](int64_t id) { diagnostics->barrier_left_over(last, last.pc, id); });
  each_barrier([&](int64_t id) {
    barriers.init(id, barriers[id].expected);
    events->sync({SyncEvent::What::Renewed, -1, id});
  });
  for (SharedMemory& m : shared_memory) {
    const memory::Allocation& of = plan->memory.allocations[m.allocation];
    if (of.owner == memory::Level::Device) continue;
    for (int32_t i = 0; i < population.crew; ++i) {
      Bytes& one = m.of_units[static_cast<size_t>(units.unit_of(of.owner, first + i))];
      if (!one.empty()) m.free.push_back(std::move(one));
      one.clear();
    }
  }
}

std::vector<int32_t> Execution::end_program(Thread& t) {
  const int64_t place = t.index / population.crew;
  const std::span<Thread> crew(threads.data() + place * population.crew, static_cast<size_t>(population.crew));
  if (std::any_of(crew.begin(), crew.end(), [](const Thread& x) { return x.stop != Stop::Done; })) return {};
  end_crew(place, t);
  int64_t& next_point = next_points[static_cast<size_t>(device_of(t))];
  const bool more = next_point < points;
  std::vector<int32_t> begin;
  for (Thread& x : crew) {
    free_arenas.push_back(x.home);
    x.home = -1;
    x.arena = nullptr;
    x.bases = nullptr;
    x.pc = nullptr;
    if (!more) continue;
    x.point = program_at(*plan, grid, next_point);
    x.stop = Stop::None;
    begin.push_back(x.index);
  }
  if (more) next_point += population.stride;
  return begin;
}

}  // namespace pallasim::interp
