#include "pallasim/interp/explore.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "../engine/policies/exhaustive.h"
#include "../engine/token.h"
#include "../report/causes.h"
#include "bind.h"
#include "branching_runs.h"
#include "explored_arrays.h"
#include "float_environment.h"
#include "pallasim/ir/nearest.h"
#include "schedule_runner.h"
#include "smallest_schedule.h"
#include "workers.h"

namespace pallasim::interp {
namespace {

// Outcomes by what tells them apart: how often, and the first schedule that had it.
struct Seen {
  int64_t count = 0, first = INT64_MAX;
  std::vector<Choice> choices;  // of the first one, where it cannot be run again by its number
};
using Outcomes = std::map<std::string, Seen>;

constexpr int64_t kTold = 64;  // schedules between two words on how far it is

class Explorer {
 public:
  Explorer(const Plan& p, const ir::LocTable& locs, std::span<const DeviceCall> devices, const Options& o,
           const ExploreOptions& e)
      : plan_(p), locs_(locs), devices_(devices), options_(o), how_(e), epoch_(interrupt_epoch()) {
    // Nobody is to wait for what takes a real run long to find.
    constexpr int64_t kPolls = 100'000;
    if (options_.livelock_steps == 0 || options_.livelock_steps > kPolls) options_.livelock_steps = kPolls;
    if (options_.max_steps == 0) options_.max_steps = 50'000'000;
    row_ = find_policy(e.policy);
    if (!row_ || e.policy == "choices") {
      std::vector<std::string_view> names;
      for (const PolicyRow* r : policy_rows()) names.push_back(r->name);
      bad_argument(p, "there is no policy " + e.policy, {}, ir::did_you_mean(e.policy, names));
    }
  }

  Exploration run() {
    Exploration r;
    r.kernel = plan_.module.name;
    r.policy = how_.policy;
    r.seed = how_.seed;
    runner_ = make_runner();
    if (row_->watches) search(&r);
    else draw(&r, 0, how_.schedules);
    finish(&r);
    return r;
  }

  std::vector<CountedOutcome> count(int64_t begin, int64_t end) {
    if (row_->watches)
      bad_argument(plan_, "schedules of policy " + how_.policy + " follow from each other: there are no parts", {}, "");
    Exploration r;
    runner_ = make_runner();
    draw(&r, begin, end);
    if (r.interrupted) return {};
    std::vector<CountedOutcome> counted;
    for (const auto& [key, s] : outcomes_) counted.push_back({key, s.count, s.first});
    return counted;
  }

 private:
  std::unique_ptr<ScheduleRunner> make_runner() const {
    return std::make_unique<ScheduleRunner>(plan_, locs_, devices_, options_);
  }
  bool interrupted() const { return interrupt_epoch() != epoch_; }

  // Schedule 0 is run-to-block; the others are drawn, each from a seed of its own.
  std::unique_ptr<Policy> drawn(int64_t number) const {
    if (number == 0) return find_policy("run-to-block")->make({});
    uint64_t stream = how_.seed ^ static_cast<uint64_t>(number) * 0xd1342543de82ef95u;
    return row_->make({next_random(&stream), how_.depth, turns_});
  }

  void note(const ScheduleEnd& end, int64_t number, Outcomes* to) const {
    Seen& s = (*to)[end.key()];
    ++s.count;
    s.first = std::min(s.first, number);
  }

  void draw(Exploration* r, int64_t begin, int64_t end) {
    const ScheduleEnd usual = runner_->run(*drawn(0));
    turns_ = std::max<int64_t>(usual.turns, 1);
    if (how_.counted)
      for (const CountedOutcome& c : *how_.counted) outcomes_[c.key] = {c.count, c.first, {}};
    else draw_all(usual, begin, end);
    for (const auto& [key, s] : outcomes_) r->schedules += s.count;
    r->interrupted = interrupted();
  }

