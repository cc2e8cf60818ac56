// Timelines in the protobuf of Perfetto (ui.perfetto.dev; protos/perfetto/trace of its sources).
#pragma once
#include <string>

#include "pallasim/interp/observer.h"
#include "pallasim/interp/timeline.h"

namespace pallasim::trace {

// The bytes of a trace: a track per track of the timeline, slices with their source line and grid point as arguments,
// arrows as flows, counters.
std::string to_perfetto(const interp::Timeline&);

// Makes a timeline of a launch without a model of time: step after step, as they ran.
class StepTimeline : public interp::Observer {
 public:
  explicit StepTimeline(interp::Timeline* to) : to_(to) {}
  uint32_t wants() const override { return kLaunch | kThread | kPoint | kStep | kOperation; }
  void on_launch(const interp::LaunchEvent&) override;
  void on_thread(const interp::ThreadEvent&) override;
  void on_point(const interp::PointEvent&) override;
  void on_step(const interp::StepEvent&) override;
  void on_operation(const interp::OperationEvent&) override;

 private:
  int32_t track_of(int32_t thread);
  interp::Timeline* to_;
  const interp::Plan* plan_ = nullptr;
  const ir::LocTable* locs_ = nullptr;
  int32_t threads_ = 1;
  struct Flight {
    int64_t id;
    double issued;
    int64_t arrow;
  };
  std::vector<Flight> flights_;
  std::vector<std::vector<int64_t>> points_;  // by thread
};

}  // namespace pallasim::trace
