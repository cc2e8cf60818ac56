// Stops and findings of bodies of steps, in words.
#include <fmt/format.h>

#include <algorithm>

#include "../ops/elements.h"
#include "../plan/payload/copies.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/places.h"
#include "index_words.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {

ir::Diagnostic diagnostic_at(const Thread& t, const Step* s, ir::Code code, std::string message) {
  return diagnostic_at(t, t.exec->plan->loc_of(*s), code, std::move(message));
}

ir::Diagnostic diagnostic_at(const Thread& t, ir::LocId loc, ir::Code code, std::string message) {
  const Plan& p = *t.exec->plan;
  ir::Diagnostic d = ir::Diagnostic(code, std::move(message)).of(p.module.name).at(ir::site_of(*t.exec->locs, loc));
  const Execution& ex = *t.exec;
  if (p.threads.num_devices() > 1)
    d.thread = fmt::format("device {} of {}", ex.first_device + ex.device_of(t), p.threads.num_devices());
  if (p.bodies.size() > 1 || t.parent >= 0 || (ex.points > 0 && t.body->mesh >= 0)) d.thread = name_of(t);
  else if (p.threads.count > 1)
    d.thread +=
        fmt::format("{}thread {} of {}", d.thread.empty() ? "" : ", ", t.unit % p.threads.count, p.threads.count);
  if (t.arena && !t.body->pid_slots.empty()) {
    d.has_grid_point = true;
    for (uint32_t slot : t.body->pid_slots) d.grid_point.push_back(t.slot<int64_t>(slot));
  }
  return d;
}

void fail(const Thread& t, ir::LocId loc, ir::Code code, std::string message, std::vector<std::string> numbers,
          std::string hint) {
  diagnostic_at(t, loc, code, std::move(message)).with(std::move(numbers)).hinted(std::move(hint)).raise();
}

void fail(const Thread& t, const Step* s, ir::Code code, std::string message, std::vector<std::string> numbers,
          std::string hint) {
  fail(t, t.exec->plan->loc_of(*s), code, std::move(message), std::move(numbers), std::move(hint));
}

void too_much_remembered(const Execution& ex, const std::string& what, int64_t bytes) {
  ir::Diagnostic("PS-SIZE-001",
                 fmt::format("too much memory: what a checked run remembers of {}, {} bytes; the limit is {}", what,
                             bytes, ex.options->max_memory))
      .of(ex.plan->module.name)
      .hinted("check a smaller case, or raise max_memory")
      .raise();
}

namespace {

// The units of all programs, and the number of a unit among them: a program of a mesh has its own place there, not that
// among the resident ones.
struct Planned {
  Planned(const Execution& ex, memory::Level level, int64_t unit, int64_t point)
      : units(ex.plan->threads.units.meshes(), ex.devices) {
    const int64_t first = ex.units.threads_of(level, unit).first, crew = ex.population.crew,
                  device = first / ex.device_threads, threads = units.per_device(memory::Level::Thread);
    number = units.unit_of(level, device * threads + point * crew + first % crew);
  }
  memory::Units units;
  int64_t number;
};

}  // namespace

std::string trip_of(const Thread& t, const Step& s) {
  const Plan& p = *t.exec->plan;
  std::string r;
  if (!t.arena) return r;
  for (const Step* next : loops_around(p, s))
    // Counters of 64 bits begin with their low half.
    r = fmt::format("trip {} of the loop at {}{}", t.slot<int32_t>(next->dst), where(*t.exec, p.loc_of(*next)),
                    r.empty() ? "" : ", " + r);
  return r;
}

std::vector<const Step*> loops_around(const Plan& p, const Step& s) {
  std::vector<const Step*> r;
  for (const Step& next : p.steps)
    if (next.kind == Kind::loop_next && next.jump <= &s && &s <= &next && p.loc_of(next) >= 0) r.push_back(&next);
  return r;
}

