// Checked runs of TPU kernels: what was written, and what was read before that.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "../plan/array.h"
#include "causes.h"
#include "checked.h"
#include "pallasim/ir/made.h"
#include "program.h"
#include "race_words.h"
#include "report.h"

namespace pallasim::interp {
namespace {

// Does the output's block move when the axis does? Index maps that are not affine move with every axis.
bool moves(const Window& w, size_t axis) {
  return !w.map.affine || std::any_of(w.map.index.begin(), w.map.index.end(), [&](const Affine& a) {
    return axis < a.coefficient.size() && a.coefficient[axis] != 0;
  });
}

// When a value is set that later grid points find: at the first point of those at which the output's block, or those of
// all outputs for scratch, stays.
std::string when_to_set(const Plan& p, const Window* block, const std::string& name) {
  std::vector<std::string> first;
  for (size_t g = 0; g < p.module.grid.size(); ++g) {
    const ir::GridAxis& axis = p.module.grid[g];
    if (axis.dynamic < 0 && axis.size == 1) continue;
    const bool stays = block ? !moves(*block, g)
                             : std::none_of(p.first().windows.begin(), p.first().windows.end(),
                                            [&](const Window& w) { return w.is_output && moves(w, g); });
    if (stays) first.push_back(fmt::format("pl.program_id({}) == 0", g));
  }
  if (first.empty())
    return fmt::format("set it before it is read: {0}[...] = jnp.zeros_like({0})", name.empty() ? "ref" : name);
  const std::string condition = first.size() == 1 ? first[0] : "(" + fmt::format("{}", fmt::join(first, ") & (")) + ")";
  return fmt::format("set it at the first of the grid points that share it: @pl.when({})", condition);
}

// Where the blocks of a grid end in a dimension of an output: 1 past the last element, by the index map's greatest
// value.
int64_t covered(const Window& w, const std::vector<int64_t>& grid, size_t d) {
  return memory::add(w.map.starts(d, grid).second, w.map.extent[d]);
}

// Why nobody wrote an element of an output: no block of the grid has it, or the kernel did not store it.
std::string why_unwritten(const Window& w, const std::vector<int64_t>& grid, int64_t element) {
  const std::string held = "they hold whatever memory held";
  if (w.map.index.empty()) return held + ": does every path through the kernel store?";
  if (!w.map.affine || !w.map.bounded.empty())
    return held + ": do the blocks of the grid cover the array, and does every path store?";
  for (size_t d = w.dims.size(); d-- > 0;) {
    const int64_t at = element % w.dims[d], end = covered(w, grid, d);
    element /= w.dims[d];
    if (at < end) continue;
    std::string advice = fmt::format("{}: the blocks of the grid end at {} of dimension {}, which has {} elements",
                                     held, end, d, w.dims[d]);
    const auto& by = w.map.index[d].coefficient;
    const auto axis = std::find_if(by.begin(), by.end(), [](int64_t c) { return c != 0; });
    const bool plain = std::count(by.begin(), by.end(), 0) + 1 == std::ssize(by) && axis != by.end() && *axis == 1 &&
                       w.map.index[d].constant == 0 && w.map.scale[d] == w.map.extent[d] && w.map.extent[d] > 0 &&
                       w.map.pad_lo[d] == 0;
    if (plain)
      advice += fmt::format("; axis {} of the grid needs {} points", axis - by.begin(),
                            (w.dims[d] + w.map.extent[d] - 1) / w.map.extent[d]);
    return advice;
  }
  return held + ": a block of the grid has the first of them, but some path through the kernel does not store it";
}

}  // namespace

void WriteDetector::add(int32_t instance, Part p) {
  ++changes_;
  if (p.end > p.begin) memories_[instance].parts[p.begin] = std::move(p);
}

// Outputs that begin as nobody's, copies of their blocks, and scratch of every thread.
void WriteDetector::on_launch(const LaunchEvent&) {
  const Execution& ex = this->ex();
  for (const Window& w : plan_.first().windows) {
    if (!w.is_output || ir::is_sync(w.dtype) || plan_.module.is_aliased_output(static_cast<size_t>(w.operand)))
      continue;
    const std::string& name = plan_.module.operands[static_cast<size_t>(w.operand)].name;
    if (!scratch_) {  // programs begin one after the other; the array is there from the start
      for (int32_t device = 0; device < ex.devices; ++device)
        if (ex.operand(device, w.buffer))
          add(instances_.of(ex, device * ex.device_threads, w.buffer),
              {0, arrays::count(w.dims) * w.element_bytes, name, &w, nullptr, w.dims, {}});
      continue;
    }
    for (const Thread& t : ex.threads) {
      if (!t.bases) continue;  // it did not begin
      add(instances_.of(ex, t.index, w.buffer),
          {0, arrays::count(w.dims) * w.element_bytes, name, &w, nullptr, w.dims});
      if (const auto* staged = std::get_if<Window::Staged>(&w.reach))
        add(instances_.of(ex, t.index, t.temps), {staged->copy.offset,
                                                  staged->copy.offset + staged->copy.elements * w.element_bytes,
                                                  name,
                                                  nullptr,
                                                  &w,
                                                  {}});
    }
  }
  if (!scratch_) return;
  for (const memory::Allocation& a : plan_.memory.allocations)
    if (a.private_to_thread() && a.lifetime == memory::Allocation::Lifetime::Launch)
      for (const Thread& t : ex.threads)
        if (t.bases && t.bases[a.buffer])
          add(instances_.of(ex, t.index, a.buffer), {a.offset, a.offset + a.bytes, a.name, nullptr, nullptr, a.dims});
}

// Memory is given out again: what lay there is no more.
void WriteDetector::fresh(const MemoryEvent& e) {
  if (!scratch_) return;
  ++changes_;
  const int64_t offset = e.offset, end = offset + e.bytes;
  Memory& m = memories_[instances_.of(ex(), e.thread, e.buffer)];
  std::erase_if(m.parts, [&](const auto& p) { return p.second.begin < end && offset < p.second.end; });
  m.parts[offset] = {offset, end, *e.name, nullptr, nullptr, {}};
  m.written.clear(offset, end);
}

// Whatever lies there from now on is nothing that was declared, until somebody says so.
void WriteDetector::freed(const MemoryEvent& e) {
  const int64_t offset = e.offset, end = offset + e.bytes;
  Memory* m = memories_.find(instances_.of(ex(), e.thread, e.buffer));
  if (!m) return;
  ++changes_;
  std::erase_if(m->parts, [&](const auto& p) { return p.second.begin < end && offset < p.second.end; });
  m->written.clear(offset, end);
}

void WriteDetector::on_memory(const MemoryEvent& e) {
  if (e.what == MemoryEvent::What::Fresh) fresh(e);
  if (e.what == MemoryEvent::What::Freed) freed(e);
}

// A write to the copy of a block is one to the array, as far as the block lies in it.
void WriteDetector::mark_stage(Execution& ex, const Access& a, const Part& stage, const memory::shadow::Box& box) {
  const Window& w = *stage.stage;
  const auto& staged = std::get<Window::Staged>(w.reach);
  const Thread& t = ex.threads[static_cast<size_t>(a.thread)];
  Memory* array = memories_.find(instances_.of(ex, a.thread, w.buffer));
  if (!array) return;
  int64_t place[2 * memory::kMaxRank];
  for (uint32_t d = 0; d < w.places(); ++d) place[d] = t.slot<int64_t>(staged.place + 16 * d);
  const size_t rank = w.dims.size(), last = rank ? rank - 1 : 0;
  const int64_t row = rank ? w.map.extent[last] : 1;
  for (const memory::shadow::Range& r : box.rows())
    for (int64_t at = (r.begin - stage.begin) / w.element_bytes, end = (r.end - stage.begin) / w.element_bytes;
         at < end;) {
      // Elements of one row of the block follow each other in the array, too.
      int64_t n = std::min(end - at, row - at % row), rest = at, element = 0, first = 0;
      bool inside = true;
      for (size_t d = 0; d < rank; ++d) {
        const int64_t in_block = rest / staged.copy.strides[d], i = place[d] + in_block;
        rest %= staged.copy.strides[d];
        if (d == last) {
          first = std::max<int64_t>(0, -i);
          n = std::min({n, w.dims[d] - i, w.map.extent_at(place, d) - in_block});
        } else {
          inside = inside && i >= 0 && i < w.dims[d] && in_block < w.map.extent_at(place, d);
        }
        element += i * w.strides[d];
      }
      if (inside && n > first)
        array->written.write({(element + first) * w.element_bytes, (element + n) * w.element_bytes});
      at += std::min(end - at, row - at % row);
    }
}

void WriteDetector::see(Seen& seen) {
  Execution& ex = this->ex();
  const Access& a = seen.access;
  if (memories_.empty()) return;
  Memory* const memory = memories_.find(seen.instance());
  if (!memory) return;
  memory::shadow::Box box = seen.box();
  if (a.write && !a.unwritten) {  // also outside of the parts: an allocation without a beginning may reach into one
    if (a.places) memory->written.write(box, {a.places, static_cast<size_t>(a.boxes)});
    else memory->written.write(box);
  }
  Part* part = nullptr;
  for (int64_t i = 0; i < a.boxes; ++i) {
    if (a.places) box.offset = a.places[i];
    Part* const before = std::exchange(part, see(ex, a, *memory, box));
    if (a.write && part && part != before) part->note_writer(ex.threads[static_cast<size_t>(a.thread)], a.loc);
  }
}

WriteDetector::Part* WriteDetector::see(Execution& ex, const Access& a, Memory& m, const memory::shadow::Box& box) {
  if (a.write && a.unwritten) return ++changes_, m.written.clear(box), nullptr;
  auto part = m.parts.upper_bound(box.hull().begin);
  if (part == m.parts.begin()) return nullptr;
  Part& p = std::prev(part)->second;
  if (box.hull().begin >= p.end) return nullptr;
  if (!a.write) read(ex, a, m, p, box);
  else if (p.stage) mark_stage(ex, a, p, box);
  return &p;
}

WriteDetector::Settled WriteDetector::settled(int32_t instance, const Access& a) {
  Settled r{
      .bytes = memory::shadow::Written::kEverything, .place = memory::shadow::Written::kEverything, .as_of = changes_};
  r.memory = memories_.find(instance);
  if (!r.memory) return r;
  std::map<int64_t, Part>& parts = r.memory->parts;
  const auto next = parts.upper_bound(a.offset);
  if (next != parts.end()) r.place.end = next->first;
  if (next != parts.begin()) {
    Part& p = std::prev(next)->second;
    if (a.offset < p.end) r.part = &p, r.place = {p.begin, std::min(r.place.end, p.end)};
    else r.place.begin = p.end;
    if (a.write && r.part && p.stage) r.place = {};  // what is written to a copy of a block is written to the array
  }
  const memory::shadow::Range written = r.memory->written.around(a.offset);
  r.bytes = {std::max(written.begin, r.place.begin), std::min(written.end, r.place.end)};
  return r;
}

void WriteDetector::write(const Settled& s, int64_t begin, int64_t end) {
  if (s.memory) s.memory->written.write(begin, end);
}

void WriteDetector::read(Execution& ex, const Access& a, Memory& m, const Part& p, const memory::shadow::Box& box) {
  const memory::shadow::Range own{p.begin, p.end};
  const memory::shadow::Written::Missing missing = m.written.missing(box, a.element_bytes, own);
  if (missing.elements == 0) return;
  const bool any = !a.chosen && m.written.any(box, own);
  // Parts that nobody wrote are the business of definedness: they may be thrown away.
  if (any || !reported_.insert(p.name).second) return;
  const bool output = p.output || p.stage;
  ir::Diagnostic d = diagnostic_at(ex.threads[static_cast<size_t>(a.thread)], a.loc, "PS-UNINIT-001", "");
  d.numbers.push_back(output ? "an output begins with whatever memory held"
                             : "scratch memory begins with whatever it held before");
  const Window* block = p.output ? p.output : p.stage;
  d.hint = when_to_set(plan_, block, p.name);
  // Of memory that is written in parts, those that are not.
  std::string elements = p.writers.empty() ? "" : elements_text(plan_, a.buffer, box.hull());
  int64_t others = -missing.elements;
  for (memory::shadow::Box b = box;
       const int64_t place : std::span(a.places, static_cast<size_t>(a.places ? a.boxes : 0)))
    b.offset = place, others += m.written.missing(b, a.element_bytes, own).elements;
  if (others > 0 && !elements.empty())
    elements =
        fmt::format("{} elements, the first {},", missing.elements + others, elements.substr(elements.find('(')));
  unset_.push_back({p.name, std::move(elements), a.thread, a.buffer, p.begin,
                    instances_.of(ex, a.owner < 0 ? a.thread : a.owner, a.buffer), std::move(d)});
}

void WriteDetector::Part::note_writer(const Thread& t, ir::LocId loc) {
  uint64_t first = 0;
  const std::vector<uint32_t>& pids = t.body->pid_slots;
  for (size_t g = 0; g < pids.size() && g < 64; ++g)
    if (t.slot<int64_t>(pids[g]) == 0) first |= uint64_t{1} << g;
  for (Writer& w : writers)
    if (w.loc == loc) return void((++w.times, w.first_of &= first));
  writers.push_back({loc, 1, first});
}

bool WriteDetector::Part::written_at(ir::LocId loc) const {
  return std::any_of(writers.begin(), writers.end(), [&](const Writer& w) { return w.loc == loc; });
}

const WriteDetector::Part* WriteDetector::part_of(int32_t instance, int64_t offset) const {
  const Memory* memory = memories_.find(instance);
  if (!memory) return nullptr;
  const auto part = memory->parts.find(offset);
  return part == memory->parts.end() ? nullptr : &part->second;
}

bool WriteDetector::set_elsewhere(Execution& ex, const Unset& u) {
  const int axis = plan_.threads.core_axis;
  if (!claims_ || axis < 0 || !plan_.memory.is_private(u.buffer)) return false;
  const Thread& t = ex.threads[static_cast<size_t>(u.thread)];
  const Part* own = part_of(u.instance, u.offset);
  for (const Thread& other : ex.threads) {
    if (other.index == t.index || !other.bases || other.body != t.body) continue;
    const Part* set = part_of(instances_.of(ex, other.index, u.buffer), u.offset);
    if (!set || set == own || set->name != u.name || set->writers.empty()) continue;
    // What came first cleared it, or, in another order of the grid, what ran at the first points alone.
    const auto clears = std::find_if(set->writers.begin(), set->writers.end(), [&](const Part::Writer& w) {
      return (&w == &set->writers.front() || (w.first_of >> axis & 1) != 0) && !(own && own->written_at(w.loc));
    });
    if (clears == set->writers.end()) continue;
    const ir::LocId line = clears->loc;
    std::string at = where(ex, line);
    for (const StoreSite& store : stores_to(plan_, u.name))
      if (store.loc == line && store.condition >= 0) at = fmt::format("the branch of {}", where(ex, store.condition));
    claims_->starts_late(
        u.found, u.name,
        fmt::format("core {} starts at {} of axis {} and never runs {}, where core {} sets", ex.core_of(t),
                    ex.part(t).box.lo[static_cast<size_t>(axis)], axis, at, ex.core_of(other)));
    return true;
  }
  return false;
}

// A line that sets it did so at the first points along an axis alone, of which the one that read it is none.
void WriteDetector::tell_when_set(const Unset& u, ir::Diagnostic* d) const {
  const Part* p = part_of(u.instance, u.offset);
  const std::vector<int64_t>& point = u.found.grid_point;
  for (size_t g = 0; p && g < point.size() && g < 64; ++g)
    if (point[g] != 0 && std::any_of(p->writers.begin(), p->writers.end(),
                                     [&](const Part::Writer& w) { return (w.first_of >> g & 1) != 0; }))
      d->about.push_back("set at the first of " + about_axis(g));
}

// Refs that are to be set at one place are one report.
void WriteDetector::report_unset(Execution& ex, std::vector<ir::Diagnostic>& out) {
  std::vector<std::vector<const Unset*>> groups;
  const auto wanted = [](const Unset& u) {  // when, whatever the ref's name is
    const size_t at = u.found.hint.find(u.name);
    return at == std::string::npos ? u.found.hint : u.found.hint.substr(0, at);
  };
  for (const Unset& u : unset_) {
    if (set_elsewhere(ex, u)) {
      told_.insert(u.name);
      continue;
    }
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return wanted(*g.front()) == wanted(u) && g.front()->found.numbers == u.found.numbers;
    });
    if (group == groups.end()) groups.push_back({&u});
    else group->push_back(&u);
  }
  for (const auto& group : groups) {
    // Of what is to be set together one that is used is enough.
    if (std::none_of(group.begin(), group.end(), [&](const Unset* u) { return definedness_.used(u->name); })) continue;
    for (const Unset* u : group) told_.insert(u->name);
    ir::Diagnostic d = group.front()->found;
    for (const Unset* u : group) tell_when_set(*u, &d);
    std::vector<std::string> names;
    std::set<std::string> stores;
    for (const Unset* u : group) {
      names.push_back(u->elements.empty() ? u->name : fmt::format("{} of {}", u->elements, u->name));
      d.about.push_back(about_ref(u->name));
      if (u != group.front()) d.numbers.push_back(fmt::format("{} is read at {}", u->name, where(u->found.site)));
      for (const StoreSite& s : stores_to(plan_, u->name))
        if (s.condition >= 0)
          stores.insert(fmt::format("{} is set at {}, where the condition at {} holds", u->name, where(ex, s.loc),
                                    where(ex, s.condition)));
    }
    constexpr size_t kMost = 6;
    for (const std::string& line : stores)
      if (d.numbers.size() < kMost) d.numbers.push_back(line);
    const bool one = names.size() == 1 && group.front()->elements.empty();
    d.message =
        fmt::format("{} {} read before anybody wrote to {}", listed(names), one ? "is" : "are", one ? "it" : "them");
    out.push_back(std::move(d));
  }
}

