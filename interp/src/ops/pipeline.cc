// The pipeline of a grid as the machine has it: windows in the core's memory, each with one slot or more. While a step
// runs, the blocks of the next one are fetched into other slots and those of the step before are written back. A window
// of one slot overlaps with nothing: its block is fetched when its step begins and has been written back when its step
// ends.
#include "../plan/payload/grid.h"
#include "bodies.h"
#include "copies.h"

namespace pallasim::interp::ops {
namespace {

int64_t& state(Thread& t, const Window& w, size_t i) {
  return t.slot<int64_t>(w.modelled()->state + 16 * static_cast<uint32_t>(i));
}
// The place of the block that the kernel sees (Window::places), and of the next step's.
int64_t& current(Thread& t, const Window& w, size_t d) { return state(t, w, d); }
int64_t& next(Thread& t, const Window& w, size_t d) { return state(t, w, w.places() + d); }
enum Field { kSlot, kNextSlot, kMoves, kFresh, kFields };
static_assert(kFields == kPipelineFields);
int64_t& field(Thread& t, const Window& w, Field f) { return state(t, w, 2 * w.places() + f); }
// Bytes of the slot that are still on their way to the array.
int64_t& leaving(Thread& t, const Window& w, int64_t slot) {
  return state(t, w, 2 * w.places() + kFields + static_cast<size_t>(slot));
}

int64_t semaphore(const Thread& t, const Window& w, int64_t slot) {
  return t.exec->semaphore_layout.id(w.modelled()->semaphore, slot, t.unit);
}

int64_t bytes_on_machine(const Window& w, const memory::Clip& c) {
  int64_t n = c.empty ? 0 : 1;
  for (size_t d = 0; d < w.dims.size() && !c.empty; ++d) n *= c.count[d];
  return (n * ir::bit_width(w.dtype) + 7) / 8;
}

memory::Clip clip_at(Thread& t, const Window& w, bool of_next) {
  int64_t place[2 * memory::kMaxRank];
  for (size_t d = 0; d < w.places(); ++d) place[d] = of_next ? next(t, w, d) : current(t, w, d);
  return clip_window(w, place);
}

// Issues the copy between the array and a slot: of the part of the block that exists, the rest of the slot stays as it
// is.
int64_t move_block(Thread& t, const Step* s, const Window& w, const memory::Clip& c, int64_t slot, bool in) {
  const Window::Modelled& m = *w.modelled();
  const int64_t bytes = bytes_on_machine(w, c);
  if (c.empty) return 0;
  memory::AsyncOperation op;
  op.kind = memory::AsyncKind::block;
  op.step = s->id;
  op.thread = t.index;
  memory::Side &array = in ? op.reads.add() : op.writes.add(), &window = in ? op.writes.add() : op.reads.add();
  array.place = {t.index, w.buffer, c.array_offset * w.element_bytes};
  window.place = {t.index, t.body->temps, m.stage.offset + slot * m.slot_bytes + c.block_offset * w.element_bytes};
  for (memory::Side* side : {&array, &window}) {
    side->dtype = w.dtype;
    side->rank = static_cast<int>(w.dims.size());
    side->set_dims(c.count);
    std::copy_n((side == &array ? w.strides : m.stage.strides).begin(), w.dims.size(), side->strides);
  }
  op.after_write.add({memory::Completion::Kind::Semaphore, semaphore(t, w, slot), bytes});
  issue(t, s, op);
  return bytes;
}

void save_place(Thread& t, const PipelinePayload& p) {
  const auto& places = t.body->place_slots;
  for (size_t g = 0; g < places.size(); ++g)
    t.slot<int64_t>(p.saved + 16 * static_cast<uint32_t>(g)) = t.slot<int64_t>(places[g]);
}

void restore_place(Thread& t, const PipelinePayload& p) {
  const auto& places = t.body->place_slots;
  for (size_t g = 0; g < places.size(); ++g)
    t.slot<int64_t>(places[g]) = t.slot<int64_t>(p.saved + 16 * static_cast<uint32_t>(g));
  place_ids(t);
}

// The program ids become those of the next step, if there is one, so that the index maps speak of it.
void look_ahead(Thread& t, const PipelinePayload& p) {
  save_place(t, p);
  const bool more = next_place(t);
  t.slot<int64_t>(p.more) = more;
  if (!more) restore_place(t, p);
}

// The step that was looked at begins.
void enter_step(Thread& t, const Step* s, const PipelinePayload& p) {
  for (const Window* w : p.windows) {
    const bool moves = field(t, *w, kMoves) != 0;
    field(t, *w, kFresh) = moves;
    field(t, *w, kSlot) = field(t, *w, kNextSlot);
    for (size_t d = 0; d < w->places(); ++d) current(t, *w, d) = next(t, *w, d);
    t.slot<int64_t>(w->modelled()->offset) = field(t, *w, kSlot) * w->modelled()->slot_bytes;
    int64_t place[2 * memory::kMaxRank];
    for (size_t d = 0; d < w->places(); ++d) place[d] = current(t, *w, d);
    if (!w->map.affine) t.exec->events->window_at(t, *w, place);
  }
  t.exec->events->point(t);
  // A block that has one slot is fetched by its own step.
  for (const Window* w : p.windows)
    if (field(t, *w, kFresh) && !w->is_output && w->modelled()->slots == 1)
      move_block(t, s, *w, clip_at(t, *w, false), 0, true);
}

}  // namespace

void place_pipeline(Thread& t) {
  for (const Window& w : t.body->windows) {
    if (!w.modelled()) continue;
    int64_t place[2 * memory::kMaxRank];
    window_place(t, w, place);
    for (size_t d = 0; d < w.places(); ++d) current(t, w, d) = place[d];
  }
}

const Step* pipeline_fetch(Thread& t, const Step* s) {
  const auto& p = payload<Kind::pipeline_fetch>(s);
  const bool first = t.slot<int64_t>(p.started) == 0;
  const bool more = first || t.slot<int64_t>(p.more) != 0;
  for (const Window* w : p.windows) {
    field(t, *w, kMoves) = 0;
    if (!more) continue;
    check_window(t, s, *w);
    bool moves = first;
    int64_t place[2 * memory::kMaxRank];
    window_place(t, *w, place);
    for (size_t d = 0; d < w->places(); ++d) {
      next(t, *w, d) = place[d];
      moves = moves || next(t, *w, d) != current(t, *w, d);
    }
    const int64_t slot = field(t, *w, kSlot);
    field(t, *w, kMoves) = moves;
    field(t, *w, kNextSlot) = first || !moves ? slot : (slot + 1) % w->modelled()->slots;
    if (moves && !w->is_output && w->modelled()->slots > 1)
      move_block(t, s, *w, clip_at(t, *w, true), field(t, *w, kNextSlot), true);
  }
  if (first) {
    t.slot<int64_t>(p.started) = 1;
    enter_step(t, s, p);
    look_ahead(t, p);
    return s->jump;
  }
  if (more) restore_place(t, p);
  return s + 1;
}

const Step* pipeline_await(Thread& t, const Step* s) {
  const auto& w = payload<Kind::pipeline_await>(s);
  if (!field(t, w, kFresh)) return s + 1;
  const int64_t slot = field(t, w, kSlot);
  const int64_t bytes = w.is_output ? leaving(t, w, slot) : bytes_on_machine(w, clip_at(t, w, false));
  const Step* then = wait_for(t, s, semaphore(t, w, slot), bytes, true);
  if (then) field(t, w, kFresh) = 0;
  if (then && w.is_output) leaving(t, w, slot) = 0;
  return then;
}

const Step* pipeline_leave(Thread& t, const Step* s) {
  const auto& p = payload<Kind::pipeline_leave>(s);
  const bool more = t.slot<int64_t>(p.more) != 0;
  for (const Window* w : p.windows)
    if (w->is_output && (!more || field(t, *w, kMoves)))
      leaving(t, *w, field(t, *w, kSlot)) = move_block(t, s, *w, clip_at(t, *w, false), field(t, *w, kSlot), false);
  return s + 1;
}

const Step* pipeline_next(Thread& t, const Step* s) {
  const auto& p = payload<Kind::pipeline_next>(s);
  t.exec->host.end_point();
  if (t.slot<int64_t>(p.more) == 0) return s + 1;
  next_place(t);
  enter_step(t, s, p);
  look_ahead(t, p);
  return s->jump;
}

const Step* pipeline_drain(Thread& t, const Step* s) {
  const auto& w = payload<Kind::pipeline_drain>(s);
  for (int64_t slot = 0; slot < w.modelled()->slots; ++slot) {
    if (leaving(t, w, slot) == 0) continue;
    const Step* then = wait_for(t, s, semaphore(t, w, slot), leaving(t, w, slot), true);
    if (!then) return nullptr;
    leaving(t, w, slot) = 0;
  }
  return s + 1;
}

}  // namespace pallasim::interp::ops
