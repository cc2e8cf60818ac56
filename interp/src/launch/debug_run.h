// One launch under a debugger: it pauses at stop points, and goes back to any that it came to.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "../engine/publish.h"
#include "../engine/schedule.h"
#include "../engine/snapshot.h"
#include "../engine/written_pages.h"
#include "../report/checks.h"
#include "bound.h"
#include "debug_watch.h"
#include "run.h"

namespace pallasim::interp {

// A moment is how many stop points threads came to: the moment of the n-th is in front of it. What happens between two
// moments depends on the state alone, so that going back is a snapshot and the same steps again.
class DebugRun : private StopPoints {
 public:
  DebugRun(const Plan&, const Call&, int64_t snapshot_bytes);
  ~DebugRun() override;
  DebugRun(const DebugRun&) = delete;
  DebugRun& operator=(const DebugRun&) = delete;

  // Asked at each stop point that is come to: whether to pause there.
  using Judge = std::function<bool(const Thread&, const Step&)>;
  void advance(const Judge&);
  // The last moment before `until` at which the judge says so, or 0; the run stands there then.
  int64_t retreat(const Judge&, int64_t until);
  // At a moment of the past or the future; `judge` (may be null) is asked on the way.
  void go_to(int64_t moment, const Judge* judge = nullptr);

  int64_t moment() const { return moment_; }
  // Behind the last moment: a place for judges to search back from.
  int64_t until() const { return over() ? moment_ + 1 : moment_; }
  bool over() const { return ended_ || error_.has_value(); }
  bool interrupted() const { return interrupted_; }
  const std::optional<ir::Diagnostic>& error() const { return error_; }
  const Thread* standing() const;  // who came to this moment; null before the first
  const Step* place() const { return place_; }
  Execution& execution() { return **lease_; }
  const Execution& execution() const { return const_cast<DebugRun*>(this)->execution(); }
  Checks* checks() { return checks_ ? &*checks_ : nullptr; }
  WatchObserver& watch() { return *watch_; }
  std::string token() const { return scheduler_->token(); }
  // In which moment the thread came to a stop point last, before this one; 0: in none.
  int64_t moment_before(int32_t thread) const {
    return thread == thread_ ? before_ : last_[static_cast<size_t>(thread)];
  }
  std::function<void()> restored;  // called when the run was put back
  std::atomic<bool> interrupt{false};
  size_t snapshots() const { return kept_.size(); }

 private:
  bool pauses(const Thread&, const Step&) override;
  struct Kept {
    Snapshot snapshot;
    int32_t thread;
    const Step* place;
    std::vector<int64_t> last;
    int64_t bytes = 0;  // that the one before does not share
  };
  using Keeping = std::map<int64_t, Kept>;  // by moment
  using Clock = std::chrono::steady_clock;
  void keep();
  void thin();
  bool drop(Keeping::iterator, bool anyway);  // whether that frees memory; it goes `anyway`, or not without
  void restore(int64_t moment);               // of a snapshot
  bool due() const;

  const Plan& plan_;
  const Call& call_;
  int64_t limit_;
  std::unique_ptr<Lease> lease_;
  std::optional<Checks> checks_;
  std::optional<WrittenPages> written_;
  std::optional<WatchObserver> watch_;
  std::optional<Publisher> publisher_;
  std::optional<Scheduler> scheduler_;
  std::optional<Snapshots> snapshots_;
  Keeping kept_;
  int64_t moment_ = 0, bytes_ = 0;
  int64_t stuck_ = 0;  // below so many bytes nothing is left out that would free some
  int32_t thread_ = -1;
  const Step* place_ = nullptr;
  std::vector<int64_t> last_;  // by thread
  int64_t before_ = 0;         // what it was of the thread that stands
  const Judge* judge_ = nullptr;
  bool again_ = false;  // the stop point that comes next was come to already
  bool judged_ = false, ended_ = false, interrupted_ = false;
  std::optional<ir::Diagnostic> error_;
  Clock::time_point since_;  // the last snapshot
  Clock::duration cost_{};   // of one
};

}  // namespace pallasim::interp
