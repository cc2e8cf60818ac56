#include "debug_run.h"

#include <algorithm>

#include "float_environment.h"
#include "population.h"

namespace pallasim::interp {

DebugRun::DebugRun(const Plan& plan, const Call& call, int64_t snapshot_bytes)
    : plan_(plan), call_(call), limit_(snapshot_bytes), lease_(std::make_unique<Lease>(plan)) {
  Execution& ex = execution();
  std::vector<Observer*> observers;
  if (call.options.checked) checks_.emplace(plan, call.options, call.operands.size()).attach(ex, &observers);
  observers.push_back(&written_.emplace(ex));
  observers.push_back(&watch_.emplace(ex));
  publisher_.emplace(ex, observers);
  const FloatEnvironment environment;
  begin_part(ex, call, call.who, {std::vector<int64_t>(call.grid.size(), 0), call.grid});
  scheduler_.emplace(ex, call.options);
  snapshots_.emplace(ex, &*written_);
  ex.host.stops = this;
  last_.assign(ex.threads.size(), 0);
  keep();
}

DebugRun::~DebugRun() { execution().host.stops = nullptr; }

const Thread* DebugRun::standing() const {
  return thread_ < 0 ? nullptr : &execution().threads[static_cast<size_t>(thread_)];
}

bool DebugRun::pauses(const Thread& t, const Step& s) {
  if (std::exchange(again_, false)) return false;
  ++moment_;
  thread_ = t.index;
  place_ = &s;
  before_ = std::exchange(last_[static_cast<size_t>(t.index)], moment_);
  judged_ = *judge_ && (*judge_)(t, s);
  if (!judged_ && interrupt.exchange(false)) judged_ = interrupted_ = true;
  return judged_ || due();
}

// Going back from anywhere near costs about as much as two intervals of snapshots. What a snapshot of memory costs
// grows with what was written since the last one, so that longer intervals would not be cheaper; what detectors know is
// copied as a whole.
bool DebugRun::due() const {
  constexpr Clock::duration kLeast = std::chrono::milliseconds(3), kMost = std::chrono::milliseconds(6);
  const Clock::duration interval = std::max(kLeast, 4 * cost_);
  return Clock::now() - since_ > (checks_ ? interval : std::min(kMost, interval)) && !kept_.contains(moment_);
}

void DebugRun::advance(const Judge& judge) {
  const FloatEnvironment environment;
  Execution& ex = execution();
  judge_ = &judge;
  interrupted_ = false;
  try {
    while (!over()) {
      if (!scheduler_->turn()) {
        scheduler_->finish();
        end_part(ex, call_);
        ended_ = true;
        break;
      }
      if (ex.turn.now.thread < 0) continue;
      again_ = true;
      if (judged_) break;
      keep();
    }
  } catch (const ir::DiagnosticError& e) {
    error_ = e.diagnostic();
    if (ex.turn.now.thread >= 0) thread_ = ex.turn.now.thread;
    place_ = thread_ >= 0 ? ex.threads[static_cast<size_t>(thread_)].pc : nullptr;
  }
  judge_ = nullptr;
}

void DebugRun::keep() {
  const auto begin = Clock::now();
  Kept k{snapshots_->take(), thread_, place_, last_, 0};
  const auto next = kept_.upper_bound(moment_);
  if (next != kept_.begin()) k.bytes = k.snapshot.memory.apart(std::prev(next)->second.snapshot.memory);
  bytes_ += k.bytes;
  if (next != kept_.end()) {
    bytes_ -= next->second.bytes;
    bytes_ += next->second.bytes = next->second.snapshot.memory.apart(k.snapshot.memory);
  }
  kept_.insert_or_assign(moment_, std::move(k));
  since_ = Clock::now();
  if (kept_.size() > 1) cost_ = since_ - begin;
  thin();
}

// Snapshots are the closer together the nearer they are. What a kernel writes once costs its bytes whatever lies
// between: a snapshot without which next to nothing is freed stays.
void DebugRun::thin() {
  const size_t most = checks_ ? 24 : 256;  // what detectors know is not shared
  while (kept_.size() > 3 && (kept_.size() > most || bytes_ > std::max(limit_, stuck_))) {
    std::vector<std::pair<double, Keeping::iterator>> missed;  // how much each would be
    for (auto it = std::next(kept_.begin()); it != kept_.end(); ++it) {
      if (it->first == moment_) continue;
      const auto next = std::next(it) == kept_.end() ? it : std::next(it);
      const auto gap = static_cast<double>(next->first - std::prev(it)->first);
      missed.emplace_back(gap / (std::abs(static_cast<double>(moment_ - it->first)) + 1), it);
    }
    // What two snapshots have in common is looked at page by page: of few, and of some that hold much.
    const auto few = missed.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(3, missed.size()));
    std::partial_sort(missed.begin(), few, missed.end(),
                      [](const auto& x, const auto& y) { return x.first < y.first; });
    const auto some = few + std::min<std::ptrdiff_t>(3, missed.end() - few);
    std::partial_sort(few, some, missed.end(),
                      [](const auto& x, const auto& y) { return x.second->second.bytes > y.second->second.bytes; });
    const bool anyway = kept_.size() > most || bytes_ > 2 * limit_;
    if (std::none_of(missed.begin(), some, [&](const auto& m) { return drop(m.second, anyway); })) {
      stuck_ = bytes_ + (int64_t{1} << 20);
      return;
    }
  }
}

bool DebugRun::drop(Keeping::iterator at, bool anyway) {
  const auto before = std::prev(at), after = std::next(at);
  const int64_t with = at->second.bytes + (after == kept_.end() ? 0 : after->second.bytes);
  const int64_t without =
      after == kept_.end() ? 0 : after->second.snapshot.memory.apart(before->second.snapshot.memory);
  if (with - without < std::max<int64_t>(at->second.bytes / 4, int64_t{1} << 16) && !anyway) return false;
  bytes_ += without - with;
  if (after != kept_.end()) after->second.bytes = without;
  kept_.erase(at);
  return true;
}

void DebugRun::restore(int64_t moment) {
  const Kept& k = kept_.at(moment);
  snapshots_->restore(k.snapshot);
  moment_ = moment;
  thread_ = k.thread;
  place_ = k.place;
  last_ = k.last;
  again_ = moment > 0;
  ended_ = false;
  error_.reset();
  watch_->hits.clear();
  watch_->findings.clear();
  since_ = Clock::now();
  if (restored) restored();
}

void DebugRun::go_to(int64_t moment, const Judge* judge) {
  const auto at = std::prev(kept_.upper_bound(moment));
  if (over() || moment < moment_ || at->first > moment_ || (judge && moment == moment_)) {
    // Who judges wants to be asked at the moment itself.
    const auto from = judge && at->first == moment && moment > 0 ? std::prev(at) : at;
    restore(from->first);
  }
  if (moment_ == moment) return;
  advance([&](const Thread& t, const Step& s) {
    if (judge) (*judge)(t, s);
    return moment_ == moment;
  });
}

int64_t DebugRun::retreat(const Judge& judge, int64_t until) {
  for (int64_t end = until - 1; end > 0;) {  // the last moment that may be it
    const int64_t from = std::prev(kept_.lower_bound(end))->first;
    int64_t found = 0;
    restore(from);
    advance([&](const Thread& t, const Step& s) {
      if (judge(t, s)) found = moment_;
      return moment_ >= end;
    });
    if (interrupted_) return 0;
    if (found > 0) {
      go_to(found, &judge);
      return found;
    }
    end = from;
  }
  return 0;
}

}  // namespace pallasim::interp
