#include "picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "../plan/steps.h"

namespace pallasim::interp {

using Kind_ = Timeline::Kind;
using memory::Allocation, memory::AsyncKind, memory::AsyncOperation, memory::Side;

// As people say: a GPU's shared memory has a name of its own in the IR.
static std::string space_name(ir::Space s) {
  if (s == ir::Space::GpuSmem) return "smem";
  if (s == ir::Space::Regs) return "registers";
  return std::string(ir::name(s));
}

Picture::Picture(Timeline* to, Launch launch) : to_(to), launch_(std::move(launch)) {
  const auto& operands = launch_.plan->module.operands;
  for (size_t o = 0; o < operands.size(); ++o)
    for (int64_t d = 0; d < launch_.devices; ++d)
      array_rooms_.push_back(ir::is_sync(operands[o].array->dtype) ? -1 : to_->room(array_room(o, d)));
}

int32_t Picture::word(const char* literal) {
  const auto [it, fresh] = words_.try_emplace(literal, -1);
  if (fresh) it->second = to_->name(literal);
  return it->second;
}

int32_t Picture::track_of(int32_t group, const char* word, Kind_ kind, const char* behind) {
  const auto [it, fresh] = tracks_.try_emplace({group, word, static_cast<int64_t>(kind)}, -1);
  if (fresh) it->second = to_->track(std::string(word) + behind, kind, group);
  return it->second;
}

int32_t Picture::device_track(int64_t device) {
  return launch_.devices == 1 ? -1 : to_->track(fmt::format("device {}", device), Kind_::Group);
}

Picture::Where& Picture::where(int32_t thread) {
  if (static_cast<size_t>(thread) >= where_.size()) where_.resize(static_cast<size_t>(thread) + 1);
  Where& w = where_[static_cast<size_t>(thread)];
  if (w.known) return w;
  w.known = true;
  const Place p = launch_.place(thread);
  w.device = p.device;
  auto [core, fresh] = cores_.try_emplace({p.device, p.core}, 0);
  if (fresh) {
    const auto of_device = std::count_if(cores_.begin(), cores_.end(),
                                         [&](const auto& c) { return c.first.first == p.device && c.second != 2; });
    if (to_->most_cores > 0 && of_device > to_->most_cores) {
      core->second = 2;
      ++to_->cores_left_out;
    }
  }
  w.pictured = core->second != 2;
  if (!w.pictured) return w;
  w.group = to_->track(p.core_name, Kind_::Group, device_track(p.device));
  w.track = to_->track(p.thread_name, Kind_::Thread, w.group);
  if (core->second == 0) core->second = 1;
  still_memory(thread, 0);
  return w;
}

int32_t Picture::line_of(ir::LocId loc) {
  if (loc < 0) return -1;
  if (to_->lines.size() < launch_.locs->size()) {
    to_->lines.clear();
    for (size_t i = 0; i < launch_.locs->size(); ++i)
      to_->lines.push_back(ir::site_of(*launch_.locs, static_cast<ir::LocId>(i)));
  }
  return loc;
}

void Picture::slice(int32_t thread, double begin, double end, int32_t word, ir::LocId line) {
  if (!slices()) return;
  const Where& w = where(thread);
  if (!w.pictured) return;
  to_->add({.begin = begin, .end = end, .track = w.track, .name = word, .line = line_of(line), .point = w.point});
}

void Picture::left_out(int32_t thread, double at, int64_t trips, ir::LocId line) {
  if (!slices() || !where(thread).pictured) return;
  slice(thread, at, at, word(fmt::format("{} trips left out", trips)), line);
  to_->trips_left_out += trips;
}

void Picture::points_left_out(int32_t thread, double at, int64_t points, int axis) {
  if (!slices() || !where(thread).pictured) return;
  slice(thread, at, at, word(fmt::format("{} steps along axis {} left out", points, axis)), -1);
  to_->points_left_out += points;
}

void Picture::unit(int32_t thread, const char* unit, double begin, double end, int32_t word, ir::LocId line) {
  if (!slices() || end <= begin) return;
  Where& w = where(thread);
  if (!w.pictured) return;
  auto of = std::find_if(w.units.begin(), w.units.end(), [&](const auto& u) { return u.first == unit; });
  if (of == w.units.end()) of = w.units.insert(of, {unit, track_of(w.group, unit, Kind_::Unit)});
  const int32_t track = of->second;
  Timeline::Slice* last = to_->last(track);
  if (last && last->end > begin) begin = last->end;  // rounding
  if (end > begin)
    to_->add({.begin = begin, .end = end, .track = track, .name = word, .line = line_of(line), .point = w.point});
}

void Picture::point(int32_t thread, double at, const std::vector<int64_t>& ids) {
  if (!slices() || ids.empty()) return;
  Where& w = where(thread);
  if (!w.pictured) return;
  if (w.point >= 0) to_->add_point(Timeline::Point{w.entered, at, w.group, w.point});
  w.point = to_->name(fmt::format("({})", fmt::join(ids, ", ")));
  w.entered = at;
}

void Picture::ends(double at) {
  for (const Where& w : where_)
    if (w.pictured && w.point >= 0) to_->add_point(Timeline::Point{w.entered, at, w.group, w.point});
}

// -- memories --

Timeline::Room Picture::array_room(size_t operand, int64_t device) const {
  const ir::Operand& o = launch_.plan->module.operands[operand];
  Timeline::Room r;
  r.name = o.name;
  const Window& w = launch_.plan->first().windows[operand];
  const bool near = (o.space == ir::Space::Vmem || o.space == ir::Space::Smem) && !w.modelled();
  r.space = near ? space_name(o.space) : launch_.plan->first().model->in_order() ? "hbm" : "gmem";
  r.device = static_cast<int32_t>(device);
  r.bytes = o.array->num_bytes();
  for (const ir::Dim& d : o.array->dims) r.dims.push_back(d.size);
  return r;
}

int32_t Picture::window_room(const Window& w, const Where& at) {
  const auto [known, fresh] = rooms_.try_emplace({at.group, &w, 0}, -1);
  if (!fresh) return known->second;
  const ir::Operand& o = launch_.plan->module.operands[static_cast<size_t>(w.operand)];
  const Window::Modelled& m = *w.modelled();
  Timeline::Room r;
  r.name = o.name;
  r.space = o.space == ir::Space::Smem ? "smem" : "vmem";
  r.core = at.group;
  r.device = static_cast<int32_t>(at.device);
  r.slots = m.slots;
  r.bytes = m.slots * m.slot_bytes;
  r.dims = w.map.extent;
  return known->second = to_->room(r);
}

int32_t Picture::room_of(const Allocation& a, const Where& w) {
  const auto [known, fresh] = rooms_.try_emplace({w.group, &a, w.device}, -1);
  if (!fresh) return known->second;
  const bool far = a.space == ir::Space::Hbm || a.space == ir::Space::Gmem;
  return known->second = to_->room(
             {a.name, space_name(a.space), far ? -1 : w.group, static_cast<int32_t>(w.device), a.bytes, 1, a.dims});
}

int32_t Picture::room_beside(const Where& w, const char* name, const char* space) {
  const auto [known, fresh] = rooms_.try_emplace({w.group, name, w.device}, -1);
  if (fresh) known->second = to_->room({name, space, w.group, static_cast<int32_t>(w.device)});
  return known->second;
}

void Picture::hold(int32_t group, ir::Space space, int64_t bytes, double at) {
  if (!slices()) return;
  int64_t& held = held_[{group, static_cast<int>(space)}];
  held += bytes;
  std::string name = space_name(space);
  if (name != "registers")
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  to_->count(at, to_->track(name + " bytes", Kind_::Counter, group), static_cast<double>(held));
}

// What lies in the memory of a thread's core from its beginning on.
void Picture::still_memory(int32_t thread, double at) {
  const Where w = where(thread);
  const Plan& p = *launch_.plan;
  const Body& body = p.first();
  for (const Window& x : body.windows)
    if (x.modelled() && p.bodies.size() == 1) {
      const int32_t n = window_room(x, w);
      hold(w.group, to_->rooms[static_cast<size_t>(n)].space == "smem" ? ir::Space::Smem : ir::Space::Vmem,
           to_->rooms[static_cast<size_t>(n)].bytes, at);
    }
  for (const Allocation& a : p.memory.allocations) {
    if (a.lifetime != Allocation::Lifetime::Launch || a.space == ir::Space::Hbm || a.space == ir::Space::Gmem ||
        a.bytes == 0)
      continue;
    Timeline::Room r{a.name, space_name(a.space), w.group, static_cast<int32_t>(w.device), a.bytes, 1, a.dims};
    const size_t before = to_->rooms.size();
    to_->room(r);
    if (to_->rooms.size() > before) hold(w.group, a.space, a.bytes, at);
  }
}

void Picture::memory(const MemoryEvent& e, double at) {
  if (e.what != MemoryEvent::What::Scope && e.what != MemoryEvent::What::Freed) return;
  const Where& w = where(e.thread);
  if (!w.pictured) return;
  for (const Allocation& a : launch_.plan->memory.allocations) {
    if (a.lifetime != Allocation::Lifetime::Scope || a.buffer != e.buffer || a.offset < e.offset ||
        a.offset >= e.offset + e.bytes || a.space == ir::Space::Hbm || a.space == ir::Space::Gmem)
      continue;
    const bool begins = e.what == MemoryEvent::What::Scope;
    // What a scope gives back that nobody saw beginning was not counted.
    const std::pair key{e.thread, &a - &*launch_.plan->memory.allocations.begin()};
    if (begins ? !scoped_.insert(key).second : scoped_.erase(key) == 0) continue;
    hold(w.group, a.space, begins ? a.bytes : -a.bytes, at);
    const int32_t n =
        to_->room({a.name, space_name(a.space), w.group, static_cast<int32_t>(w.device), a.bytes, 1, a.dims, at});
    to_->rooms[static_cast<size_t>(n)].end = begins ? -1 : at;
  }
}

std::string Picture::box_text(const std::vector<int64_t>& dims, int64_t element, const int64_t* size, int rank) const {
  if (dims.empty()) return "";
  std::vector<std::string> parts(dims.size());
  int of = rank - 1;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t begin = dims[d] ? element % dims[d] : 0;
    element = dims[d] ? element / dims[d] : 0;
    const bool last = d == 0;
    int64_t n = 1;
    // A side may have fewer dimensions than the array: those that were squeezed have one element.
    if (of >= 0 && (size[of] <= dims[d] - begin || last)) n = size[of--];
    parts[d] = n == 1 ? std::to_string(begin) : fmt::format("{}:{}", begin, begin + n);
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

Picture::Box Picture::box_of(const Side& s, int32_t thread, double) {
  const Plan& p = *launch_.plan;
  const memory::Place& at = s.place;
  const int32_t reached = at.thread >= 0 ? at.thread : thread;
  const Where& w = where(reached);
  const int64_t device = at.thread < 0 ? ~at.thread : w.device, size = std::max(s.element_bytes(), 1);
  Box r;
  if (const size_t operand = at.buffer - kFirstOperandBuffer;
      at.buffer >= kFirstOperandBuffer && operand < p.module.operands.size()) {
    r.room = room_of_operand(operand, device);
    if (r.room < 0) return r;
    const auto& dims = to_->rooms[static_cast<size_t>(r.room)].dims;
    r.box = to_->name(box_text(dims, at.offset / size, s.dims, s.rank));
    return r;
  }
  if (!w.pictured) return r;
  for (const Window& x : p.first().windows)
    if (const Window::Modelled* m = x.modelled(); m && at.buffer == p.first().temps && at.offset >= m->stage.offset &&
                                                  at.offset < m->stage.offset + m->slots * m->slot_bytes) {
      r.room = window_room(x, w);
      r.slot = static_cast<int32_t>((at.offset - m->stage.offset) / m->slot_bytes);
      return r;
    }
  const Allocation* a = p.memory.allocations.at(at.buffer, at.offset);
  if (!a) return r;
  // Slots are the places of the first dimensions that a box leaves out.
  int64_t box = 1, slots = 1;
  for (int d = 0; d < s.rank; ++d) box *= s.dims[d];
  for (size_t d = 0; d < a->dims.size() && box > 0 && slots * box < a->elements(); ++d) slots *= a->dims[d];
  if (slots * box != a->elements() || s.rank >= static_cast<int>(a->dims.size())) slots = 1;
  r.room = room_of(*a, w);
  Timeline::Room& known = to_->rooms[static_cast<size_t>(r.room)];
  known.slots = std::max(known.slots, slots);
  r.box = to_->name(box_text(a->dims, (at.offset - a->offset) / size, s.dims, s.rank));
  if (known.slots > 1 && known.bytes > 0)
    r.slot = static_cast<int32_t>((at.offset - a->offset) * known.slots / known.bytes);
  return r;
}

// -- operations in flight --

static int64_t bytes_of(const AsyncOperation& op) {
  if (op.reads.empty()) return 0;
  const Side& s = op.reads.front();
  int64_t n = ir::bit_width(s.dtype);
  for (int d = 0; d < s.rank; ++d) n *= s.dims[d];
  if (!op.rows.empty() && s.row_dim < 0) n *= static_cast<int64_t>(op.rows.size());
  return n / 8;
}

constexpr const char* kBytesInFlight = "bytes in flight";

int32_t Picture::issue_word(AsyncKind kind) {
  int32_t& known = issue_words_[static_cast<size_t>(kind)];
  return known >= 0 ? known : known = to_->name(std::string("issue ") + memory::row(kind).name);
}

static bool is_product(const AsyncOperation& op) {
  return op.kind == AsyncKind::wgmma || op.kind == AsyncKind::tcgen05_mma;
}

void Picture::issued(const AsyncOperation& op, double begin, double end, ir::LocId line) {
  const Where& w = where(op.thread);
  if (!w.pictured) return;
  const int64_t arrow = to_->new_arrow(), bytes = is_product(op) ? 0 : bytes_of(op);
  flights_[op.id] = {begin, arrow, bytes, line};
  if (!slices()) return;
  Timeline::Slice* last = to_->last(w.track);
  if (end > begin || !last)
    to_->add({.begin = begin,
              .end = end,
              .track = w.track,
              .name = issue_word(op.kind),
              .line = line_of(line),
              .point = w.point,
              .leaves = arrow});
  else if (last->leaves < 0 && last->folded == 0) last->leaves = arrow;
  if (bytes > 0)
    to_->count(begin, track_of(w.group, kBytesInFlight, Kind_::Counter),
               static_cast<double>(in_flight_[w.group] += bytes));
}

void Picture::completed(const AsyncOperation& op, double at) {
  if (slices())
    for (const auto* list : {&op.after_read, &op.after_write})
      for (const memory::Completion& c : *list)
        if (c.kind == memory::Completion::Kind::Semaphore) tell(c.object, c.count, at, op.thread);
  const auto it = flights_.find(op.id);
  if (it == flights_.end()) return;
  const Flight f = it->second;
  flights_.erase(it);
  if (slices()) {
    const Where& w = where(op.thread);
    const char* kind = memory::row(op.kind).name;
    to_->add({.begin = f.issued,
              .end = at,
              .track = track_of(w.group, kind, Kind_::Flight, " in flight"),
              .name = word(kind),
              .line = line_of(f.line),
              .point = w.point,
              .arrives = f.arrow});
    if (f.bytes > 0)
      to_->count(at, track_of(w.group, kBytesInFlight, Kind_::Counter),
                 static_cast<double>(in_flight_[w.group] -= f.bytes));
  }
  moved(op, f, at);
}

namespace {
constexpr size_t kRunsShown = 16;  // of chosen rows, one by one

// Of many chosen rows: all from the first to the last one of the array.
AsyncOperation with_rows_between(AsyncOperation op) {
  int64_t first = INT64_MAX, last = 0;
  for (const int64_t row : op.rows)
    if (row >= 0) first = std::min(first, row), last = std::max(last, row);
  for (auto* sides : {&op.reads, &op.writes})
    for (Side& s : *sides) {
      if (s.row_dim < 0) continue;
      s.place.offset += first * s.strides[s.row_dim] * s.element_bytes();
      s.dims[s.row_dim] = last - first + 1;
    }
  return op;
}
}  // namespace

void Picture::moved(const AsyncOperation& op, const Flight& f, double at) {
  if (op.reads.empty() || op.writes.empty() || op.kind == AsyncKind::tcgen05_commit) return;
  if (to_->moves.size() >= to_->most_moves) {
    ++to_->moves_dropped;
    return;
  }
  const Where& w = where(op.thread);
  Timeline::Move m{f.issued, at, word(memory::row(op.kind).name), line_of(f.line), -1, -1};
  const auto add = [&](const Box& from, const Box& to, int64_t bytes) {
    if (from.room < 0 || to.room < 0) return;
    m.from = from.room, m.from_box = from.box, m.from_slot = from.slot;
    m.to = to.room, m.to_box = to.box, m.to_slot = to.slot;
    m.bytes = bytes;
    to_->add_move(m);
  };
  if (is_product(op)) {
    const Box core{room_beside(w, "products", "tensor core")};
    for (size_t i = 0; i < std::min<size_t>(op.reads.size(), 2); ++i) {
      const Side& s = op.reads[i];
      if (s.held >= 0) continue;
      int64_t bytes = ir::bit_width(s.dtype);
      for (int d = 0; d < s.rank; ++d) bytes *= s.dims[d];
      add(box_of(s, op.thread, at), core, bytes / 8);
    }
    return;
  }
  const auto add_sides = [&](const AsyncOperation& shown, int64_t bytes) {
    const Box from = box_of(shown.reads.front(), op.thread, at);
    for (const Side& s : shown.writes) add(from, box_of(s, op.thread, at), bytes);
  };
  if (op.rows.empty() || std::max(op.reads.front().row_dim, op.writes.front().row_dim) < 0)
    return add_sides(op, bytes_of(op));
  const std::vector<AsyncOperation> runs = op.runs(kRunsShown + 1);
  if (runs.size() > kRunsShown) return add_sides(with_rows_between(op), bytes_of(op));
  for (const AsyncOperation& run : runs)
    if (bytes_of(run) > 0) add_sides(run, bytes_of(run));
}

void Picture::access(int32_t thread, int operand, double bytes, bool writes, double begin, double end, ir::LocId line) {
  const Where& w = where(thread);
  if (!w.pictured || operand < 0) return;
  const int32_t array = room_of_operand(static_cast<size_t>(operand), w.device),
                registers = room_beside(w, "registers", "registers");
  Timeline::Move m{begin,
                   end,
                   word(writes ? "store" : "load"),
                   line_of(line),
                   writes ? registers : array,
                   writes ? array : registers};
  m.bytes = static_cast<int64_t>(bytes);
  to_->add_move(m);
  if (!slices()) return;
  to_->add({.begin = begin,
            .end = end,
            .track = track_of(w.group, writes ? "stores in flight" : "loads in flight", Kind_::Flight),
            .name = word(launch_.plan->module.operands[static_cast<size_t>(operand)].name.c_str()),
            .line = line_of(line),
            .point = w.point});
}

// -- semaphores and barriers --

void Picture::tell(int64_t id, int64_t change, double at, int32_t thread) {
  auto& [track, value] = semaphores_.try_emplace(id, -1, 0).first->second;
  // Others signal it as well: it is shown where it lies.
  const int64_t owner = track < 0 && launch_.owner ? launch_.owner(id) : -1;
  if (owner >= 0) thread = static_cast<int32_t>(owner);
  if (track < 0 && thread >= 0 && where(thread).pictured) {
    std::string name = launch_.semaphore(id);
    if (!name.starts_with("the ")) name.insert(0, "semaphore ");
    track = to_->track(name, Kind_::Counter, where(thread).group);
  }
  value += change;
  if (track >= 0) to_->count(at, track, static_cast<double>(value));
}

void Picture::sync(const SyncEvent& e, double at) {
  using What = SyncEvent::What;
  if (!slices()) return;
  if (e.what == What::Signal) return tell(e.object, e.value, at, e.thread);
  if (e.what == What::Taken) return tell(e.object, -e.value, at, e.thread);
  if (e.what == What::Emptied) {
    const auto it = semaphores_.find(e.object);
    if (it != semaphores_.end() && it->second.second != 0) tell(e.object, -it->second.second, at, e.thread);
    return;
  }
  if (e.what == What::Renewed && !barriers_.contains(e.object)) return;
  if (e.what != What::Phase && e.what != What::Arrive && e.what != What::Passed && e.what != What::Renewed) return;
  const auto [it, fresh] = barriers_.try_emplace(e.object, -1, 0);
  auto& [track, phase] = it->second;
  if (track < 0 && e.thread >= 0 && where(e.thread).pictured) {
    track = to_->track("phase of " + launch_.barrier(e.object), Kind_::Counter, where(e.thread).group);
    to_->count(at, track, static_cast<double>(phase));
  }
  if (e.what != What::Phase && e.what != What::Renewed) return;
  phase = e.what == What::Phase ? phase + 1 : 0;
  if (track >= 0) to_->count(at, track, static_cast<double>(phase));
}

}  // namespace pallasim::interp
