#include "timed_run.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../engine/visible.h"
#include "../ops/bodies.h"
#include "../ops/findings.h"

namespace pallasim::interp {
namespace {

struct Turn {
  double time;
  int64_t order;  // of equal times the one that came first
  int32_t thread;
  // Without a branch: which one it would be nobody can foretell.
  bool before(const Turn& o) const { return (time < o.time) | ((time == o.time) & (order < o.order)); }
};

// A heap of those that are ready. Who has the turn stays at its root until it is known when it goes on, which mostly is
// soon: it then moves a few places, where taking it out and putting it back would go through the whole height twice.
class Ready {
 public:
  bool empty() const { return turns_.size() <= size_t{running_}; }
  // The first one that does not run; there is one.
  double first() const {
    if (!running_) return turns_[0].time;
    double r = turns_[1].time;
    for (size_t i = 2; i < std::min(turns_.size(), 1 + kChildren); ++i) r = std::min(r, turns_[i].time);
    return r;
  }
  void push(Turn t) {
    size_t i = turns_.size();
    turns_.push_back(t);
    for (size_t up; i > 0 && t.before(turns_[up = (i - 1) / kChildren]); i = up) turns_[i] = turns_[up];
    turns_[i] = t;
  }
  int32_t begin() {
    running_ = true;
    return turns_[0].thread;
  }
  void ends() {
    running_ = false;
    const Turn last = turns_.back();
    turns_.pop_back();
    if (!turns_.empty()) sink(last);
  }
  void ends(Turn next) {
    running_ = false;
    sink(next);
  }

 private:
  static constexpr size_t kChildren = 4;
  void sink(Turn t) {
    size_t i = 0;
    for (size_t child; (child = kChildren * i + 1) < turns_.size(); i = child) {
      const size_t end = std::min(turns_.size(), child + kChildren);
      for (size_t c = child + 1; c < end; ++c) child = turns_[c].before(turns_[child]) ? c : child;
      if (!turns_[child].before(t)) break;
      turns_[i] = turns_[child];
    }
    turns_[i] = t;
  }
  std::vector<Turn> turns_;
  bool running_ = false;
};

class Run {
 public:
  Run(Execution& ex, Clocks& clocks, const TimedRun& how) : ex_(ex), clocks_(clocks), how_(how), visibility_(ex) {}

  void all() {
    for (Thread& t : ex_.threads)
      if (t.stop == Stop::None) {
        clocks_.begin(t.index, 0);
        push(t.index);
        ++programs_, ++running_on_[clocks_.core_of(t)];
      }
    do until_none_is_ready();
    while (end_others());
    for (const Thread& t : ex_.threads)
      if (t.stop == Stop::Blocked) ex_.diagnostics->deadlock(ex_, "virtual-time");
    while (!ex_.copies.empty()) ops::complete_copy(ex_, 0);
  }

 private:
  void push(int32_t thread) { ready_.push({clocks_.at(thread), order_++, thread}); }

  void until_none_is_ready() {
    for (;;) {
      const double ends = clocks_.next();
      if (ready_.empty() && ends == hw::Transfers::kNever) break;
      if (ready_.empty() || ends <= ready_.first()) {
        end_something();
        continue;
      }
      Thread& t = ex_.threads[static_cast<size_t>(ready_.begin())];
      if (turn(t)) ready_.ends({clocks_.at(t.index), order_++, t.index});
      else ready_.ends();
    }
  }

  // Of programs that left theirs to others; whether there was something left for one.
  bool end_others() {
    while (!over_.empty() && ready_.empty()) {
      Thread& t = ex_.threads[static_cast<size_t>(over_.back())];
      over_.pop_back();
      take_next(t, clocks_.end());
    }
    return !ready_.empty();
  }

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
    } while ((skips(*s) || !visibility_.sees(t, *s)) && clocks_.at(t.index) <= limit() && ex_.steps <= most_steps_ &&
             g_interrupt_epoch.load(std::memory_order_relaxed) == ex_.host.interrupt_epoch);
    t.pc = s;
    return Stop::None;
  }

  double limit() {
    const double ends = clocks_.next();
    return ready_.empty() ? ends : std::min(ends, ready_.first());
  }

  // Programs of an SM that are in step end together, and the next ones begin together. Elsewhere the last ones are
  // spread: each SM has as many of them as others.
  void end_program(Thread& t) {
    const int64_t core = clocks_.core_of(t);
    if (how_.ends == TimedRun::Ends::Together) {
      std::vector<int32_t>& ended = ended_on_[core];
      ended.push_back(t.index);
      if (static_cast<int64_t>(ended.size()) < running_on_[core]) return;
      const double now = clocks_.at(t.index);
      for (const int32_t n : std::exchange(ended, {})) take_next(ex_.threads[static_cast<size_t>(n)], now);
    } else if (how_.ends == TimedRun::Ends::Spread && !may_take(core)) {
      over_.push_back(t.index);
    } else {
      take_next(t, clocks_.at(t.index));
    }
  }

  void take_next(Thread& t, double now) {
    const std::vector<int32_t> next = ex_.end_program(t);
    clocks_.program_ended(t);
    --running_on_[clocks_.core_of(t)];
    for (const int32_t n : next) {
      clocks_.begin(n, now);
      push(n);
      ++running_on_[clocks_.core_of(ex_.threads[static_cast<size_t>(n)])];
    }
  }

  bool may_take(int64_t core) {
    const int64_t left = ex_.points - ex_.next_points[0];
    if (left <= 0) return true;  // nothing is taken
    if (left >= programs_) return true;
    const auto cores = static_cast<int64_t>(running_on_.size());
    if (quota_ == 0) quota_ = (left + cores - 1) / cores;
    return last_of_[core]++ < quota_;
  }

  // Whether it goes on by itself.
  bool turn(Thread& t) {
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
    if (programs && stop == Stop::Done && t.parent < 0) end_program(t);
    if (stop == Stop::Yielded) clocks_.polled(t.index);
    if (ex_.steps > most_steps_) ex_.diagnostics->step_limit(ex_, t, how_.most_steps, "virtual-time");
    if (g_interrupt_epoch.load(std::memory_order_relaxed) != ex_.host.interrupt_epoch)
      ex_.diagnostics->interrupted(ex_, t, "virtual-time");
    return !waits && (stop == Stop::None || stop == Stop::Yielded);
  }

  Execution& ex_;
  Clocks& clocks_;
  const TimedRun& how_;
  const int64_t most_steps_ = how_.most_steps > 0 ? how_.most_steps : std::numeric_limits<int64_t>::max();
  Visibility visibility_;
  Ready ready_;
  Clocks::Ended ended_;
  int64_t order_ = 0;
  int32_t running_ = 0;
  int64_t programs_ = 0;                                        // at a time
  std::unordered_map<int64_t, int64_t> running_on_;             // by core
  std::unordered_map<int64_t, std::vector<int32_t>> ended_on_;  // that wait for those beside them
  std::unordered_map<int64_t, int64_t> last_of_;  // by core: of the last ones, when fewer are left than run at a time
  int64_t quota_ = 0;                             // of those
  std::vector<int32_t> over_;                     // ended, and nothing is left for them
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
