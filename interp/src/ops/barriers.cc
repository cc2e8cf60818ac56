// Barriers: arrivals, bytes that are due, ends of phases.
#include "../plan/payload/barriers.h"
#include "findings.h"
#include "threaded.h"
#include "units.h"

namespace pallasim::interp::ops {
namespace {

int64_t index_of(const Thread& t, const BarrierPayload& p) {
  return p.index.offset + (p.index.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.index.dyn));
}

// How many phases of a barrier a thread saw the ends of.
class Seen {
 public:
  Seen(Thread& t, const BarrierPayload& p) : value_(t.slot<int64_t>(p.seen + 16 * at(t, p, 0))) {
    if (p.besides == Addr::kNoSlot) return;
    Execution& ex = *t.exec;
    Thread& parent = ex.threads[static_cast<size_t>(t.parent)];
    const auto child = static_cast<uint32_t>(&t - &ex.child(parent, 0));
    besides_ = &parent.slot<int64_t>(p.besides + 16 * at(t, p, child));
  }
  int64_t get() const { return value_ + (besides_ ? *besides_ : 0); }
  void set(int64_t phases) { (besides_ ? *besides_ : value_) += phases - get(); }

 private:
  static uint32_t at(const Thread& t, const BarrierPayload& p, uint32_t child) {
    const int64_t block = t.exec->barrier_layout.blocks()[static_cast<size_t>(p.block)].count;
    return child * static_cast<uint32_t>(block) + static_cast<uint32_t>(index_of(t, p));
  }
  int64_t& value_;
  int64_t* besides_ = nullptr;
};

int64_t own_id(const Thread& t, const BarrierPayload& p, int64_t index) {
  return t.exec->barrier_layout.id_of_thread(p.block, index, t.unit);
}

int64_t bytes(const Thread& t, const Step* s, const BarrierPayload::Bytes& b) {
  const int64_t n = b.slot == Addr::kNoSlot ? b.fixed : t.slot<int32_t>(b.slot);
  if (n < 0) diagnose(t).bytes_below_zero(t, s, n);
  return n;
}

}  // namespace

int64_t barrier_id(const Thread& t, const BarrierPayload& p) { return barrier_id(t, p, t.unit); }

int64_t barrier_id(const Thread& t, const BarrierPayload& p, int32_t unit) {
  return t.exec->barrier_layout.id_of_thread(p.block, index_of(t, p), unit);
}

void arrive_expecting(Thread& t, int64_t barrier, int64_t bytes) {
  Execution& ex = *t.exec;
  ex.events->sync({SyncEvent::What::Arrive, t.index, barrier});
  if (ex.barriers.arrive_expecting(barrier, bytes, t.index, &ex.woken))
    ex.events->sync({SyncEvent::What::Phase, -1, barrier});
}

// What the barrier has to say of what the step did.
void tell_of_barriers(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  const auto& found = ex.barriers.findings();
  if (ex.barriers_told == found.size()) [[likely]]
    return;
  for (; ex.barriers_told < found.size(); ++ex.barriers_told)
    diagnose(t).barrier_misused(t, s, found[ex.barriers_told]);
}

namespace {

// Bytes are expected before the arrival that brings the expectation counts, so that no phase ends between the two.
void arrive_at(Thread& t, const Step* s, const BarrierPayload& p, int64_t id) {
  Execution& ex = *t.exec;
  const int64_t expected = bytes(t, s, p.expects), brought = bytes(t, s, p.brings);
  ex.events->sync({SyncEvent::What::Arrive, t.index, id});
  const auto ended = [&](bool phase) {
    if (phase) ex.events->sync({SyncEvent::What::Phase, -1, id});
  };
  if (p.count > 0) {
    if (expected > 0) ended(ex.barriers.arrive_expecting(id, expected, t.index, &ex.woken));
    if (const int64_t n = p.count - (expected > 0); n > 0) ended(ex.barriers.arrive(id, n, t.index, &ex.woken));
  } else if (expected > 0) {
    ended(ex.barriers.expect(id, expected, &ex.woken));
  }
  if (brought > 0) ended(ex.barriers.deliver(id, brought, &ex.woken));
  ex.progressed = true;
  tell_of_barriers(t, s);
}

}  // namespace

const Step* barrier_arrive(Thread& t, const Step* s) {
  const BarrierPayload& p = payload<Kind::barrier_arrive>(s);
  if (!p.reaches.elsewhere()) arrive_at(t, s, p, barrier_id(t, p));
  else
    for (int32_t unit : units_of(t, s, p.reaches)) arrive_at(t, s, p, barrier_id(t, p, unit));
  return s + 1;
}

