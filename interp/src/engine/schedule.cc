// Which thread runs next. A schedule is data: its token replays it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>

#include "../ops/bodies.h"
#include "../ops/findings.h"
#include "engine.h"
#include "schedule.h"

namespace pallasim::interp {
namespace {

// Shuttle's three questions.
class Policy {
 public:
  virtual ~Policy() = default;
  // `state`: what later answers depend on, and nothing else. It is the execution's.
  virtual void new_execution(size_t threads, bool programs, uint64_t* state) = 0;
  // The position among `runnable` threads and then copies in flight of what goes on next; threads for how many steps.
  virtual size_t next(size_t runnable, size_t copies) = 0;
  virtual uint64_t next_random() = 0;
  virtual int64_t budget() = 0;
  // Whether a turn ends at waits alone, and long ones anywhere.
  virtual bool runs_on() const { return false; }
  virtual std::string token() const = 0;
};

class RunToBlock : public Policy {
 public:
  // Programs rarely wait, and each that is interrupted keeps its memory: they get long turns.
  void new_execution(size_t threads, bool programs, uint64_t*) override {
    slice_ = programs ? 1 << 18 : threads > 1 ? 1 << 14 : 1 << 20;
  }
  size_t next(size_t, size_t) override { return 0; }
  uint64_t next_random() override { return 0; }
  int64_t budget() override { return slice_; }
  bool runs_on() const override { return true; }
  std::string token() const override { return "run-to-block"; }

