// The grid as a loop in the plan; windows move by increments.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../plan/payload/grid.h"
#include "bodies.h"
#include "definedness.h"
#include "findings.h"
#include "footprint.h"
#include "parts.h"
#include "threaded.h"

namespace pallasim::interp::ops {
namespace {

// Entry `d` of the index map's result.
int64_t window_index(const Thread& t, const Window& w, size_t d) {
  if (!w.map.affine) return t.slot<int64_t>(w.map.index_value[d]);
  const Body& p = *t.body;
  int64_t i = w.map.index[d].constant;
  for (size_t g = 0; g < w.map.index[d].coefficient.size(); ++g)
    i = memory::add(i, memory::mul(w.map.index[d].coefficient[g], t.slot<int64_t>(p.pid_slots[g])));
  return i;
}

int64_t block_start(const Window& w, size_t d, int64_t index) {
  return memory::add(memory::mul(index, w.map.scale[d]), -w.map.pad_lo[d]);
}

}  // namespace

void window_place(const Thread& t, const Window& w, int64_t* place) {
  const size_t rank = w.dims.size();
  for (size_t d = 0; d < rank; ++d) place[d] = block_start(w, d, window_index(t, w, d));
  for (size_t d = rank; d < w.places(); ++d) place[d] = window_index(t, w, d);
}

memory::Clip clip_window(const Window& w, const int64_t* place) {
  if (w.map.bounded.empty()) return memory::clip(w.dims, w.map.extent, place);
  int64_t size[memory::kMaxRank];
  for (size_t d = 0; d < w.dims.size(); ++d) size[d] = w.map.extent_at(place, d);
  return memory::clip(w.dims, w.map.extent, place, size);
}

// The first dimension in which no element of the block lies inside, and the index there; the rank: there is none.
static size_t outside_in(const Thread& t, const Window& w, int64_t* index) {
  size_t d = 0;
  for (; d < w.dims.size(); ++d) {
    *index = window_index(t, w, d);
    const int64_t start = block_start(w, d, *index), end = memory::add(start, w.map.extent[d]);
    const bool inside = w.stage() ? end > 0 && start < w.dims[d] : start >= 0 && end <= w.dims[d];
    if (!inside && w.map.extent[d] > 0) break;
  }
  return d;
}

const Step* window_unread(Thread& t, const Step* s) {
  const auto& u = payload<Kind::window_unread>(s);
  int64_t index = 0;
  const size_t d = outside_in(t, *u.window, &index);
  const bool outside = d < u.window->dims.size();
  t.slot<int64_t>(u.outside) = outside;
  if (!outside) return s + 1;
  diagnose(t).note_block_outside(t, s, *u.window, d, index);
  return s + 2;
}

const Step* window_read(Thread& t, const Step* s) {
  const auto& u = payload<Kind::window_read>(s);
  if (t.slot<int64_t>(u.outside) == 0) return s + 1;
  int64_t index = 0;
  const size_t d = outside_in(t, *u.window, &index);
  diagnose(t).block_outside(t, s, *u.window, d, index);
}

// At least one element of the block must lie inside.
void check_window(const Thread& t, const Step* s, const Window& w) {
  if (w.stage() && !w.is_output && t.exec->options->out_of_bounds == Options::Oob::Uninitialized) return;
  for (size_t d = 0; d < w.dims.size(); ++d) {
    const int64_t i = window_index(t, w, d), start = block_start(w, d, i);
    if (!w.map.bounded.empty() && w.map.bounded[d] >= 0) {
      // A bounded slice has at most its block's size, and begins inside the array; as other blocks it may end outside.
      const int64_t size = window_index(t, w, static_cast<size_t>(w.map.bounded[d]));
      if (size != 0 && (size < 0 || size > w.map.extent[d] || start < 0 || start >= w.dims[d]))
        diagnose(t).slice_outside(t, s, w, d, start, size);
      continue;
    }
    const int64_t end = memory::add(start, w.map.extent[d]);
    const bool inside = w.stage() ? end > 0 && start < w.dims[d] : start >= 0 && end <= w.dims[d];
    if (!inside && w.map.extent[d] > 0 &&
        !(w.stage() && !w.is_output && t.exec->options->out_of_bounds == Options::Oob::Uninitialized))
      diagnose(t).block_outside(t, s, w, d, i);
  }
}

void place_ids(Thread& t) {
  const Body& p = *t.body;
  const auto& order = t.exec->options->grid_order;
  for (size_t g = 0; g < p.pid_slots.size(); ++g) {
    const int64_t place = t.slot<int64_t>(p.place_slots[g]);
    t.slot<int64_t>(p.pid_slots[g]) =
        g < order.size() && !order[g].empty() ? order[g][static_cast<size_t>(place)] : place;
  }
}

bool next_place(Thread& t) {
  const Body& p = *t.body;
  const GridBox& box = t.exec->part(t).box;
  bool found = false;
  for (size_t g = p.pid_slots.size(); g-- > 0 && !found;) {
    int64_t& place = t.slot<int64_t>(p.place_slots[g]);
    found = ++place < box.hi[g];
    if (!found) place = box.lo[g];
  }
  place_ids(t);
  return found;
}

namespace {

void at_point(Thread& t, const Step* s) {
  if (t.body->modelled) return;  // its pipeline says when a step begins
  if (t.exec->check_windows)
    for (const Window& w : t.body->windows)
      if (!w.map.index.empty() && w.map.affine && !w.edge()) check_window(t, s, w);
  t.exec->events->point(t);
}

void place_windows(Thread& t) {
  const Body& p = *t.body;
  for (const Body::MovingWindow& m : p.moving) {
    int64_t offset = m.first;
    for (size_t g = 0; g < m.step.size(); ++g)
      offset = memory::add(offset, memory::mul(m.step[g], t.slot<int64_t>(p.pid_slots[g])));
    t.slot<int64_t>(m.dyn) = offset;
  }
}

}  // namespace

void skip_points(Thread& t, size_t axis, int64_t n) {
  t.slot<int64_t>(t.body->pid_slots[axis]) += n;
  t.slot<int64_t>(t.body->place_slots[axis]) += n;
  place_windows(t);
  place_pipeline(t);
}

const Step* grid_begin(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  const Body& p = *t.body;
  const GridBox& box = ex.part(t).box;
  int64_t rest = t.point;
  for (size_t g = p.pid_slots.size(); g-- > 0;) {
    if (box.lo[g] >= box.hi[g]) return finish(t, s);
    t.slot<int64_t>(p.pid_slots[g]) = t.slot<int64_t>(p.place_slots[g]) = t.point < 0 ? box.lo[g] : rest % ex.grid[g];
    t.slot<int64_t>(p.size_slots[g]) = ex.grid[g];
    if (t.point >= 0) rest /= ex.grid[g];
  }
  if (!ex.options->grid_order.empty() && t.point < 0) place_ids(t);
  const bool plain = t.point < 0 && ex.options->grid_order.empty() && !ex.check_windows;
  if (p.row_end != Addr::kNoSlot)
    t.slot<int64_t>(p.row_end) = plain ? box.hi.back() : std::numeric_limits<int64_t>::min();
  at_point(t, s);
  place_windows(t);
  return s + 1;
}

namespace {
// As axis `g` goes on by one, and those behind it begin anew.
void move_windows(Thread& t, const GridPart& part, size_t g) {
  const std::vector<Body::MovingWindow>& moving = t.body->moving;
  const int64_t* advance = part.advance.data() + g * moving.size();
  for (size_t m = 0; m < moving.size(); ++m) t.slot<uint64_t>(moving[m].dyn) += static_cast<uint64_t>(advance[m]);
}

// Moves the thread on; false behind its last grid point.
bool next_point(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  const Body& p = *t.body;
  ex.host.end_point();
  if (t.point >= 0) return false;
  if (!ex.options->grid_order.empty()) [[unlikely]] {
    if (!next_place(t)) return false;
    place_windows(t);
    at_point(t, s);
    return true;
  }
  const GridPart& part = ex.part(t);
  for (size_t g = p.pid_slots.size(); g-- > 0;) {
    int64_t& id = t.slot<int64_t>(p.pid_slots[g]);
    if (++id < part.box.hi[g]) {
      move_windows(t, part, g);
      at_point(t, s);
      return true;
    }
    id = part.box.lo[g];
  }
  return false;
}

struct GridNext : NoOperands<sizeof(int64_t)> {
  static const Step* run(Thread& t, const Step* s) { return next_point(t, s) ? s->jump : s + 1; }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t) {
    if (const int64_t id = t.slot<int64_t>(s->dst) + 1; id < t.slot<int64_t>(s->a)) [[likely]] {
      t.slot<int64_t>(s->dst) = id;
      if (!t.body->moving.empty()) move_windows(t, t.exec->part(t), t.body->pid_slots.size() - 1);
      t.exec->host.end_point();
      return go_to(t, s, s->jump, static_cast<uint64_t>(id));
    }
    const bool more = next_point(t, s);
    const auto id = t.slot<uint64_t>(s->dst);
    return more ? go_to(t, s, s->jump, id) : s[1].threaded(t, s + 1, id);
  }
};
}  // namespace
const StepForm kGridNext = kFormOf<Kind::grid_next, GridNext>, kGridEnd{Kind::grid_next, GridNext::run};

