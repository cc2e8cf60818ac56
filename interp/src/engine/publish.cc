#include "publish.h"

#include <algorithm>

#include "../ops/bodies.h"
#include "../ops/footprint.h"

namespace pallasim::interp {

// Boxes as accesses, to who wants those of their buffer.
class Publisher::Accesses : public ops::Boxes {
 public:
  Accesses(Publisher& p, const Thread& t, const Step& s) : Boxes(t, s), p_(p) {}
  bool wants(uint32_t buffer) const override { return !who_sees(buffer).empty(); }
  bool wants_internal() const override { return p_.any(Observer::kInternal); }

 private:
  void box(const Access& a) override {
    for (Observer* o : a.buffer == buffer_ && seeing_ ? *seeing_ : who_sees(a.buffer))
      if (!a.internal || o->wants() & Observer::kInternal) o->on_access(a);
  }
  void boxes(const Access& a) override {
    for (Observer* o : a.buffer == buffer_ && seeing_ ? *seeing_ : who_sees(a.buffer)) {
      if (a.internal && !(o->wants() & Observer::kInternal)) continue;
      if (o->wants() & Observer::kPlaces) o->on_access(a);
      else each_place(a, [&](const Access& one) { o->on_access(one); });
    }
  }
  const Observers& who_sees(uint32_t buffer) const {
    if (!seeing_ || buffer != buffer_) seeing_ = &p_.who_sees(buffer), buffer_ = buffer;
    return *seeing_;
  }
  Publisher& p_;
  mutable const Observers* seeing_ = nullptr;  // of the buffer that was asked for last
  mutable uint32_t buffer_ = 0;
};

Publisher::Touches Publisher::touches(const Step& s) {
  if (s.kind == Kind::load_scalar || s.kind == Kind::store_scalar) return Touches::Element;
  if (s.kind == Kind::stop_point || row(s).footprint != Footprint::Nothing) return Touches::Memory;
  return Touches::Nothing;
}

Publisher::Publisher(Execution& ex, std::span<Observer* const> observers, bool runs_tell)
    : ex_(ex), all_(observers.begin(), observers.end()) {
  uint32_t wanted = 0;
  for (Observer* o : observers) {
    wanted |= o->wants();
    if (o->wants() & Observer::kTouching) touching_.push_back(o);
    else all_steps_ = all_steps_ || (o->wants() & (Observer::kStep | Observer::kTold)) != 0;
    for (size_t bit = 0; bit < by_bit_.size(); ++bit)
      if (o->wants() >> bit & 1) by_bit_[bit].push_back(o);
  }
  touches_.reserve(ex_.plan->steps.size());
  for (const Step& s : ex_.plan->steps) touches_.push_back(touches(s));
  ex_.events = this;
  ex_.observed = wanted != 0 && !(runs_tell && ex.plan->joined && ex.plan->observed_threads);
}

const Publisher::Observers& Publisher::who_sees(uint32_t buffer) {
  if (buffer >= by_buffer_.size()) by_buffer_.resize(buffer + size_t{1});
  std::optional<Observers>& seeing = by_buffer_[buffer];
  if (!seeing) {
    seeing.emplace();
    for (Observer* o : who(Observer::kAccess))
      if (o->wants_buffer(buffer)) seeing->push_back(o);
  }
  return *seeing;
}

Publisher::~Publisher() {
  ex_.events = &Events::nobody();
  ex_.observed = false;
}

void Publisher::launch() {
  const LaunchEvent e{*ex_.plan, *ex_.locs, ex_.grid, ex_.devices, static_cast<int32_t>(ex_.unit_threads)};
  tell(Observer::kLaunch, [&](Observer& o) { o.on_launch(e); });
}

inline bool Publisher::asks_for_all(const Thread& t) const {
  for (const Observer* o : touching_)
    if (o->all_steps(t.index)) return true;
  return all_steps_;
}

bool Publisher::is_known(const Thread& t, const Step& s) {
  const ElementAccess a = ops::element(t, s);
  if (a.offset < 0) return false;
  const Observers& who = who_sees(a.buffer);
  return who.size() == 1 && who.front()->knows(a);
}

// Most steps of a kernel of scalars need no more than this.
void Publisher::step(Thread& t, const Step& s) {
  const Touches touches = touches_[static_cast<size_t>(s.id)];
  if (touches == Touches::Memory || asks_for_all(t)) return tell_step(t, s);
  if (touches == Touches::Element && !is_known(t, s)) return tell_step(t, s);
  ++time_;
}

void Publisher::tell_step(Thread& t, const Step& s) {
  if (s.kind == Kind::stop_point) return;  // it does nothing, and comes twice where somebody stops there
  tell(Observer::kStep, [&](Observer& o) { o.on_step({t.index, s.id, time_}); });
  ++time_;
  if (any(Observer::kAccess)) {
    Accesses to(*this, t, s);
    ops::footprint(t, s, to);
  }
  tell(Observer::kTold, [&](Observer& o) { o.on_told({t.index, s.id, time_}); });
}

void Publisher::point(const Thread& t) {
  if (any(Observer::kPoint)) {
    std::vector<int64_t> ids;
    for (const uint32_t slot : t.body->pid_slots) ids.push_back(t.slot<int64_t>(slot));
    tell(Observer::kPoint, [&](Observer& o) { o.on_point({t.index, ex_.core_of(t), ids}); });
  }
  for (const Window& w : t.body->windows)
    if (w.map.affine && !w.map.index.empty()) window(t, w);
}

void Publisher::window(const Thread& t, const Window& w) {
  if (!any(Observer::kWindow)) return;
  int64_t place[2 * memory::kMaxRank];
  ops::window_place(t, w, place);
  window_at(t, w, place);
}

void Publisher::window_at(const Thread& t, const Window& w, const int64_t* place) {
  tell(Observer::kWindow, [&](Observer& o) { o.on_window({t.index, static_cast<size_t>(w.operand), place}); });
}

void Publisher::tell_sides(const Thread& t, const Step& s, const memory::AsyncOperation& op) {
  Accesses to(*this, t, s);
  // The window of a block is the pipeline's own.
  const auto is_own = [&](const memory::Side& side) {
    return op.kind == memory::AsyncKind::block && side.place.buffer == t.body->temps;
  };
  for (const memory::Side& side : op.reads)
    if (!is_own(side)) ops::side_boxes(op, side, false, side.dims, to);
  for (const memory::Side& side : op.writes) {
    if (is_own(side)) continue;
    // What fills the rest of a box is written as the elements are; of padding nothing was read.
    const bool unwritten = op.rest == memory::Rest::Unwritten;
    if (unwritten)
      to.add({side.place.buffer, Addr::kNoSlot, side.place.offset}, {side.dims, static_cast<size_t>(side.rank)},
             {side.strides, static_cast<size_t>(side.rank)}, side.element_bytes(),
             {.write = true, .unwritten = true, .owner = t.exec->thread_of(side.place)});
    ops::side_boxes(op, side, true, unwritten ? op.reads.front().dims : side.dims, to);
  }
}

void Publisher::issued(const Thread& t, const Step& s, const memory::AsyncOperation& op) {
  if (any(Observer::kAccess) && row(s).footprint != Footprint::Static) tell_sides(t, s, op);
  tell(Observer::kOperation, [&](Observer& o) { o.on_operation({OperationEvent::What::Issued, op, time_}); });
}
void Publisher::moved(const memory::AsyncOperation& op) {
  tell(Observer::kOperation, [&](Observer& o) { o.on_operation({OperationEvent::What::Moved, op, time_}); });
}
void Publisher::completed(const memory::AsyncOperation& op) {
  tell(Observer::kOperation, [&](Observer& o) { o.on_operation({OperationEvent::What::Completed, op, time_}); });
}
void Publisher::sync(const SyncEvent& e) {
  tell(Observer::kSync, [&](Observer& o) { o.on_sync(e); });
}
void Publisher::memory(const MemoryEvent& e) {
  tell(Observer::kMemory, [&](Observer& o) { o.on_memory(e); });
}
void Publisher::thread(ThreadEvent::What what, int32_t thread) {
  tell(Observer::kThread, [&](Observer& o) { o.on_thread({what, thread, time_}); });
}
void Publisher::finding(const ir::Diagnostic& d) {
  tell(Observer::kFinding, [&](Observer& o) { o.on_finding(d); });
}
void Publisher::print(const Thread& t, const std::string& text) {
  tell(Observer::kPrint, [&](Observer& o) { o.on_print(t.index, text); });
}

ObserverStates Publisher::states() const {
  ObserverStates r;
  for (const Observer* o : all_) r.of.push_back(o->state());
  r.time = time_;
  return r;
}
void Publisher::restore(const ObserverStates& s) {
  for (size_t i = 0; i < all_.size(); ++i)
    if (s.of[i]) all_[i]->restore(s.of[i]);
  time_ = s.time;
}

}  // namespace pallasim::interp
