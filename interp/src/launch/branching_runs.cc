#include "branching_runs.h"

#include <algorithm>

#include "../engine/schedule.h"

namespace pallasim::interp {

BranchingRuns::BranchingRuns(ScheduleRunner& r, int pays) : runner_(r), pays_(pays), written_(r.execution()) {}

// Observers live as long as the moments that know their states.
void BranchingRuns::begin() {
  Execution& ex = runner_.execution();
  const Call& call = runner_.call();
  std::vector<Observer*> observers{&runner_.touches_of_runs(), &written_};
  if (call.options.checked) checks_.emplace(call.plan, call.options, call.operands.size()).attach(ex, &observers);
  publisher_.emplace(ex, observers);
  ex.host.keeps_calls = false;
  begin_part(ex, call, call.who, {std::vector<int64_t>(call.grid.size(), 0), call.grid});
  ex.elides_copies = false;
  snapshots_.emplace(ex, &written_);
}

ScheduleEnd BranchingRuns::run(Exhaustive& policy, std::vector<Choice>* record) {
  ScheduleEnd end;
  Execution& ex = runner_.execution();
  const Call& call = runner_.call();
  runner_.reset(kept_.empty());
  if (kept_.empty()) begin();
  const Guide guide{&policy, true, Options::Copies::Scheduled, &runner_.touches(), record, "-"};
  try {
    Scheduler scheduler(ex, call.options, guide);
    if ((end.over = scheduler.over())) return end;
    if (kept_.empty()) keep();
    else go_back(static_cast<int64_t>(policy.common()));
    record->resize(static_cast<size_t>(ex.turn.taken));
    const int64_t first = ex.turn.taken;
    spared_ += first;
    while (scheduler.turn())
      if (due()) keep();
    turns_ += ex.turn.taken - first;
    end.abandoned = scheduler.abandoned();
    scheduler.finish();
    if (!end.abandoned) end_part(ex, call);
  } catch (const ir::DiagnosticError& e) { end.stop = e.diagnostic(); }
  runner_.finish(&end, checks_ ? &*checks_ : nullptr);
  return end;
}

void BranchingRuns::go_back(int64_t turn) {
  while (kept_.back().turn > turn) kept_.pop_back();
  snapshots_->restore(kept_.back().snapshot);
  since_ = Clock::now();
}

// A moment costs a part of what it may spare.
bool BranchingRuns::due() const {
  const Execution& ex = runner_.execution();
  return ex.turn.now.thread < 0 && ex.turn.taken > kept_.back().turn && Clock::now() - since_ >= pays_ * cost_;
}

void BranchingRuns::keep() {
  constexpr size_t kMost = 64;
  const Clock::time_point begin = Clock::now();
  kept_.push_back({runner_.execution().turn.taken, snapshots_->take()});
  since_ = Clock::now();
  if (kept_.size() > 1) cost_ = since_ - begin;
  if (kept_.size() <= kMost) return;
  // The search comes back to late ones more often.
  size_t n = 0;
  for (size_t i = 0; i < kept_.size(); ++i)
    if (i % 2 == 0 || i > kMost / 2) std::swap(kept_[n++], kept_[i]);
  kept_.resize(n);
}

}  // namespace pallasim::interp
