// Threads that a thread spawns, and the wait for their ends.
#include "../plan/payload/control.h"
#include "bodies.h"

namespace pallasim::interp::ops {

const Step* spawn(Thread& t, const Step* s) {
  const auto& p = payload<Kind::spawn>(s);
  Execution& ex = *t.exec;
  const int64_t n = p.count();
  for (int64_t i = 0; i < n; ++i) {
    Thread& c = ex.begin_child(t, i, p.temps);
    if (p.warps) c.warp = static_cast<int32_t>(i);
    int64_t rest = i;
    for (size_t a = p.axis_slots.size(); a-- > 0; rest /= p.extents[a])
      c.slot<int64_t>(p.axis_slots[a]) = rest % p.extents[a];
    c.pc = s + 1;
    ex.woken.push_back(c.index);
    ex.events->thread(ThreadEvent::What::Begins, c.index);
    ex.events->sync({SyncEvent::What::Spawn, t.index, c.index});
  }
  t.children = static_cast<int32_t>(n);
  t.wait = {Wait::Kind::Join, 0, n};  // `value` stays what it is until the join
  ex.progressed = true;
  return s->jump;
}

const Step* join(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  if (t.children > 0) {
    t.pc = s;
    t.stop = Stop::Blocked;
    return nullptr;
  }
  for (int64_t i = 0; i < t.wait.value; ++i) ex.events->sync({SyncEvent::What::Join, t.index, ex.child(t, i).index});
  t.wait = {};
  return s + 1;
}

}  // namespace pallasim::interp::ops
