#include <fmt/format.h>

#include <set>

#include "../plan/payload/copies.h"
#include "bodies.h"
#include "findings.h"
#include "units.h"

namespace pallasim::interp::ops {

int64_t semaphore_id(const Thread& t, const SemPayload& p, int32_t unit) {
  const int64_t index = p.index.offset + (p.index.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.index.dyn));
  return t.exec->semaphore_layout.id(p.block, index, t.exec->semaphore_place(t, unit));
}
int64_t semaphore_id(const Thread& t, const SemPayload& p) { return semaphore_id(t, p, t.unit); }

namespace {
int64_t amount(const Thread& t, const SemPayload& p) {
  if (p.value_slot == Addr::kNoSlot) return p.value;
  return p.value_wide ? t.slot<int64_t>(p.value_slot) : t.slot<int32_t>(p.value_slot);
}

}  // namespace

const Step* sem_signal(Thread& t, const Step* s) {
  const auto& p = payload<Kind::sem_signal>(s);
  const int64_t n = amount(t, p);
  const auto signal = [&](int32_t unit) {
    const int64_t id = semaphore_id(t, p, unit);
    t.exec->events->sync({.what = SyncEvent::What::Signal, .thread = t.index, .object = id, .value = n, .step = s->id});
    t.exec->semaphores.signal(id, n, &t.exec->woken);
  };
  if (!p.peer.device.all) signal(unit_of(t, s, p.peer, "signal"));
  else
    for (const int32_t unit : units_of(t, s, p.peer, "signal")) signal(unit);
  t.exec->progressed = true;
  return s + 1;
}

// Copies that move when somebody waits do so now, oldest first, as long as the count does not suffice. Among several
// threads they move as late as can be: when all of them wait (complete_awaited).
const Step* wait_for(Thread& t, const Step* s, int64_t id, int64_t value, bool decrement) {
  Execution& ex = *t.exec;
  if (announces(t, s, {Wait::Kind::Semaphore, id, value})) return nullptr;
  if (ex.threads.size() == 1)
    complete_while(ex, {memory::Completion::Kind::Semaphore, id}, [&] { return ex.semaphores.count(id) < value; });
  if (ex.semaphores.wait(id, value, decrement, t.index)) {
    t.wait = {};
    ex.events->sync({.what = decrement ? SyncEvent::What::Taken : SyncEvent::What::Looked,
                     .thread = t.index,
                     .object = id,
                     .value = value,
                     .step = s->id});
    return s + 1;
  }
  t.wait = {Wait::Kind::Semaphore, id, value};
  t.pc = s;
  t.stop = Stop::Blocked;
  return nullptr;
}

const Step* wait_for_groups(Thread& t, const Step* s, int64_t stream, int64_t most, bool reads) {
  Execution& ex = *t.exec;
  most = std::max<int64_t>(most, 0);
  if (announces(t, s, {Wait::Kind::Group, stream, most, reads})) return nullptr;
  const int64_t last = ex.streams.last_awaited(stream, most);
  complete_while(ex, {memory::Completion::Kind::Group, stream, last}, [&] { return last >= 0; });
  if (!ex.streams.wait(stream, most, reads, t.index)) {
    t.wait = {Wait::Kind::Group, stream, most, reads};
    t.pc = s;
    t.stop = Stop::Blocked;
    return nullptr;
  }
  t.wait = {};
  ex.events->sync({SyncEvent::What::Groups, t.index, stream, most, last, reads});
  return s + 1;
}

const Step* sem_wait(Thread& t, const Step* s) {
  const auto& p = payload<Kind::sem_wait>(s);
  return wait_for(t, s, semaphore_id(t, p), amount(t, p), p.decrement);
}

const Step* sem_read(Thread& t, const Step* s) {
  const auto& p = payload<Kind::sem_read>(s);
  Execution& ex = *t.exec;
  const int64_t id = semaphore_id(t, p);
  // Somebody who polls waits too.
  complete_while(ex, {memory::Completion::Kind::Semaphore, id}, [] { return true; });
  ex.events->sync({SyncEvent::What::Looked, t.index, id, ex.semaphores.count(id)});
  int64_t& seen = t.slot<int64_t>(s->dst);
  const bool same = seen == ex.semaphores.count(id);
  seen = ex.semaphores.count(id);
  if (!p.polls || !same) return s + 1;
  // Somebody else must signal what this loop waits for.
  ++ex.spins;
  t.pc = s + 1;
  t.stop = Stop::Yielded;
  return nullptr;
}

}  // namespace pallasim::interp::ops
