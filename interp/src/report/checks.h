// All that a checked run looks for.
#pragma once
#include <vector>

#include "checked.h"
#include "flight_detector.h"
#include "lane_detector.h"
#include "neighbour_detector.h"
#include "pipeline_detector.h"
#include "race_detector.h"
#include "running_detector.h"

namespace pallasim::interp {

// The detectors that a kernel and its machine ask for. Accesses come to them through this one.
class Checks : public Observer {
 public:
  // `devices`: of the launch.
  Checks(const Plan&, const Options&, size_t devices);
  Checks(const Checks&) = delete;
  Checks& operator=(const Checks&) = delete;
  // Itself and its detectors, behind the observers that are there; as long as those are in use this one stays.
  void attach(Execution&, std::vector<Observer*>*);
  uint32_t wants() const override { return kAccess | kInternal | kPlaces; }
  void on_access(const Access&) override;
  bool knows(const ElementAccess&) override;
  void finish(std::vector<ir::Diagnostic>&);  // what they found
  // Of all detectors. Which numbers instances have stays as it is: they are names, which only grow in number.
  std::shared_ptr<const void> state() const override;
  void restore(const std::shared_ptr<const void>&) override;
  // Of results, as Report has it; once they are finished.
  const std::vector<std::vector<bool>>& undefined() const { return all_.definedness.undefined(); }
  // What detectors found since they had found so many (by detector; empty: nothing), as far as they know it by now.
  std::vector<ir::Diagnostic> news(std::vector<size_t>* seen) const;
  // Now, of a byte.
  bool undefined(int32_t thread, uint32_t buffer, int64_t byte) {
    return all_.definedness.undefined(thread, buffer, byte);
  }
  // For the next launch, as RaceDetector has it.
  std::optional<ir::Diagnostic> early() const { return all_.races.early(); }
  const std::vector<Traffic>& traffic() const { return all_.traffic.traffic; }

 private:
  // Detectors as values.
  struct Detectors {
    Detectors(const Plan&, const Options&, size_t devices, Instances&);
    TrafficDetector traffic;
    ClaimDetector claims;
    FlightDetector flights;
    PipelineDetector pipeline;
    DefinednessDetector definedness;
    WriteDetector writes;
    AliasDetector aliases;
    LaneDetector lanes;
    RaceDetector races;
    NeighbourDetector neighbours;
    RunningDetector running;
  };
  Instances instances_;
  Detectors all_;
  std::vector<Detector*> detectors_;  // those in use
  // A step that comes again and again to a place of which detectors have nothing more to learn, or no more than that it
  // is written.
  struct Quiet {
    int32_t step = -1, thread = -1, instance = -1;
    uint32_t buffer = 0;
    bool write = false;
    ir::LocId loc = -1;
    int64_t looks = 0;
    WriteDetector::Settled settled;
  };
  bool is_quiet(const Access&);
  void learn(Seen&);
  void see_each(Detector&, const Access&);
  // One of them may be in another one's stead.
  Quiet& quiet(int32_t step, uint32_t buffer, bool write) {
    constexpr size_t kAccesses = 5;  // of a step that has many, some
    return quiet_[(static_cast<size_t>(step) * kAccesses + buffer * 2 + write) & (quiet_.size() - 1)];
  }
  std::vector<Quiet> quiet_;  // a power of two of them; none: other detectors are in use
  Execution* ex_ = nullptr;
};

}  // namespace pallasim::interp