const Step* named_arrive(Thread& t, const Step* s) {
  const BarrierPayload& p = payload<Kind::named_arrive>(s);
  Execution& ex = *t.exec;
  const int64_t index = index_of(t, p), count = ex.barrier_layout.blocks()[static_cast<size_t>(p.block)].count;
  if (index < 0 || index >= count)
    diagnose(t).no_such_unit(t, s, "an arrival", "named barrier", static_cast<int32_t>(index),
                             static_cast<int32_t>(count));
  const int64_t id = barrier_id(t, p);
  ex.barriers.take(id, p.takes, t.index);
  if (p.sees) Seen(t, p).set(ex.barriers[id].phase);
  arrive_at(t, s, p, id);
  return s + 1;
}

namespace {

// A thread that looks whether the phase after those that it saw has ended.
struct Look {
  Look(Thread& t, const BarrierPayload& p) : id(barrier_id(t, p)), seen(t, p), phases(seen.get()) {
    Execution& ex = *t.exec;
    complete_while(ex, {memory::Completion::Kind::Barrier, id}, [&] { return ex.barriers[id].phase <= phases; });
  }
  void passed(Thread& t) {
    seen.set(phases);
    t.exec->events->sync({SyncEvent::What::Passed, t.index, id, phases - 1});
  }
  const int64_t id;
  Seen seen;
  int64_t phases;
};

}  // namespace

const Step* barrier_wait(Thread& t, const Step* s) {
  Look look(t, payload<Kind::barrier_wait>(s));
  if (announces(t, s, {Wait::Kind::Barrier, look.id, look.phases})) return nullptr;
  if (!t.exec->barriers.wait(look.id, &look.phases, t.index)) {
    t.wait = {Wait::Kind::Barrier, look.id, look.phases};
    t.pc = s;
    t.stop = Stop::Blocked;
    return nullptr;
  }
  t.wait = {};
  look.passed(t);
  tell_of_barriers(t, s);
  return s + 1;
}

const Step* barrier_test(Thread& t, const Step* s) {
  Look look(t, payload<Kind::barrier_test>(s));
  const bool ended = t.exec->barriers.test(look.id, &look.phases, t.index);
  t.slot<uint8_t>(s->dst) = ended;
  if (ended) look.passed(t);
  tell_of_barriers(t, s);
  if (ended || !payload<Kind::barrier_test>(s).polls) return s + 1;
  ++t.exec->spins;  // somebody else must arrive
  t.pc = s + 1;
  t.stop = Stop::Yielded;
  return nullptr;
}

namespace {

// Of barriers that the thread reaches as its own, without bytes: in runs, where nobody is to be told.
struct OwnArrive : NoOperands<> {
  static const Step* run(Thread& t, const Step* s) { return barrier_arrive(t, s); }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t) {
    Execution& ex = *t.exec;
    const BarrierPayload& p = payload<Kind::barrier_arrive>(s);
    ex.barriers.arrive(own_id(t, p, index_of(t, p)), p.count, t.index, &ex.woken);
    ex.progressed = true;
    tell_of_barriers(t, s);
    return go_on(t, s);
  }
};

// The phase that the thread awaits ended, and none behind it; else the engine looks.
struct OwnWait : NoOperands<> {
  static const Step* run(Thread& t, const Step* s) { return barrier_wait(t, s); }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    Execution& ex = *t.exec;
    const BarrierPayload& p = payload<Kind::barrier_wait>(s);
    const int64_t index = index_of(t, p), id = own_id(t, p, index);
    int64_t& seen = t.slot<int64_t>(p.seen + 16 * static_cast<uint32_t>(index));
    if (ex.barriers[id].phase != seen + 1) [[unlikely]]
      return end_threaded(t, s, value);
    ex.barriers.test(id, &seen, t.index);
    t.wait = {};
    tell_of_barriers(t, s);
    return go_on(t, s);
  }
};

constexpr StepForm kOwnArrive{Kind::barrier_arrive, OwnArrive::run, &kFormsOf<OwnArrive>};
constexpr StepForm kOwnWait{Kind::barrier_wait, OwnWait::run, &kFormsOf<OwnWait>};

bool none(const BarrierPayload::Bytes& b) { return b.fixed == 0 && b.slot == Addr::kNoSlot; }

}  // namespace

const StepForm kBarrierArrive{Kind::barrier_arrive, barrier_arrive}, kBarrierWait{Kind::barrier_wait, barrier_wait};

const StepForm& arrival(const BarrierPayload& p) {
  return !p.reaches.elsewhere() && none(p.expects) && none(p.brings) && p.count > 0 ? kOwnArrive : kBarrierArrive;
}
const StepForm& passage(const BarrierPayload& p) { return p.besides == Addr::kNoSlot ? kOwnWait : kBarrierWait; }

}  // namespace pallasim::interp::ops