ir::Diagnostic WriteDetector::found(size_t n) const {
  const Unset& u = unset_[n];
  ir::Diagnostic d = u.found;
  const bool one = u.elements.empty() || u.elements.starts_with("element ");
  d.message = fmt::format("{}{} {} read before anybody wrote to {}", u.elements.empty() ? "" : u.elements + " of ",
                          u.name, one ? "is" : "are", one ? "it" : "them");
  return d;
}

void WriteDetector::finish(std::vector<ir::Diagnostic>& out) {
  Execution& ex = this->ex();
  report_unset(ex, out);
  if (!all_ended(ex)) return;
  std::map<int, std::pair<const Part*, Memory*>> outputs;  // in the order of the operands
  for (Memory& m : memories_)
    for (const auto& [at, p] : m.parts)
      if (p.output) outputs.emplace(p.output->operand, std::make_pair(&p, &m));
  const size_t first = out.size();
  for (const auto& [operand, found] : outputs) report_unwritten(ex, *found.first, *found.second, out);
  // Outputs that one condition leaves out are one report.
  for (size_t i = first; i < out.size(); ++i)
    for (size_t k = i + 1; k < out.size();) {
      if (out[k].numbers.empty() || out[i].numbers.empty() || out[k].numbers.back() != out[i].numbers.back() ||
          out[k].hint != out[i].hint) {
        ++k;
        continue;
      }
      out[i].numbers.insert(out[i].numbers.begin(), out[k].message);
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(k));
    }
}