  void draw_all(const ScheduleEnd& usual, int64_t begin, int64_t end) {
    if (begin == 0) note(usual, 0, &outcomes_);
    const int jobs = static_cast<int>(
        std::clamp<int64_t>(how_.jobs > 0 ? how_.jobs : default_workers(), 1, std::max<int64_t>(1, (end - begin) / 8)));
    std::atomic<int64_t> next{std::max<int64_t>(begin, 1)}, done{1};
    std::mutex mutex;
    std::exception_ptr failed;
    const auto job = [&](ScheduleRunner* runner) {
      Outcomes mine;
      try {
        std::unique_ptr<ScheduleRunner> own;
        if (!runner) runner = (own = make_runner()).get();
        for (int64_t i; !interrupted() && (i = next.fetch_add(1)) < end;) {
          const ScheduleEnd ended = runner->run(*drawn(i));
          if (interrupted()) break;
          note(ended, i, &mine);
          if (const int64_t n = ++done; n % kTold == 0 && how_.progress) {
            const std::lock_guard lock(mutex);
            how_.progress(n);
          }
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      for (const auto& [key, s] : mine) {
        Seen& all = outcomes_[key];
        all.count += s.count;
        all.first = std::min(all.first, s.first);
      }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < jobs; ++i) others.emplace_back(job, nullptr);
    job(runner_.get());
    for (std::thread& t : others) t.join();
    if (failed) std::rethrow_exception(failed);
  }

  void search(Exploration* r) {
    Exhaustive policy;
    BranchingRuns runs(*runner_);
    std::vector<Choice> choices;
    while (r->schedules < how_.schedules && !interrupted()) {
      const ScheduleEnd end = runs.run(policy, &choices);
      if (end.over) {
        r->exhausted = true;
        break;
      }
      if (interrupted()) break;
      policy.ended(end.turns, runner_->touches().all(), pending(), end.stop && !is_stuck(*end.stop));
      if (end.abandoned) {
        ++r->given_up;
        continue;
      }
      const auto known = outcomes_.size();
      const std::string key = end.key();
      note(end, r->schedules++, &outcomes_);
      if (outcomes_.size() > known) outcomes_[key].choices = choices;
      if (how_.progress && r->schedules % kTold == 0) how_.progress(r->schedules);
    }
    r->interrupted = interrupted();
  }

  static bool is_stuck(const ir::Diagnostic& d) {
    return d.code.text().starts_with("PS-DEAD") || d.code.text().starts_with("PS-SEM-002");
  }

  // Threads that wait when a run is over, and for what.
  std::vector<Exhaustive::Pending> pending() {
    std::vector<Exhaustive::Pending> r;
    for (const Thread& t : runner_->execution().threads) {
      if (t.stop != Stop::Blocked) continue;
      Touch touch;
      touch.object = static_cast<uint64_t>(t.wait.object);
      if (t.wait.kind == Wait::Kind::Semaphore) touch.what = Touch::What::Semaphore, touch.how = Touch::How::Take;
      else if (t.wait.kind == Wait::Kind::Barrier) touch.what = Touch::What::Barrier, touch.how = Touch::How::Look;
      else if (t.wait.kind == Wait::Kind::Group) touch.what = Touch::What::Stream;
      else continue;
      r.push_back({{Choice::What::Thread, t.index, 0}, {touch}});
    }
    return r;
  }

  // Each outcome's first schedule is run again, with as few switches as keep the outcome.
  void finish(Exploration* r) {
    std::vector<std::pair<const std::string*, const Seen*>> found;
    for (const auto& [key, s] : outcomes_) found.emplace_back(&key, &s);
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.second->first < b.second->first; });
    // Who asked to stop gets what there is: that takes some runs more, until somebody asks again.
    const bool minimise = how_.minimise && !r->interrupted;
    runner_->heed_later_requests();
    epoch_ = interrupt_epoch();
    constexpr int64_t kFew = 100, kMany = 600;  // runs for one token; for all of them about as many as there were
    const int64_t runs = std::clamp<int64_t>(2 * r->schedules / static_cast<int64_t>(found.size() + 1), kFew, kMany);
    for (const auto& [key, s] : found) {
      std::vector<Choice> choices = s->choices;
      if (how_.tolerance > 0 && ScheduleEnd::beside_outputs(*key)) {
        // The others of its bytes end like it: one tells for all.
        if (choices.empty()) runner_->run(*drawn(s->first), false, &choices);
        else runner_->run(*go_through(choices));
        if (ExploredOutcome* like = like_this(&r->outcomes, *key)) {
          like->count += s->count;
          ++like->variants;
          if (interrupted()) break;
          continue;
        }
      }
      if (static_cast<int64_t>(r->outcomes.size()) >= how_.max_outcomes) {
        r->uncounted += s->count;
        continue;
      }
      if (choices.empty()) runner_->run(*drawn(s->first), false, &choices);
      SmallestSchedule smallest(*runner_, plan_, locs_, *key);
      smallest.find(std::move(choices), minimise ? runs : 0);
      ExploredOutcome o = smallest.outcome();
      o.count = s->count;
      o.first = s->first;
      keys_.push_back(key);
      r->outcomes.push_back(std::move(o));
      if (interrupted()) break;
    }
    compare_outputs(&r->outcomes);
  }