std::string index_text(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t d = dims.size(); d-- > 0;) at[d] = element % dims[d], element /= dims[d];
  return ops::shape_text(at);
}

bool all_ended(const Execution& ex) {
  return !ex.threads.empty() &&
         std::all_of(ex.threads.begin(), ex.threads.end(), [](const Thread& t) { return t.stop == Stop::Done; });
}

std::string name_of(const Thread& t) {
  const Execution& ex = *t.exec;
  if (t.parent >= 0 && t.warp < 0) {
    const Thread& parent = ex.threads[static_cast<size_t>(t.parent)];
    const int64_t i = (t.index - ex.unit_threads) % ex.max_children;
    return fmt::format("spawned thread {} of {}", i, name_of(parent));
  }
  using memory::Level;
  const auto number = [&](const memory::Units& units, int64_t thread) {
    return t.warp < 0 ? thread : units.unit_of(Level::Warp, thread) + t.warp;
  };
  const Level level = t.warp < 0 ? Level::Thread : Level::Warp;
  if (ex.points == 0) return ex.units.name(level, number(ex.units, t.unit));
  if (t.body->mesh < 0) return "program " + index_text(t.point, ex.grid);  // it has no place in a mesh
  const Planned p(ex, Level::Thread, t.unit, t.point);
  return p.units.name(level, number(p.units, p.number));
}

std::string core_name(const Thread& t) { return core_name(t, t.point); }

std::string core_name(const Thread& t, int64_t program) {
  const Execution& ex = *t.exec;
  const int64_t core = ex.units.unit_of(memory::Level::Core, t.unit);
  if (ex.points == 0) return ex.units.name(memory::Level::Core, core);
  const Planned p(ex, memory::Level::Core, core, program);
  return p.units.name(memory::Level::Core, p.number);
}

std::string object_name(const Execution& ex, Wait::Kind kind, int64_t id, int* block) {
  int of = -1;
  const bool barrier = kind == Wait::Kind::Barrier;
  std::string r = barrier ? ex.barrier_layout.name(id, &of) : ex.semaphore_layout.name(id, ex.devices, &of);
  if (block) *block = of;
  if (of < 0 || ex.points == 0 || (!barrier && ex.has_early_semaphores())) return r;
  // The layout knows places among the resident programs.
  const auto index = static_cast<size_t>(of);
  const memory::Level owner =
      barrier ? ex.plan->memory.barriers[index].owner : ex.semaphore_layout.blocks()[index].owner;
  if (owner == memory::Level::Device) return r;
  const int64_t count = barrier ? ex.plan->memory.barriers[index].count : ex.semaphore_layout.blocks()[index].count;
  const int64_t first = barrier ? ex.barrier_layout.blocks()[index].first : ex.semaphore_layout.blocks()[index].first;
  const int64_t unit = (id - first) / count;
  const std::string whose = ex.units.of(owner, unit);
  if (!r.ends_with(whose)) return r;
  r.resize(r.size() - whose.size());
  const int64_t point = ex.threads[static_cast<size_t>(ex.units.threads_of(owner, unit).first)].point;
  if (ex.plan->first().mesh < 0) return fmt::format("{} of program {}", r, point);
  const Planned p(ex, owner, unit, point);
  return r + p.units.of(owner, p.number);
}

