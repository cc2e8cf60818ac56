#include "timed_run.h"

#include <algorithm>
#include <queue>

#include "../engine/visible.h"
#include "../ops/bodies.h"
#include "../ops/findings.h"

namespace pallasim::interp {
namespace {

struct Turn {
  double time;
  int64_t order;  // of equal times the one that came first
  int32_t thread;
  bool operator>(const Turn& o) const { return time != o.time ? time > o.time : order > o.order; }
};

class Run {
 public:
  Run(Execution& ex, Clocks& clocks, const TimedRun& how) : ex_(ex), clocks_(clocks), how_(how), visibility_(ex) {}

  void all() {
    for (Thread& t : ex_.threads)
      if (t.stop == Stop::None) {
        clocks_.begin(t.index, 0);
        push(t.index);
      }
    for (;;) {
      const double ends = clocks_.next();
      if (ready_.empty() && ends == hw::Transfers::kNever) break;
      if (ready_.empty() || ends <= ready_.top().time) {
        end_something();
        continue;
      }
      const int32_t thread = ready_.top().thread;
      ready_.pop();
      turn(ex_.threads[static_cast<size_t>(thread)]);
    }
    for (const Thread& t : ex_.threads)
      if (t.stop == Stop::Blocked) ex_.diagnostics->deadlock(ex_, "virtual-time");
    while (!ex_.copies.empty()) ops::complete_copy(ex_, 0);
  }

 private:
  void push(int32_t thread) { ready_.push({clocks_.at(thread), order_++, thread}); }

  void wake() {
    for (const int32_t w : ex_.woken) {
      Thread& t = ex_.threads[static_cast<size_t>(w)];
      if (t.stop == Stop::Blocked) ex_.events->thread(ThreadEvent::What::Wakes, w);
      else clocks_.begin(w, clocks_.at(running_));
      push(w);
    }
    ex_.woken.clear();
  }

  void end_something() {
    clocks_.step(&ended_);
    for (const int64_t id : ended_.operations) {
      size_t lo = 0, hi = ex_.copies.size();
      while (lo < hi) {  // they are in the order in which they were issued
        const size_t mid = (lo + hi) / 2;
        if (ex_.copies[mid].id < id) lo = mid + 1;
        else hi = mid;
      }
      if (lo < ex_.copies.size() && ex_.copies[lo].id == id) ops::complete_copy(ex_, lo);
      wake();
    }
    for (const int32_t t : ended_.threads) push(t);
  }

  bool skips(const Step& s) const { return how_.skips[static_cast<size_t>(s.id)]; }

  // Until something happens that others see, or somebody's clock is behind.
  Stop steps(Thread& t, bool* waits) {
    const Step* s = t.pc;
    t.stop = Stop::None;
    do {
      if (clocks_.must_wait(t, *s)) {
        *waits = true;
        break;
      }
      ++ex_.steps;
      const Step* next = skips(*s) ? s + 1 : s->fn(t, s);
      if (next || t.stop == Stop::Yielded) clocks_.ran(t, *s);
      if (!next) return t.stop;
      s = next;
      // What is left out nobody sees, and where it would lie may not be known.
    } while ((skips(*s) || !visibility_.sees(t, *s)) && clocks_.at(t.index) <= limit() &&
             g_interrupt_epoch.load(std::memory_order_relaxed) == ex_.host.interrupt_epoch);
    t.pc = s;
    return Stop::None;
  }

  double limit() {
    const double ends = clocks_.next();
    return ready_.empty() ? ends : std::min(ends, ready_.top().time);
  }

  void turn(Thread& t) {
    running_ = t.index;
    const bool programs = ex_.points > 0;
    if (programs && !t.arena) ex_.begin_program(t);
    clocks_.runs(t.index);
    bool waits = false;
    const Stop stop = steps(t, &waits);
    if (stop == Stop::Done && t.parent >= 0) ex_.end_child(t);
    if (stop == Stop::Blocked) ex_.events->thread(ThreadEvent::What::Blocks, t.index);
    if (stop == Stop::Done) ex_.events->thread(ThreadEvent::What::Ends, t.index);
    wake();
    ex_.progressed = false;
    if (programs && stop == Stop::Done && t.parent < 0) {
      const std::vector<int32_t> next = ex_.end_program(t);
      clocks_.program_ended(t);
      for (const int32_t n : next) {
        clocks_.begin(n, clocks_.at(t.index));
        push(n);
      }
    }
    if (stop == Stop::Yielded) clocks_.polled(t.index);
    if (!waits && (stop == Stop::None || stop == Stop::Yielded)) push(t.index);
    if (how_.most_steps > 0 && ex_.steps > how_.most_steps) ex_.diagnostics->step_limit(ex_, t, "virtual-time");
    if (g_interrupt_epoch.load(std::memory_order_relaxed) != ex_.host.interrupt_epoch)
      ex_.diagnostics->interrupted(ex_, t, "virtual-time");
  }

  Execution& ex_;
  Clocks& clocks_;
  const TimedRun& how_;
  Visibility visibility_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready_;
  Clocks::Ended ended_;
  int64_t order_ = 0;
  int32_t running_ = 0;
};

}  // namespace

// One number, as a rule an index or a branch needs it: where it lies, and whether it may be used, is asked elsewhere.
static bool loads_a_number(const Step& s) {
  if (s.kind != Kind::gather) return false;
  const GatherPayload& g = payload<Kind::gather>(s);
  const auto is_array = [](const GatherDim& d) { return d.kind == GatherDim::Kind::Array; };
  // Masks and indices that arrays hold are not there either.
  return g.mode == GatherPayload::Mode::Load && g.dims.empty() && !g.has_mask &&
         std::none_of(g.ref_dims.begin(), g.ref_dims.end(), is_array);
}

// clang-format off
std::vector<bool> value_steps(const Plan& p) {
  std::vector<bool> r(p.steps.size());
  for (const Step& s : p.steps) {
    switch (s.kind) {
      case Kind::copy: case Kind::fill: case Kind::reinterpret: case Kind::gather: case Kind::store_rows:
      case Kind::atomic: case Kind::elementwise: case Kind::reduce: case Kind::arg_reduce: case Kind::cumulative:
      case Kind::contraction: case Kind::array_op: case Kind::peer_read: case Kind::multimem_store:
      case Kind::multimem_reduce: case Kind::print: case Kind::host_call: case Kind::find_nans: case Kind::check:
        r[static_cast<size_t>(s.id)] = !loads_a_number(s);
        break;
      default: break;
    }
  }
  return r;
}

// clang-format on

void run_timed(Execution& ex, Clocks& clocks, const TimedRun& how) { Run(ex, clocks, how).all(); }

}  // namespace pallasim::interp
