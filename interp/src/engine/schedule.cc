// Which thread runs next. A schedule is data: its token replays it.
#include <algorithm>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>

#include "../ops/bodies.h"
#include "../ops/findings.h"
#include "engine.h"
#include "schedule.h"

namespace pallasim::interp {
namespace {

// Programs rarely wait, and each that is interrupted keeps its memory: they get long turns.
int64_t steps_of_a_turn(size_t threads, bool programs) { return programs ? 1 << 18 : threads > 1 ? 1 << 14 : 1 << 20; }

template <typename Token>
void check_limits(Execution& ex, const RunOptions& o, const Thread& t, int64_t idle, const Token& token) {
  if (o.max_steps > 0 && ex.steps >= o.max_steps) ex.diagnostics->step_limit(ex, t, o.max_steps, token());
  // A turn that only finds its condition unchanged is worth many idle steps: everybody is waiting.
  constexpr int64_t kStepsPerSpin = 1000;
  if (o.livelock_steps > 0 && ex.spins >= std::max<int64_t>(o.livelock_steps / kStepsPerSpin, 1) &&
      ex.spins > 4 * static_cast<int64_t>(ex.threads.size())) {
    if (ex.points > 0) ex.diagnostics->waiting_programs(ex, t, token());
    ex.diagnostics->polling_threads(ex, t, token());
  }
  if (o.livelock_steps > 0 && idle >= o.livelock_steps) ex.diagnostics->no_progress(ex, t, idle, token());
  if (g_interrupt_epoch.load(std::memory_order_relaxed) != ex.host.interrupt_epoch)
    ex.diagnostics->interrupted(ex, t, token());
}

// The first thread below the unit; `ended` becomes it where it is none of the resident ones.
Thread& owner_of_semaphores(Execution& ex, memory::Level level, int64_t unit, Thread* ended) {
  if (!ex.has_early_semaphores()) return ex.threads[static_cast<size_t>(ex.units.threads_of(level, unit).first)];
  const memory::Units planned(ex.plan->threads.units.meshes(), ex.devices);
  const int64_t first = planned.threads_of(level, unit).first, each = planned.per_device(memory::Level::Thread),
                crew = ex.population.crew;
  ended->exec = &ex;
  ended->body = &ex.plan->first();
  ended->point = first % each / crew;
  ended->index = ended->unit = static_cast<int32_t>(first / each * ex.device_threads + first % crew);
  return *ended;
}

// What is left when all threads ended: copies, and counts that nobody took.
void finish_copies(Execution& ex) {
  while (!ex.copies.empty()) ops::complete_copy(ex, 0);
  Thread ended;
  const memory::SemaphoreLayout& layout = ex.semaphore_layout;
  for (size_t b = 0; b < layout.blocks().size(); ++b) {
    const memory::SemaphoreBlock& block = layout.blocks()[b];
    const auto& outer = ex.plan->memory.outer_semaphores;
    if (std::any_of(outer.begin(), outer.end(), [&](const auto& o) { return o.block == static_cast<int>(b); }))
      continue;
    const int64_t owners = layout.owners(static_cast<int>(b));
    for (int64_t unit = 0; unit < owners * ex.devices; ++unit) {
      Thread& t = owner_of_semaphores(ex, block.owner, unit, &ended);
      for (int64_t i = 0; i < block.count; ++i)
        ex.diagnostics->left_over(t, t.pc ? t.pc : ex.plan->first().entry,
                                  layout.id_of_unit(static_cast<int>(b), i, unit / owners, unit % owners));
    }
  }
}

// What is left of barriers. Those of programs that ended were looked at then.
void finish_barriers(Execution& ex) {
  for (size_t b = 0; b < ex.plan->memory.barriers.size(); ++b) {
    const memory::BarrierBlock& block = ex.plan->memory.barriers[b];
    for (int64_t unit = 0; unit < ex.units.count(block.owner); ++unit) {
      const auto first = static_cast<int32_t>(ex.units.threads_of(block.owner, unit).first);
      Thread& t = ex.threads[static_cast<size_t>(first)];
      for (int64_t i = 0; i < block.count && t.pc; ++i)
        ex.diagnostics->barrier_left_over(t, t.pc, ex.barrier_layout.id_of_thread(static_cast<int>(b), i, first));
    }
  }
}

}  // namespace

// What may go on, in the order in which it came to be ready.
class Scheduler::Ready : public Choices {
 public:
  explicit Ready(Execution& ex) : ex_(ex) {}
  size_t threads() const { return ex_.turn.ready.size(); }
  size_t operations = 0;
  size_t size() const override { return threads() + operations; }
  Choice operator[](size_t i) const override {
    if (i < threads()) return {Choice::What::Thread, ex_.turn.ready[i], 0};
    const memory::AsyncOperation& op = ex_.copies[ex_.copies.choice(i - threads())];
    return {Choice::What::Operation, op.thread, op.number};
  }
  bool can_go_on(size_t i) const override { return i >= threads() || interp::can_go_on(ex_, thread(i)); }
  bool polls(size_t i) const override {
    if (i >= threads() || thread(i).stop != Stop::Yielded) return false;
    const auto it = ex_.turn.looks.find(ex_.turn.ready[i]);
    return it != ex_.turn.looks.end() && it->second.vain;
  }
  bool any() const {
    if (operations > 0) return true;
    for (size_t i = 0; i < threads(); ++i)
      if (can_go_on(i)) return true;
    return false;
  }