namespace {

ir::LocId index_map_line(const Thread& t, const Step* s, const Window& w) {
  const ir::Operand& o = t.exec->plan->module.operands[static_cast<size_t>(w.operand)];
  const ir::LocId loc = o.index_map && !o.index_map->region.ops.empty() ? o.index_map->region.ops.back().loc : -1;
  return loc >= 0 ? loc : t.exec->plan->loc_of(*s);
}

std::string shapes_text(const ir::Operand& o, const Window& w) {
  return fmt::format("{} has shape ({}), blocks of ({})", o.name, fmt::join(w.dims, ", "),
                     fmt::join(w.map.extent, ", "));
}

// `index` is no block of dimension `d`; there may be none.
std::string block_hint(const Window& w, size_t d, int64_t index) {
  const std::string rule = "index maps return block indices, which are multiplied by the block shape";
  const int64_t extent = w.map.extent[d], blocks = extent ? (w.dims[d] + extent - 1) / extent : 0;
  if (extent > 1 && index > 0 && index % extent == 0 && index / extent < blocks)
    return fmt::format("{}: the block of element {} is {}, divide by {}", rule, index, index / extent, extent);
  if (blocks == 0) return rule;
  return fmt::format("{}; those of dimension {} are 0 to {}", rule, d, blocks - 1);
}

}  // namespace

namespace {

const Window* window_of(const Thread& t, const std::string& ref) {
  for (const Window& w : t.body->windows)
    if (t.exec->plan->module.operands[static_cast<size_t>(w.operand)].name == ref) return &w;
  return nullptr;
}

ir::Diagnostic outside_of_array(const Thread& t, const Step* s, const Window& w, size_t d, int64_t index);

// An access to a block of which the array has nothing.
[[noreturn]] void no_such_block(const Thread& t, const Step* s, const Window& w, size_t d, int64_t start) {
  ir::Diagnostic r = outside_of_array(t, s, w, d, w.map.scale[d] ? start / w.map.scale[d] : start);
  ir::Site access = ir::site_of(*t.exec->locs, t.exec->plan->loc_of(*s));
  access.what = "the kernel uses the block here";
  r.also.push_back(std::move(access));
  throw ir::DiagnosticError(std::move(r));
}

}  // namespace

// "index 9 is", "4 elements from 9 on reach": what an access takes.
static std::string taken(const IndexTerm& term, int64_t index) {
  return term.size == 1 ? fmt::format("index {} is", index)
                        : fmt::format("{} elements from {} on reach", term.size, index);
}

void Words::out_of_bounds(const Thread& t, const Step* s, const IndexTerm& term, int64_t index, const std::string& ref,
                          const std::vector<int64_t>& shape, const char* access, const GatherDim* block) const {
  const std::string name = ref.empty() ? "a ref" : ref;
  std::vector<std::string> numbers;
  if (term.size > 1)
    numbers.push_back(fmt::format("indices {} to {} of dimension {}", index, index + term.size - 1, term.dim));
  if (term.size == 1) numbers.push_back(fmt::format("index {} of dimension {}", index, term.dim));
  if (std::string from = index_origin(t, *s, term.dim, index); !from.empty()) numbers.push_back(std::move(from));
  numbers.push_back(fmt::format("{} has shape {}", name, ops::shape_text(shape)));
  if (block) {
    const int64_t start = t.slot<int64_t>(block->window_slot);
    if (start < 0 || start >= block->array_extent)
      if (const Window* w = window_of(t, ref)) no_such_block(t, s, *w, static_cast<size_t>(term.dim), start);
    numbers.push_back(fmt::format("the block begins at {} of the array, which has {}", start, block->array_extent));
    fail(t, s, "PS-OOB-001",
         fmt::format("Out-of-bounds {}: element {} of dimension {} of the array of {} (size {})", access,
                     memory::add(start, index), term.dim, name, block->array_extent),
         std::move(numbers), "Triton neither pads nor masks blocks at the edge of an array: give the access a mask");
  }
  std::string hint =
      term.size < 0 ? "a size that is known at run time only is 0 or more: jnp.maximum(size, 0)"
      : term.size > term.extent
          ? fmt::format("take no more than {} elements", term.extent)
          : fmt::format(
                "clamp it, jnp.clip(index, 0, {}), mask the access, or choose a grid and block shape that divide "
                "the array",
                term.extent - term.size);
  if (term.size == 1 && index < 0 && index >= -term.extent)
    hint = fmt::format(
        "for a chip an index below zero is an address before the array; it does not count from the end, which would be "
        "{}",
        index + term.extent);
  fail(t, s, "PS-OOB-001",
       fmt::format("Out-of-bounds {}: {} outside dimension {} of {} (size {})", access, taken(term, index), term.dim,
                   name, term.extent),
       std::move(numbers), std::move(hint));
}