 private:
  int64_t slice_ = 1 << 20;
};

class Random : public Policy {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  void new_execution(size_t, bool, uint64_t* state) override {
    state_ = state;
    *state = seed_;
  }
  size_t next(size_t runnable, size_t copies) override { return next_random() % (runnable + copies); }
  uint64_t next_random() override {  // splitmix64
    uint64_t z = (*state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t budget() override { return 1 + static_cast<int64_t>(next_random() % 32); }
  std::string token() const override { return fmt::format("random:{}", seed_); }

 private:
  uint64_t seed_;
  uint64_t* state_ = nullptr;
};

[[noreturn]] void bad_token(const std::string& token, const std::string& why) {
  ir::Diagnostic("PS-TOK-001", "the schedule token cannot be replayed: " + why)
      .with({"token " + token.substr(0, 80)})
      .hinted("copy the whole token of a report of this version, e.g. ps1:random:7")
      .raise();
}

// A schedule as its token says it: "ps1:" policy [":seed"] ["+copies=" when].
struct Schedule {
  std::unique_ptr<Policy> policy;
  Options::Copies copies = Options::Copies::AtIssue;

  std::string token() const {
    static constexpr const char* kCopies[] = {"", "+copies=on_wait", "+copies=scheduled"};
    return "ps1:" + policy->token() + kCopies[static_cast<int>(copies)];
  }
};

Schedule replayed(const std::string& token) {
  if (token.size() > 4096) bad_token(token, "it is longer than 4096 characters");
  if (token.rfind("ps1:", 0) != 0) bad_token(token, "it does not start with ps1:");
  Schedule r;
  std::string rest = token.substr(4);
  if (const size_t plus = rest.find('+'); plus != std::string::npos) {
    const std::string copies = rest.substr(plus);
    rest.resize(plus);
    if (copies == "+copies=on_wait") r.copies = Options::Copies::AtWait;
    else if (copies == "+copies=scheduled") r.copies = Options::Copies::Scheduled;
    else bad_token(token, "unknown option");
  }
  if (rest == "run-to-block") {
    r.policy = std::make_unique<RunToBlock>();
    return r;
  }
  if (rest.rfind("random:", 0) != 0) bad_token(token, "unknown policy");
  uint64_t seed = 0;
  const char *b = rest.data() + 7, *e = rest.data() + rest.size();
  const auto [p, ec] = std::from_chars(b, e, seed);
  if (ec != std::errc() || p != e || b == e) bad_token(token, "the seed is not a number");
  r.policy = std::make_unique<Random>(seed);
  return r;
}

Schedule make_schedule(const RunOptions& o) {
  if (o.policy() == Options::Policy::Replay) return replayed(o.replay);
  Schedule r;
  if (o.random_seed) r.policy = std::make_unique<Random>(*o.random_seed);
  else r.policy = std::make_unique<RunToBlock>();
  r.copies = o.copies;
  return r;
}

template <typename Token>
void check_limits(Execution& ex, const RunOptions& o, const Thread& t, int64_t idle, const Token& token) {
  if (o.max_steps > 0 && ex.steps >= o.max_steps) ex.diagnostics->step_limit(ex, t, token());
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

struct Scheduler::Order : Schedule {};

Scheduler::Scheduler(Execution& ex, const RunOptions& o) : ex_(ex), options_(o), order_(new Order{make_schedule(o)}) {
  ex.copies_move = order_->copies;
  ex.joined = ex.plan->joined && order_->policy->runs_on() && o.max_steps == 0 && !o.verify_footprints && !ex.observed;
  ex.turn.ready.clear();
  ex.turn.idle = 0;
  order_->policy->new_execution(ex.threads.size(), ex.points > 0, &ex.turn.random);
  for (const Thread& t : ex.threads)
    if (t.stop == Stop::None) {
      ex_.turn.ready.push_back(t.index);
      if (ex.points == 0) ex.events->thread(ThreadEvent::What::Begins, t.index);
    }
}

Scheduler::~Scheduler() = default;

std::string Scheduler::token() const { return order_->token(); }

void Scheduler::wake() {
  for (int32_t w : ex_.woken) {
    ex_.turn.ready.push_back(w);
    if (ex_.threads[static_cast<size_t>(w)].stop == Stop::Blocked) ex_.events->thread(ThreadEvent::What::Wakes, w);
  }
  ex_.woken.clear();
}

bool Scheduler::turn(int64_t most) {
  std::deque<int32_t>& ready = ex_.turn.ready;
  const size_t copies = order_->copies == Options::Copies::Scheduled ? ex_.copies.choices() : 0;
  // Who only looks again and again waits, too.
  const auto all_wait = [&] { return ready.empty() || ex_.spins > static_cast<int64_t>(ready.size()); };
  while (order_->copies == Options::Copies::AtWait && all_wait() && ops::complete_awaited(ex_)) {
    ex_.spins = 0;
    wake();
  }
  if (ready.empty() && copies == 0) return false;
  Policy& policy = *order_->policy;
  const size_t at = policy.next(ready.size(), copies);
  if (at >= ready.size()) {
    ops::complete_copy(ex_, ex_.copies.choice(at - ready.size()));
    wake();
    return true;
  }
  const int32_t index = ready[at];
  if (at == 0) ready.pop_front();
  else ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
  Thread& t = ex_.threads[static_cast<size_t>(index)];
  int64_t budget = std::min(policy.budget(), most);
  if (options_.max_steps > 0) budget = std::max<int64_t>(1, std::min(budget, options_.max_steps - ex_.steps));
  const int64_t before = ex_.steps;
  const bool programs = ex_.points > 0;
  if (programs && !t.arena) {
    ex_.begin_program(t);
    ex_.events->thread(ThreadEvent::What::Begins, index);
  }
  const Stop stop = run(ex_, t, budget);
  if (stop == Stop::Done && t.parent >= 0) ex_.end_child(t);
  if (stop == Stop::Blocked) ex_.events->thread(ThreadEvent::What::Blocks, index);
  if (stop == Stop::Done) ex_.events->thread(ThreadEvent::What::Ends, index);
  wake();
  if (ex_.progressed || stop == Stop::Done) ex_.turn.idle = ex_.spins = 0;
  else ex_.turn.idle += ex_.steps - before;
  ex_.progressed = false;
  if (programs && stop == Stop::Done && t.parent < 0)
    for (const int32_t next : ex_.end_program(t)) ready.push_back(next);
  if (stop == Stop::None || stop == Stop::Yielded) ready.push_back(index);
  if (stop != Stop::Done) check_limits(ex_, options_, t, ex_.turn.idle, [this] { return token(); });
  return true;
}

void Scheduler::finish() {
  for (const Thread& t : ex_.threads)
    if (t.stop == Stop::Blocked) ex_.diagnostics->deadlock(ex_, token());
  if (!ex_.plan->memory.semaphores.empty() || !ex_.copies.empty()) finish_copies(ex_);
  finish_barriers(ex_);
  for (const ClusterClaim& c : ex_.claims)
    if (!c.seen) ex_.diagnostics->lost_cluster(ex_, c);
}

std::string run_threads(Execution& ex, const RunOptions& o) {
  Scheduler scheduler(ex, o);
  while (scheduler.turn()) {}
  scheduler.finish();
  return scheduler.token();
}

}  // namespace pallasim::interp