const Step* window_indexed(Thread& t, const Step* s) {
  const auto& w = payload<Kind::window_indexed>(s);
  check_window(t, s, w);
  t.exec->events->window(t, w);
  int64_t offset = 0;
  for (size_t d = 0; d < w.dims.size(); ++d)
    offset += t.slot<int64_t>(w.map.index_value[d]) * w.map.scale[d] * w.strides[d];
  if (const auto* at = std::get_if<Window::Direct>(&w.reach)) t.slot<int64_t>(at->offset) = offset * w.element_bytes;
  return s + 1;
}

namespace {

void move_window(Thread& t, const Window& w, const int64_t* place, bool in) {
  const Window::Stage& copy = *w.stage();
  std::byte* stage = t.bases[t.body->temps] + copy.offset;
  const memory::Clip c = clip_window(w, place);
  const int rank = static_cast<int>(w.dims.size());
  if (in && !c.full) poison(stage, copy.elements, w.dtype, t.exec->options->uninitialized);
  if (c.empty) return;
  stage += c.block_offset * w.element_bytes;
  std::byte* array = t.bases[w.buffer] + c.array_offset * w.element_bytes;
  Execution& ex = *t.exec;
  if (in) copy_in_parts(ex, stage, copy.strides.data(), array, w.strides.data(), c.count, rank, w.element_bytes);
  else copy_in_parts(ex, array, w.strides.data(), stage, copy.strides.data(), c.count, rank, w.element_bytes);
}

void block_boxes(const Thread& t, const Window& w, const int64_t* place, bool in, Boxes& out) {
  const Window::Stage& copy = *w.stage();
  const memory::Clip c = clip_window(w, place);
  const std::span<const int64_t> count(c.count, w.dims.size());
  const Addr array{w.buffer, Addr::kNoSlot, c.array_offset * w.element_bytes},
      part{t.body->temps, Addr::kNoSlot, copy.offset + c.block_offset * w.element_bytes};
  const auto box = [&](const Addr& a, std::span<const int64_t> strides, bool write) {
    if (!c.empty) out.internal(a, count, strides, w.element_bytes, write);
  };
  if (in) {
    const int64_t one = 1;
    box(array, w.strides, false);
    out.internal({t.body->temps, Addr::kNoSlot, copy.offset}, {&copy.elements, 1}, {&one, 1}, w.element_bytes, true);
  } else {
    box(part, copy.strides, false);
    box(array, w.strides, true);
  }
}

// What a staged window shows, and what it will.
struct StagedPlaces {
  StagedPlaces(Thread& t, const Window& w) : valid(false) {
    const auto places = static_cast<uint32_t>(w.places());
    const uint32_t slots = std::get<Window::Staged>(w.reach).place;
    valid = t.slot<int64_t>(slots + 16 * places) != 0;
    window_place(t, w, next);
    for (uint32_t d = 0; d < places; ++d) now[d] = t.slot<int64_t>(slots + 16 * d);
    same = valid && std::equal(now, now + places, next);
  }
  bool valid, same;
  int64_t now[2 * memory::kMaxRank], next[2 * memory::kMaxRank];
};

}  // namespace

