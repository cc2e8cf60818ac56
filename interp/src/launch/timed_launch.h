// One run of a launch in virtual time.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../timing/clocks.h"
#include "../timing/registers.h"
#include "pallasim/hw/occupancy.h"
#include "pallasim/interp/predict.h"
#include "sampled.h"

namespace pallasim::interp {

// What is the same for every run of a launch.
struct LaunchInTime {
  const CachedPlan& cached;
  std::span<const DeviceCall> devices;
  Options options;
  const PredictOptions& how;
  const Plan& plan;
  bool values = false;
  std::vector<std::string> notes;
  bool folds = true;    // loops may leave out trips
  bool samples = true;  // SMs may stand for others
};

struct TimedOutcome {
  double seconds = 0;
  int64_t programs = 0, run = 0, resident = 0;
  double waves = 0;
  Sample sample;
};

class TimedLaunch {
 public:
  TimedLaunch(const LaunchInTime& l, const hw::TimingFigures& f) : l_(l), f_(f) {}

  // `folds` (may be null): what is left out of loops.
  TimedOutcome run(Timeline* timeline, Prediction* out, Folds* folds = nullptr);

  // Of programs on an SM, and what they need there; once it ran.
  const std::optional<hw::Residency>& residency() const { return residency_; }
  // Where registers do not hold what is alive, in words; once it ran. Empty: they do.
  const std::string& spilled() const { return spilled_; }
  // Where a warpgroup waits for each instruction of its products, in words; once it ran. Empty: it does not.
  const std::string& waits() const { return waits_; }

 private:
  void find_residency(const StepCosts&, const Pressure&, Population*, double* per_core);
  void spill(const Pressure&, StepCosts*);
  void note_spilled(const hw::Spilled&, bool gpu);
  void wait_for_products(const hw::CostModel&, double programs, bool spills, StepCosts*);
  void take_sample(Population*, ClockSettings*, Sample*) const;
  static std::vector<std::pair<std::string, double>> shared_busy(const Clocks&);
  double end_of_all(const Clocks&, const TimedOutcome&, int64_t resident, int64_t skipped_waves) const;
  void describe(const Clocks&, const StepCosts&, const TimedOutcome&, double scale, Prediction*) const;
  const LaunchInTime& l_;
  const hw::TimingFigures& f_;
  std::optional<hw::Residency> residency_;
  std::string spilled_, waits_;
};

}  // namespace pallasim::interp
