// Checked runs: who of several that do the same reaches another neighbour than the others do.
#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "instances.h"

namespace pallasim::interp {

// Devices of a launch, and blocks of a cluster, that signal or copy to each other at one line. Where all but one reach
// the same neighbour of theirs, so many further on, that one may be meant to do so, too (PS-DEV-002, a note). Fewer
// than four have no pattern; nor have lines to which not all of them come equally often.
class NeighbourDetector : public Detector {
 public:
  bool empty() const { return false; }
  uint32_t wants() const override { return kLaunch | kOperation | kSync; }
  void on_launch(const LaunchEvent&) override;
  void see(Seen&) override {}
  bool sees_places() const override { return true; }
  void on_operation(const OperationEvent&) override;
  void on_sync(const SyncEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;

 private:
  static constexpr int64_t kFewest = 4;
  static constexpr size_t kMost = 4096;  // of each at a line: what comes behind is not looked at
  // A line that several come to: the step, the thread of each, and which cluster.
  using Line = std::tuple<int32_t, int32_t, int64_t>;
  using Reached = std::map<int64_t, std::vector<int64_t>>;  // by who reaches: whom, in turn
  void note(int32_t step, int32_t thread, int64_t target_thread);
  void look(const Line&, const Reached&, std::vector<ir::Diagnostic>&) const;
  bool clusters_ = false;
  int64_t many_ = 0;  // how many there are; 0: nothing is looked at
  std::map<Line, Reached> lines_;
};

}  // namespace pallasim::interp