void Words::note_out_of_bounds(const Thread& t, const Step* s, const IndexTerm& term, int64_t index, int64_t used,
                               const std::string& ref, const std::vector<int64_t>& shape) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  const std::string name = ref.empty() ? "a ref" : ref;
  ir::Diagnostic d = diagnostic_at(t, s, "PS-OOB-001",
                                   fmt::format("out-of-bounds access: {} outside dimension {} of {} (size {})",
                                               taken(term, index), term.dim, name, term.extent));
  d.severity = ir::Severity::Warning;
  if (std::string from = index_origin(t, *s, term.dim, index); !from.empty()) d.numbers.push_back(std::move(from));
  d.numbers.push_back(fmt::format("{} has shape {}", name, ops::shape_text(shape)));
  if (used < 0) d.numbers.push_back("a read from there gave what nobody wrote, a write was dropped");
  else
    d.numbers.push_back(
        fmt::format("{} {} was used instead, as the machine does", term.size > 1 ? "the slice from" : "index", used));
  d.hint = "the run went on as out_of_bounds=machine asks; later accesses of the same place are not listed";
  ex.add_finding(std::move(d));
}

void Words::note_read_outside(const Thread& t, const Step* s, const IndexTerm& term, int64_t index,
                              const std::string& ref, const std::vector<int64_t>& shape) const {
  Execution& ex = *t.exec;
  const std::string name = ref.empty() ? "a ref" : ref;
  if (ex.options->checked) {
    if (ex.log.outside.count(s)) return;
    std::string text =
        fmt::format("{} outside dimension {} of {} (size {})", taken(term, index), term.dim, name, term.extent);
    if (const std::string from = index_origin(t, *s, term.dim, index); !from.empty()) text += ", " + from;
    ex.log.outside.emplace(s, std::move(text));
    return;
  }
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  ir::Diagnostic d = diagnostic_at(t, s, "PS-OOB-001",
                                   fmt::format("Out-of-bounds read: {} outside dimension {} of {} (size {})",
                                               taken(term, index), term.dim, name, term.extent));
  d.severity = ir::Severity::Warning;
  if (std::string from = index_origin(t, *s, term.dim, index); !from.empty()) d.numbers.push_back(std::move(from));
  d.numbers.push_back(fmt::format("{} has shape {}", name, ops::shape_text(shape)));
  d.numbers.push_back("it gave what memory holds that nobody wrote; on the chip that is anything");
  d.hint = "a checked run tells where such a value is used; out_of_bounds=error stops here";
  ex.add_finding(std::move(d));
}

void Words::note_box_outside(const Thread& t, const Step* s, const IndexTerm& term, int64_t start,
                             const std::string& ref, const std::vector<int64_t>& shape) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  const std::string name = ref.empty() ? "an array" : ref;
  ir::Diagnostic d = diagnostic_at(
      t, s, "PS-OOB-003",
      start < 0 ? fmt::format("a box begins at {} of dimension {} of {}, before it", start, term.dim, name)
                : fmt::format("a box begins at {} of dimension {} of {} (size {}): none of it exists", start, term.dim,
                              name, term.extent));
  if (std::string from = index_origin(t, *s, term.dim, start); !from.empty()) d.numbers.push_back(std::move(from));
  d.numbers.push_back(fmt::format("{} has shape {}, the box {} elements in dimension {}", name, ops::shape_text(shape),
                                  term.size, term.dim));
  d.numbers.push_back(
      "a bulk copy reads zeros there and writes nothing; a box that reaches beyond the end is common, "
      "this one is a mistake more often");
  d.hint = "does the index count elements or tiles, and from which block's start? out_of_bounds=machine is silent";
  ex.add_finding(std::move(d));
}

