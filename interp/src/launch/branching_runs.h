// Runs of one launch of which each begins as the one before it did: they go on from a moment that they have in common.
#pragma once
#include <chrono>

#include "../engine/policies/exhaustive.h"
#include "../engine/publish.h"
#include "../engine/snapshot.h"
#include "schedule_runner.h"

namespace pallasim::interp {

// While it lives, its runner makes no other runs.
class BranchingRuns {
 public:
  // A moment is kept when runs have taken so many times as long since the last one as keeping that took; 0: at each
  // turn.
  explicit BranchingRuns(ScheduleRunner&, int pays = 2);
  // The policy's next run. `record` keeps what it had of the last one, as far as the two are alike.
  ScheduleEnd run(Exhaustive&, std::vector<Choice>* record);
  int64_t turns() const { return turns_; }    // that were run
  int64_t spared() const { return spared_; }  // that were not, as a moment behind them was kept

 private:
  using Clock = std::chrono::steady_clock;
  struct Kept {
    int64_t turn;
    Snapshot snapshot;
  };
  void begin();
  void go_back(int64_t turn);  // to the last kept moment that is not behind it
  void keep();
  bool due() const;
  ScheduleRunner& runner_;
  int pays_;
  WrittenPages written_;
  std::optional<Checks> checks_;
  std::optional<Publisher> publisher_;
  std::optional<Snapshots> snapshots_;
  std::vector<Kept> kept_;   // in order; the first one is the beginning
  Clock::time_point since_;  // somebody kept or went back
  Clock::duration cost_{};   // of keeping one
  int64_t turns_ = 0, spared_ = 0;
};

}  // namespace pallasim::interp