namespace {

// "the store at k.py:20 ran at 0 of 8 grid points", and the condition that kept it from more.
std::vector<std::string> store_lines(const Execution& ex, const std::vector<StoreSite>& stores,
                                     const std::map<ir::LocId, int64_t>& ran, int64_t points) {
  std::vector<std::string> r;
  for (const StoreSite& s : stores) {
    const auto of = ran.find(s.loc);
    const int64_t times = of == ran.end() ? 0 : std::min(of->second, points);
    std::string line = fmt::format("the store at {} ran at {} of {} grid point{}", where(ex, s.loc), times, points,
                                   points == 1 ? "" : "s");
    if (times < points && s.condition >= 0)
      line += fmt::format(": its condition at {} was {}", where(ex, s.condition),
                          times == 0 ? "never true" : "not true at the others");
    if (std::find(r.begin(), r.end(), line) == r.end() && r.size() < 4) r.push_back(std::move(line));
  }
  return r;
}

// Of kernels that place their stores themselves: the points of the one axis wrote equal parts of the front of the
// array.
std::string points_wanted(const std::vector<int64_t>& grid, int64_t n, int64_t missing, int64_t first) {
  const auto wide = [](int64_t size) { return size > 1; };
  if (std::count_if(grid.begin(), grid.end(), wide) != 1 || first != n - missing || first == 0) return "";
  const auto axis = std::find_if(grid.begin(), grid.end(), wide);
  const int64_t each = first / *axis;
  if (first % *axis != 0) return "";
  return fmt::format("the {} points of axis {} write {} elements each: {} elements take {} points", *axis,
                     axis - grid.begin(), each, n, (n + each - 1) / each);
}

}  // namespace

