#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "pallasim/memory/uninitialized.h"
#include "steps.h"

namespace pallasim::interp {

std::atomic<bool> interrupt_requested{false};

Plan::Plan() = default;
Plan::~Plan() = default;

void poison(std::byte* at, int64_t count, ir::DType t, Options::Fill fill) {
  const memory::Element e = memory::uninitialized(t, fill);
  const int64_t one = 1;
  fill_strided(at, &one, &e, &count, 1, ir::byte_size(t));
}

namespace {
std::byte* align(std::byte* q) { return q + (64 - reinterpret_cast<uintptr_t>(q) % 64) % 64; }
int64_t image_bytes(const Plan& p) { return static_cast<int64_t>((p.image.size() + 63) / 64 * 64); }
}  // namespace

Execution::Execution(const Plan& p) : plan(&p) {
  strips_ = std::make_unique<std::byte[]>(static_cast<size_t>(p.max_strips) * kStripBytes + 64);
  for (const Plan::Shared& s : p.shared) shared_memory.emplace_back(static_cast<size_t>(s.bytes) + 64);
  semaphores = memory::Semaphores(p.semaphores.total(p.num_threads));
  box.lo.resize(p.pid_slots.size());
  box.hi.resize(p.pid_slots.size());
  advance.resize(p.pid_slots.size() * p.moving.size());
}

std::unique_ptr<Execution::Arena> Execution::new_arena() const {
  const Plan& p = *plan;
  auto a = std::make_unique<Arena>();
  const int64_t image = image_bytes(p);
  a->memory = std::unique_ptr<std::byte[]>(new std::byte[static_cast<size_t>(image + p.temp_bytes + 64)]);
  a->at = align(a->memory.get());
  a->bases.assign(p.num_buffers, nullptr);
  a->bases[kSlotBuffer] = a->at;
  a->bases[kTempBuffer] = a->at + image;
  a->bases[kConstBuffer] = const_cast<std::byte*>(p.constants.data());
  for (size_t k = 0; k < p.shared.size(); ++k)
    a->bases[p.shared[k].buffer] = align(const_cast<std::byte*>(shared_memory[k].data()));
  bind_arena(*a);
  return a;
}

void Execution::bind_arena(Arena& a) const {
  std::copy(operands_.begin(), operands_.end(), a.bases.begin() + kFirstOperandBuffer);
}

Execution::~Execution() = default;

void Execution::bind(std::span<std::byte* const> operands, std::span<const int64_t> grid_sizes) {
  operands_.assign(operands.begin(), operands.end());
  for (const auto& a : arenas) bind_arena(*a);
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
      lo = memory::add(memory::mul(lo, w.scale[d]), -w.pad_lo[d]), hi = memory::add(memory::mul(hi, w.scale[d]), -w.pad_lo[d]);
      if (lo < 0 || memory::add(hi, w.extent[d]) > w.dims[d]) check_windows = true;
    }
  }
}

