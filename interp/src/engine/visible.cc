#include "visible.h"

#include <algorithm>

#include "../ops/footprint.h"
#include "footprint_judge.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::interp {
namespace {

enum Seen : uint8_t { kUnknown, kNo, kYes };

// Steps that do nothing but wait: where they announce what they wait for, nothing has happened yet.
bool only_waits(const Step& s) {
  switch (s.kind) {
    case Kind::sem_wait:
    case Kind::dma_wait:
    case Kind::barrier_wait:
    case Kind::wait_groups:
    case Kind::await_products: return true;
    default: return false;
  }
}

// Whether a box lies in memory that somebody else reaches.
class Reached : public ops::Boxes {
 public:
  Reached(const Thread& t, const Step& s, bool named) : Boxes(t, s), t_(t), named_(named) {}
  bool wants(uint32_t buffer) const override { return !found && (named_ || !t_.exec->plan->memory.is_private(buffer)); }
  bool wants_internal() const override { return false; }
  bool found = false;

 private:
  void box(const Access& a) override {
    const PlanMemory& m = t_.exec->plan->memory;
    found = found || !m.is_private(a.buffer) || (a.owner >= 0 && a.owner != a.thread) || is_named(m, a);
  }
  // What the kernel allocated, and not a value of the compiler's.
  bool is_named(const PlanMemory& m, const Access& a) const {
    const memory::shadow::Range r = memory::shadow::Box(a.offset, a.dims, a.strides, a.rank, a.element_bytes).hull();
    return std::any_of(m.allocations.begin(), m.allocations.end(), [&](const memory::Allocation& x) {
      return x.buffer == a.buffer && x.offset < r.end && r.begin < x.offset + x.bytes;
    });
  }
  const Thread& t_;
  bool named_;
};

bool starts_operations(const Plan& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) {
    return starts_operation(s) || has_trait(s, kReaches) || s.kind == Kind::wgmma || s.kind == Kind::pipeline_fetch ||
           s.kind == Kind::peer_read;
  });
}

}  // namespace

Visibility::Visibility(Execution& ex)
    : ex_(ex), reached_(starts_operations(*ex.plan)), constant_(ex.plan->memory.aliases.empty()) {
  if (ex.host.seen.size() != ex.plan->steps.size()) ex.host.seen.assign(ex.plan->steps.size(), kUnknown);
}

bool Visibility::looks(Thread& t, const Step& s) const {
  Reached reached(t, s, reached_);
  ops::footprint(t, s, reached);
  return reached.found;
}

bool Visibility::sees(Thread& t, const Step& s) {
  uint8_t& known = ex_.host.seen[static_cast<size_t>(s.id)];
  if (known != kUnknown) return known == kYes;
  const KindRow& r = row(s);
  if (r.visible != Visible::Shared) {
    known = r.visible == Visible::Always ? kYes : kNo;
    return known == kYes;
  }
  if (r.footprint == Footprint::Operations || r.footprint == Footprint::Nothing) return true;
  const bool found = looks(t, s);
  if (r.footprint == Footprint::Static && constant_) known = found ? kYes : kNo;
  return found;
}

Stop run_to_visible(Execution& ex, Thread& t, Visibility& visibility, int64_t most) {
  const Step* s = t.pc;
  t.stop = Stop::None;
  const bool judged = ex.options->verify_footprints;
  int64_t left = most;
  const auto go = [&] {
    if (ex.observed || judged) ex.events->step(t, *s);
    ++ex.steps;
    return judged ? run_judged(t, s) : s->fn(t, s);
  };
  try {
    do {
      const Step* next = go();
      if (!next) return t.stop;
      s = next;
    } while (--left > 0 && !visibility.sees(t, *s) &&
             g_interrupt_epoch.load(std::memory_order_relaxed) == ex.host.interrupt_epoch);
    if (ex.host.announces && only_waits(*s)) {
      t.pc = s;
      s->fn(t, s);
      return t.stop;
    }
  } catch (...) {
    t.pc = s;
    throw;
  }
  t.pc = s;
  return Stop::None;
}

bool can_go_on(const Execution& ex, const Thread& t) {
  const Wait& w = t.wait;
  switch (w.kind) {
    case Wait::Kind::None: return true;
    case Wait::Kind::Semaphore: return ex.semaphores.count(w.object) >= w.value;
    case Wait::Kind::Barrier: {
      const memory::Barrier& b = ex.barriers[w.object];
      const int64_t later = b.phase - w.value - 1;
      return later >= 0 && !(b.parity && later % 2 != 0);
    }
    case Wait::Kind::Group: return ex.streams[w.object].outstanding(w.reads) <= std::max<int64_t>(0, w.value);
    case Wait::Kind::Join: return t.children == 0;
  }
  return true;
}

}  // namespace pallasim::interp