  // An outcome that the last run is like, within the tolerance; null: none.
  ExploredOutcome* like_this(std::vector<ExploredOutcome>* outcomes, std::string_view key) {
    const std::vector<ExploredArray> outputs = runner_->outputs();
    for (size_t i = 0; i < outcomes->size(); ++i) {
      ExploredOutcome& o = (*outcomes)[i];
      if (ScheduleEnd::beside_outputs(*keys_[i]) != ScheduleEnd::beside_outputs(key)) continue;
      const auto spread = largest_difference(o.outputs, outputs, how_.tolerance);
      if (!spread) continue;
      o.spread = std::max(o.spread, *spread);
      return &o;
    }
    return nullptr;
  }

  const Plan& plan_;
  const ir::LocTable& locs_;
  std::span<const DeviceCall> devices_;
  Options options_;
  const ExploreOptions& how_;
  uint64_t epoch_;
  const PolicyRow* row_;
  std::unique_ptr<ScheduleRunner> runner_;
  int64_t turns_ = 100;
  Outcomes outcomes_;
  std::vector<const std::string*> keys_;  // of the outcomes that are told
};

}  // namespace

// What both ways in need: arguments that can be, and a plan of their sizes.
static std::shared_ptr<const Plan> plan_to_explore(const CachedPlan& p, std::span<const DeviceCall> devices,
                                                   const ExploreOptions& e) {
  if (devices.empty()) bad_argument(*p.plan, "no device", {}, "");
  if (e.schedules < 1 || e.depth < 1 || e.jobs < 0 || e.max_outcomes < 1)
    bad_argument(*p.plan, "schedules, depth and outcomes are at least 1, jobs at least 0", {}, "");
  if (!(e.tolerance >= 0)) bad_argument(*p.plan, "a tolerance is at least 0", {}, "");
  return p.plan->module.params.empty() ? p.plan : specialised(*p.plan, *p.locs, devices);
}

Exploration explore(const CachedPlan& p, std::span<const DeviceCall> devices, const Options& o,
                    const ExploreOptions& e) {
  const FloatEnvironment environment;
  const auto plan = plan_to_explore(p, devices, e);
  return Explorer(*plan, *p.locs, devices, o, e).run();
}

std::vector<CountedOutcome> count_outcomes(const CachedPlan& p, std::span<const DeviceCall> devices, const Options& o,
                                           const ExploreOptions& e, int64_t begin, int64_t end) {
  const FloatEnvironment environment;
  const auto plan = plan_to_explore(p, devices, e);
  return Explorer(*plan, *p.locs, devices, o, e).count(begin, end);
}

}  // namespace pallasim::interp