 private:
  const Thread& thread(size_t i) const { return ex_.threads[static_cast<size_t>(ex_.turn.ready[i])]; }
  Execution& ex_;
};

Scheduler::Scheduler(Execution& ex, const RunOptions& o, const Guide& guide) : ex_(ex), options_(o), guide_(guide) {
  if (!guide_.policy) {
    schedule_ = schedule_of(o, *ex.plan);
    guide_.policy = schedule_.policy.get();
    guide_.exact = schedule_.exact;
    guide_.copies = schedule_.copies;
  }
  ex.copies_move = guide_.copies;
  ex.host.announces = guide_.exact;
  ex.joined = ex.plan->joined && !guide_.policy && o.max_steps == 0 && !o.verify_footprints && !ex.observed;
  ex.turn.ready.clear();
  ex.turn.policy.clear();
  ex.turn.looks.clear();
  ex.turn.idle = ex.turn.taken = ex.turn.changes = 0;
  ex.turn.now = {};
  if (guide_.policy) {
    visibility_.emplace(ex);
    ready_ = std::make_unique<Ready>(ex);
  }
  if (guide_.policy && !guide_.policy->new_execution(ex.turn.policy)) abandoned_ = over_ = true;
  for (const Thread& t : ex.threads)
    if (t.stop == Stop::None) {
      ex_.turn.ready.push_back(t.index);
      if (ex.points == 0) ex.events->thread(ThreadEvent::What::Begins, t.index);
    }
}

Scheduler::~Scheduler() { ex_.host.announces = false; }

std::string Scheduler::token() const { return guide_.token.empty() ? schedule_.token : guide_.token; }

void Scheduler::wake() {
  for (int32_t w : ex_.woken) {
    const bool waits = ex_.threads[static_cast<size_t>(w)].stop == Stop::Blocked;
    if (waits && guide_.exact) continue;  // it never left
    ex_.turn.ready.push_back(w);
    if (waits) ex_.events->thread(ThreadEvent::What::Wakes, w);
  }
  ex_.woken.clear();
}

void Scheduler::move(size_t choice) {
  ops::complete_copy(ex_, ex_.copies.choice(choice));
  ++ex_.turn.changes;
  wake();
}

bool Scheduler::turn(int64_t most) {
  if (over_) return false;
  if (ex_.turn.now.thread >= 0) return go_on();
  // Who only looks again and again waits, too.
  const auto all_wait = [&] {
    return ex_.turn.ready.empty() || ex_.spins > static_cast<int64_t>(ex_.turn.ready.size());
  };
  while (guide_.copies != Options::Copies::Scheduled && all_wait() && ops::complete_awaited(ex_)) {
    // Where bytes move at once, what is late has come by now, awaited or not.
    while (guide_.copies == Options::Copies::AtIssue && !ex_.copies.empty()) ops::complete_copy(ex_, 0);
    ex_.spins = 0;
    wake();
  }
  const size_t copies = guide_.copies == Options::Copies::Scheduled ? ex_.copies.choices() : 0;
  if (guide_.policy) return chosen_turn(copies, most);
  if (ex_.turn.ready.empty() && copies == 0) return false;
  if (ex_.turn.ready.empty()) {
    move(0);
    return true;
  }
  begin_turn(0, std::min(steps_of_a_turn(ex_.threads.size(), ex_.points > 0), most));
  run_thread();
  return true;
}

bool Scheduler::chosen_turn(size_t copies, int64_t most) {
  Ready& ready = *ready_;
  ready.operations = copies;
  if (ready.size() == 0 || (guide_.exact && !ready.any())) return false;
  ready.turns = ex_.turn.taken;
  if (guide_.touches) ready.touched = guide_.touches->all();
  const size_t at = guide_.policy->next(ready);
  if (at == Choices::kNone) {
    abandoned_ = true;
    return false;
  }
  const Choice who = ready[at];
  if (guide_.touches) guide_.touches->begin_turn(who);
  bool taken = true;
  try {
    if (who.what == Choice::What::Operation) move(at - ready.threads());
    else begin_turn(at, most), taken = run_thread() == Went::On;
  } catch (...) {
    note(who);
    throw;
  }
  if (taken) note(who);
  return true;
}

void Scheduler::note(const Choice& who) {
  ++ex_.turn.taken;
  if (guide_.record) guide_.record->push_back(who);
}

void Scheduler::begin_turn(size_t at, int64_t most) {
  std::deque<int32_t>& ready = ex_.turn.ready;
  const int32_t index = ready[at];
  if (at == 0) ready.pop_front();
  else ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
  Thread& t = ex_.threads[static_cast<size_t>(index)];
  // Who loops and does nothing that others see has turns, too.
  constexpr int64_t kLongest = 1 << 14;
  int64_t budget = guide_.policy ? std::min(most, kLongest) : most;
  if (options_.max_steps > 0) budget = std::max<int64_t>(1, std::min(budget, options_.max_steps - ex_.steps));
  ex_.turn.now = {index, budget, ex_.steps, {}, nullptr};
  if (ex_.points > 0 && !t.arena) {
    ex_.begin_program(t);
    ex_.events->thread(ThreadEvent::What::Begins, index);
  }
  ex_.turn.now.wait = t.wait;
  ex_.turn.now.pc = t.pc;
}

Scheduler::Went Scheduler::run_thread() {
  Turn::Now& now = ex_.turn.now;
  const int32_t index = now.thread;
  Thread& t = ex_.threads[static_cast<size_t>(index)];
  const int64_t first = ex_.steps;
  const Stop stop = guide_.policy ? run_to_visible(ex_, t, *visibility_, now.left) : run(ex_, t, now.left);
  if (stop == Stop::Paused) {
    --ex_.steps;  // it is run when the thread goes on
    now.left -= ex_.steps - first;
    return Went::Paused;
  }
  const Turn::Now turn = std::exchange(now, {});
  // It waits, as it did, or said for the first time for what.
  const bool nothing = stop == Stop::Blocked && t.pc == turn.pc && ex_.steps - turn.steps == 1 &&
                       (t.wait == turn.wait || (guide_.exact && turn.wait.kind == Wait::Kind::None));
  if (guide_.policy) judge_look(t, stop);
  if (stop == Stop::Done && t.parent >= 0) ex_.end_child(t);
  if (stop == Stop::Blocked) ex_.events->thread(ThreadEvent::What::Blocks, index);
  if (stop == Stop::Done) ex_.events->thread(ThreadEvent::What::Ends, index);
  wake();
  if (ex_.progressed || stop == Stop::Done) ex_.turn.idle = ex_.spins = 0;
  else ex_.turn.idle += ex_.steps - turn.steps;
  ex_.progressed = false;
  std::deque<int32_t>& ready = ex_.turn.ready;
  if (ex_.points > 0 && stop == Stop::Done && t.parent < 0)
    for (const int32_t next : ex_.end_program(t)) ready.push_back(next);
  if (stop == Stop::None || stop == Stop::Yielded || (stop == Stop::Blocked && guide_.exact)) ready.push_back(index);
  if (stop != Stop::Done) check_limits(ex_, options_, t, ex_.turn.idle, [this] { return token(); });
  return nothing ? Went::Nowhere : Went::On;
}

// Who looked once may have found what it waits for: it waits for others when it comes back to the same step, knows what
// it knew, and nobody else has changed anything. Where it counts its looks it knows something else each time.
void Scheduler::judge_look(const Thread& t, Stop stop) {
  constexpr int64_t kMost = 16;
  Turn& turn = ex_.turn;
  const int64_t before = turn.changes;
  turn.changes += ex_.progressed;
  if (stop != Stop::Yielded && !turn.looks.contains(t.index)) return;
  Looks& l = turn.looks[t.index];
  l.others += before != l.changes;
  l.changes = turn.changes;
  l.vain = false;
  if (stop != Stop::Yielded) return;
  Looks::Look& at = l.at[t.pc->id];
  const uint64_t slots = std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(t.arena), static_cast<size_t>(t.body->image_bytes())});
  at.times = at.times > 0 && at.others == l.others ? at.times + 1 : 1;
  l.vain = at.times > 1 && (at.slots == slots || at.times > kMost);
  at.others = l.others;
  at.slots = slots;
}

bool Scheduler::go_on() {
  const Choice who{Choice::What::Thread, ex_.turn.now.thread, 0};
  if (run_thread() == Went::On && guide_.policy) note(who);
  return true;
}

void Scheduler::finish() {
  if (abandoned_) return;
  for (const Thread& t : ex_.threads)
    if (t.stop == Stop::Blocked) ex_.diagnostics->deadlock(ex_, token());
  if (!ex_.plan->memory.semaphores.empty() || !ex_.copies.empty()) finish_copies(ex_);
  finish_barriers(ex_);
  for (const ClusterClaim& c : ex_.claims)
    if (!c.seen || c.missed >= 0) ex_.diagnostics->lost_cluster(ex_, c);
}

std::string run_threads(Execution& ex, const RunOptions& o, const Guide& guide) {
  Scheduler scheduler(ex, o, guide);
  while (scheduler.turn()) {}
  if (guide.end) *guide.end = {scheduler.abandoned(), scheduler.over()};
  scheduler.finish();
  return scheduler.token();
}

}  // namespace pallasim::interp