void Words::broken_promise(const Thread& t, const Step* s, int64_t value, int64_t by) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  ir::Diagnostic d =
      diagnostic_at(t, s, "PS-PROM-001", fmt::format("{} is no multiple of {}, as is promised", value, by));
  if (const std::string trip = trip_of(t, *s); !trip.empty()) d.numbers.push_back("in " + trip);
  d.numbers.push_back("the compiler believes it, and aligns what it reads and writes by it");
  d.hint = fmt::format("make it one: {} * (i // {}), or promise less", by, by);
  ex.add_finding(std::move(d));
}

void Words::slice_outside(const Thread& t, const Step* s, const Window& w, size_t d, int64_t start,
                          int64_t size) const {
  const ir::Operand& o = t.exec->plan->module.operands[static_cast<size_t>(w.operand)];
  const ir::LocId at = index_map_line(t, s, w);
  const std::string slice =
      fmt::format("pl.ds({}, {}) for dimension {} of {} {}", start, size, d, w.is_output ? "output" : "input", o.name);
  if (size < 0 || size > w.map.extent[d])
    fail(t, at, "PS-OOB-002",
         fmt::format("a slice of {} elements where the block holds {}: its index map returned {}", size,
                     w.map.extent[d], slice),
         {shapes_text(o, w)}, "the size may change from step to step, up to that of pl.BoundedSlice");
  fail(t, at, "PS-OOB-002",
       fmt::format("Out-of-bounds slice: its index map returned {}, which has {} elements", slice, w.dims[d]),
       {shapes_text(o, w)}, "the start of a bounded slice counts elements, not blocks");
}

namespace {
ir::Diagnostic outside_of_array(const Thread& t, const Step* s, const Window& w, size_t d, int64_t index) {
  const ir::Operand& o = t.exec->plan->module.operands[static_cast<size_t>(w.operand)];
  const int64_t start = memory::add(memory::mul(index, w.map.scale[d]), -w.map.pad_lo[d]);
  const ir::LocId at = index_map_line(t, s, w);
  ir::Diagnostic r = diagnostic_at(
      t, at, "PS-OOB-002",
      fmt::format(
          "Out-of-bounds block index {} for {} {}: its index map returned it for dimension {}, which has {} blocks",
          index, w.is_output ? "output" : "input", o.name, d,
          w.map.extent[d] ? (w.dims[d] + w.map.extent[d] - 1) / w.map.extent[d] : 0));
  r.numbers = {fmt::format("the block covers elements {} to {} of dimension {}, which has {}", start,
                           memory::add(start, w.map.extent[d] - 1), d, w.dims[d]),
               shapes_text(o, w)};
  if (std::string from = block_index_origin(t, o, d, index); !from.empty())
    r.numbers.insert(r.numbers.begin(), std::move(from));
  r.hint = block_hint(w, d, index);
  return r;
}
}  // namespace

void Words::block_outside(const Thread& t, const Step* s, const Window& w, size_t d, int64_t index) const {
  throw ir::DiagnosticError(outside_of_array(t, s, w, d, index));
}

void Words::note_block_outside(const Thread& t, const Step* s, const Window& w, size_t d, int64_t index) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  ir::Diagnostic note = outside_of_array(t, s, w, d, index);
  note.severity = ir::Severity::Warning;
  note.numbers.push_back("the kernel reads the block under a condition only, and the run goes on until it does");
  note.hint = "a chip copies what lies there, block or not: let the map return a block that there is";
  ex.add_finding(std::move(note));
}