void Execution::start(const GridBox& b) {
  const Plan& p = *plan;
  box = b;
  semaphores.reset();
  copies.clear();
  copies_issued = 0;
  woken.clear();
  prints.clear();
  findings.clear();
  noted.clear();
  steps = 0;
  print_sequence = 0;
  const size_t windows = p.moving.size();
  for (size_t g = 0; g < p.pid_slots.size(); ++g)
    for (size_t m = 0; m < windows; ++m) {
      int64_t by = p.moving[m].step[g];
      for (size_t e = g + 1; e < p.pid_slots.size(); ++e)
        by = memory::add(by, memory::mul(p.moving[m].step[e], box.lo[e] + 1 - box.hi[e]));
      advance[g * windows + m] = by;
    }
  const Options::Fill mode = options ? options->uninitialized : Options::Fill::Nan;
  for (size_t k = 0; k < p.shared.size(); ++k) {
    if (ir::is_sync(p.shared[k].dtype)) continue;
    poison(align(shared_memory[k].data()), p.shared[k].count, p.shared[k].dtype, mode);
  }
  points = spins = 0;
  threads.resize(static_cast<size_t>(p.num_threads));
  while (arenas.size() < threads.size()) arenas.push_back(new_arena());
  for (size_t i = 0; i < threads.size(); ++i) {
    Thread& t = threads[i];
    t = {};
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
  for (const Plan::Poison& q : p.poison) poison(t.bases[kTempBuffer] + q.offset, q.count, q.dtype, mode);
  int64_t rest = t.index;
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
  free_.clear();
  for (const auto& a : arenas) free_.push_back(a.get());
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
  if (free_.empty()) {
    const int64_t each = image_bytes(*plan) + plan->temp_bytes;
    if (memory::mul(each, static_cast<int64_t>(arenas.size()) + 1) > options->max_memory) {
      ir::Diagnostic d;
      d.code = "PS-SIZE-001";
      d.kernel = plan->module.name;
      d.message = fmt::format("too much memory: {} programs wait for each other, each takes {} bytes; the limit is {}", arenas.size(), each,
                              options->max_memory);
      d.hint = "fewer programs, smaller blocks, or a higher max_memory";
      throw ir::DiagnosticError(std::move(d));
    }
    arenas.push_back(new_arena());
    free_.push_back(arenas.back().get());
  }
  Arena& a = *free_.back();
  free_.pop_back();
  t.arena = a.at;
  t.bases = a.bases.data();
  enter(t);
}

bool Execution::next_program(Thread& t) {
  for (const auto& a : arenas)
    if (a->at == t.arena) free_.push_back(a.get());
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
  try {
    while (left > 0) {
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
  steps += budget;
  return Stop::None;
}

int64_t Execution::linear_point(const Thread& t) const {
  int64_t r = 0;
  for (size_t g = 0; g < grid.size(); ++g) r = r * grid[g] + t.slot<int64_t>(plan->pid_slots[g]);
  return r;
}

Execution::Snapshot Execution::snapshot(std::span<const int64_t> operand_bytes) const {
  Snapshot r;
  for (const auto& a : arenas) r.arenas.emplace_back(a->at, a->at + image_bytes(*plan) + plan->temp_bytes);
  for (size_t i = 0; i < operand_bytes.size(); ++i) {
    const std::byte* at = arenas[0]->bases[kFirstOperandBuffer + i];
    r.buffers.emplace_back(at, at + operand_bytes[i]);
  }
  for (size_t k = 0; k < shared_memory.size(); ++k) {
    const std::byte* at = arenas[0]->bases[plan->shared[k].buffer];
    r.buffers.emplace_back(at, at + plan->shared[k].bytes);
  }
  r.semaphores = semaphores;
  r.copies = copies;
  r.copies_issued = copies_issued;
  for (const Thread& t : threads)
    r.threads.push_back({static_cast<int32_t>(t.pc - plan->entry), t.wait_value, t.wait_sem, t.stop});
  r.steps = steps;
  return r;
}

void Execution::restore(const Snapshot& s, std::span<const int64_t> operand_bytes) {
  for (size_t i = 0; i < arenas.size(); ++i) std::copy(s.arenas[i].begin(), s.arenas[i].end(), arenas[i]->at);
  for (size_t i = 0; i < operand_bytes.size(); ++i)
    std::copy(s.buffers[i].begin(), s.buffers[i].end(), arenas[0]->bases[kFirstOperandBuffer + i]);
  for (size_t k = 0; k < shared_memory.size(); ++k)
    std::copy(s.buffers[operand_bytes.size() + k].begin(), s.buffers[operand_bytes.size() + k].end(),
              arenas[0]->bases[plan->shared[k].buffer]);
  semaphores = s.semaphores;
  copies = s.copies;
  copies_issued = s.copies_issued;
  woken.clear();
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].pc = plan->entry + s.threads[i].pc;
    threads[i].wait_value = s.threads[i].wait_value;
    threads[i].wait_sem = s.threads[i].wait_sem;
    threads[i].stop = s.threads[i].stop;
  }
  steps = s.steps;
}

ir::Diagnostic diagnostic_at(const Thread& t, const Step* s, std::string code, std::string message) {
  const Plan& p = *t.exec->plan;
  ir::Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.kernel = p.module.name;
  if (p.num_threads > 1) d.thread = fmt::format("thread {} of {}", t.index, p.num_threads);
  if (!p.pid_slots.empty()) {
    d.has_grid_point = true;
    for (uint32_t slot : p.pid_slots) d.grid_point.push_back(t.slot<int64_t>(slot));
  }
  d.site = ir::site_of(p.module, s->loc);
  return d;
}

void fail(const Thread& t, const Step* s, std::string code, std::string message, std::vector<std::string> numbers, std::string hint) {
  ir::Diagnostic d = diagnostic_at(t, s, std::move(code), std::move(message));
  d.numbers = std::move(numbers);
  d.hint = std::move(hint);
  throw ir::DiagnosticError(std::move(d));
}

}  // namespace pallasim::interp