void window_staged_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& w = payload<Kind::window_staged>(s);
  check_window(t, &s, w);
  const StagedPlaces at(t, w);
  if (at.same) return;
  if (at.valid && w.is_output) block_boxes(t, w, at.now, false, out);
  block_boxes(t, w, at.next, true, out);
}

void window_flush_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& w = payload<Kind::window_flush>(s);
  const StagedPlaces at(t, w);
  if (at.valid) block_boxes(t, w, at.now, false, out);
}

namespace {

// What move_window does, to births: what lies outside of the array is padding.
void move_births(Thread& t, const Step& s, const Window& w, const int64_t* place, bool in, Shadow& shadow) {
  const Window::Stage& copy = *w.stage();
  const memory::Clip c = clip_window(w, place);
  const std::span<const int64_t> count(c.count, w.dims.size());
  memory::shadow::Definedness &stage = shadow.memory(t.index, t.body->temps), &array = shadow.memory(t.index, w.buffer);
  const memory::shadow::View part{copy.offset + c.block_offset * w.element_bytes, count, copy.strides, w.element_bytes},
      there{c.array_offset * w.element_bytes, count, w.strides, w.element_bytes};
  if (in)
    stage.set(copy.offset, copy.offset + copy.elements * w.element_bytes,
              c.full ? Birth{0} : shadow.made(t, s, Shadow::Making::Padding));
  Birth undefined = 0;
  if (in && w.is_output && shadow.begins_undefined(w, &undefined))
    return stage.set(copy.offset, copy.offset + copy.elements * w.element_bytes, undefined);
  if (c.empty) return;
  memory::shadow::Births births;
  (in ? array : stage).load(in ? there : part, &births);
  (in ? stage : array).store(in ? part : there, births);
  if (!in) shadow.stored(t, s, {w.buffer, Addr::kNoSlot, there.offset}, births);
}

}  // namespace