void Words::revisited(const Thread& t, const Step* s, const Window& w, const std::vector<int64_t>& block,
                      const std::vector<int64_t>& before) const {
  const ir::Module& m = t.exec->plan->module;
  const ir::Operand& o = m.operands[static_cast<size_t>(w.operand)];
  const int inputs = static_cast<int>(m.operands.size()) - m.count(ir::Operand::Kind::Output);
  std::vector<int64_t> here;
  for (uint32_t p : t.body->pid_slots) here.push_back(t.slot<int64_t>(p));
  const std::vector<int64_t> start(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(w.dims.size()));
  ir::Diagnostic d = diagnostic_at(
      t, s, "PS-OUT-002",
      fmt::format(
          "Revisited block at {} of output {} in iteration {}: {} was there before, and at other blocks since then",
          ops::shape_text(start), w.operand - inputs, ops::shape_text(here), o.name));
  for (const ir::Op& op : o.index_map->region.ops)
    if (op.loc >= 0) {
      d.site = ir::site_of(*t.exec->locs, op.loc);
      break;
    }
  d.numbers.push_back(fmt::format("last visited at grid point {}", ops::shape_text(before)));
  d.numbers.push_back("a TPU wrote the block back then, and its window does not get it again; this run did");
  d.hint = "let the grid axes that the block does not depend on be the last ones, so that its visits follow each other";
  if (t.exec->options->revisits == Options::Revisits::Error) {
    d.severity = ir::Severity::Error;
    throw ir::DiagnosticError(std::move(d));
  }
  t.exec->add_finding(std::move(d));
}

void Words::no_such_unit(const Thread& t, const Step* s, const char* what, const char* of, int32_t index,
                         int32_t count) const {
  const std::string_view unit = of;
  fail(t, s, "PS-SEM-001",
       fmt::format("{} to {} {}, but there {} {}", what, of, index, count == 1 ? "is" : "are", count), {},
       unit == "core"            ? "core_index counts the cores of the kernel's mesh"
       : unit == "named barrier" ? "a CTA has 16 of them, 0 to 15"
       : unit.starts_with("CTA ")
           ? "places along an axis of a cluster begin with 0"
           : "a logical device id counts the devices of the mesh around the kernel, the last axis fastest");
}

void Words::copy_shapes_differ(const Thread& t, const Step* s, const DmaPayload& p, std::span<const int64_t> src,
                               std::span<const int64_t> dst) const {
  fail(t, s, "PS-DMA-001", "a copy between views of different shapes",
       {fmt::format("{} shows {}", p.src.name.empty() ? "the source" : p.src.name, ops::shape_text(src)),
        fmt::format("{} shows {}", p.dst.name.empty() ? "the destination" : p.dst.name, ops::shape_text(dst))},
       "source and destination of a copy have one shape");
}

void Words::wait_outside(const Thread& t, const Step* s, const DmaWaitPayload& p, int64_t size, size_t d,
                         int64_t most) const {
  fail(t, s, "PS-OOB-001",
       fmt::format("Out-of-bounds wait: {} elements of dimension {} of {}", size, d, p.name.empty() ? "a ref" : p.name),
       {fmt::format("the dimension has {}", most)}, "a wait takes the bytes of a copy of the same size");
}

void Words::wait_too_large(const Thread& t, const Step* s, const DmaWaitPayload& p) const {
  fail(t, s, "PS-OOB-001",
       fmt::format("Out-of-bounds wait: more bytes of {} than memory can have", p.name.empty() ? "a ref" : p.name), {},
       "a wait takes the bytes of a copy of the same size");
}

void Words::check_failed(const Thread& t, const Step* s, const std::string& message) const {
  fail(t, s, "PS-CHK-001", "check failed: " + message, {}, "the kernel's own check; its predicate was false");
}

void Words::at_breakpoint(const Thread& t, const Step* s, const HostCall& call) const {
  const std::string why = t.exec->host.breakpoints->stop(call, diagnostic_at(t, s, "PS-INT-001", "a breakpoint"));
  if (!why.empty()) fail(t, s, "PS-INT-001", why, {}, "the launch ended at a breakpoint of its kernel");
}

}  // namespace pallasim::interp