void WriteDetector::report_unwritten(Execution& ex, const Part& part, Memory& m, std::vector<ir::Diagnostic>& out) {
  const int64_t size = part.output->element_bytes, n = part.end / size;
  const memory::shadow::Written::Missing left = m.written.missing({0, part.end}, size);
  const int64_t missing = left.elements, first = left.first / size;
  if (missing == 0) return;
  ir::Diagnostic d("PS-OUT-001", missing == n ? fmt::format("nothing of output {} was written", part.name)
                                              : fmt::format("{} of {} elements of output {} were never written",
                                                            missing, n, part.name));
  d.kernel = plan_.module.name;
  d.site = ir::site_of(*ex.locs,
                       ir::made_at(*ex.locs, plan_.module.operands[static_cast<size_t>(part.output->operand)].attrs));
  d.about.push_back(about_ref(part.name));
  if (missing < n) d.numbers.push_back(fmt::format("the first is {}", index_text(first, part.output->dims)));
  std::map<ir::LocId, int64_t> ran;
  const auto count = [&ran](const Part& p) {
    for (const Part::Writer& w : p.writers) ran[w.loc] += w.times;
  };
  count(part);
  for (const Memory& memory : memories_)  // copies of blocks
    for (const auto& [at, p] : memory.parts)
      if (p.stage && p.stage->operand == part.output->operand) count(p);
  int64_t points = 1;
  for (const int64_t g : ex.grid) points = memory::mul(points, g);
  const std::vector<StoreSite> stores = stores_to(plan_, static_cast<size_t>(part.output->operand));
  if (stores.empty()) d.numbers.push_back(fmt::format("the kernel has no store to {}", part.name));
  for (std::string& line : store_lines(ex, stores, ran, points)) d.numbers.push_back(std::move(line));
  d.hint = why_unwritten(*part.output, ex.grid, first);
  if (std::string more = points_wanted(ex.grid, n, missing, first); !more.empty() && part.output->map.index.empty())
    d.hint = std::move(more);
  if (missing == n && !stores.empty() &&
      std::all_of(stores.begin(), stores.end(), [](const StoreSite& s) { return s.condition >= 0; }))
    d.hint = "compare the condition with the grid's points: each axis counts from 0 to its size - 1";
  out.push_back(std::move(d));
}

}  // namespace pallasim::interp