void carry_window(Thread& t, const Step& s, Shadow& shadow) {
  const bool flush = s.kind == Kind::window_flush;
  const Window& w = flush ? payload<Kind::window_flush>(s) : payload<Kind::window_staged>(s);
  const StagedPlaces at(t, w);
  if (!flush && at.same) return;
  if (at.valid && w.is_output) move_births(t, s, w, at.now, false, shadow);
  if (!flush) move_births(t, s, w, at.next, true, shadow);
}

const Step* window_staged(Thread& t, const Step* s) {
  const auto& w = payload<Kind::window_staged>(s);
  const auto places = static_cast<uint32_t>(w.places());
  const uint32_t slots = std::get<Window::Staged>(w.reach).place;
  check_window(t, s, w);
  if (!w.map.affine) t.exec->events->window(t, w);
  const StagedPlaces at(t, w);
  if (at.same) return s + 1;
  if (at.valid && w.is_output) move_window(t, w, at.now, false);
  move_window(t, w, at.next, true);
  for (uint32_t d = 0; d < places; ++d) t.slot<int64_t>(slots + 16 * d) = at.next[d];
  t.slot<int64_t>(slots + 16 * places) = 1;
  return s + 1;
}

const Step* window_edge(Thread& t, const Step* s) {
  const auto& w = payload<Kind::window_edge>(s);
  const Window::Edge& edge = *w.edge();
  int64_t offset = 0;
  for (size_t d = 0; d < w.dims.size(); ++d) {
    const int64_t start = block_start(w, d, window_index(t, w, d));
    t.slot<int64_t>(edge.place + 16 * static_cast<uint32_t>(d)) = start;
    offset = memory::add(offset, memory::mul(start, w.strides[d]));
  }
  t.slot<int64_t>(edge.offset) = memory::mul(offset, w.element_bytes);
  return s + 1;
}

const Step* window_flush(Thread& t, const Step* s) {
  const auto& w = payload<Kind::window_flush>(s);
  if (const StagedPlaces at(t, w); at.valid) move_window(t, w, at.now, false);
  return s + 1;
}

}  // namespace pallasim::interp::ops
