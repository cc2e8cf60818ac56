#include "checks.h"

#include "pallasim/hw/machine.h"

namespace pallasim::interp {

Checks::Checks(const Plan& plan, const Options& o, size_t devices)
    : traffic_(plan),
      claims_(plan, o, instances_),
      flights_(plan, instances_),
      writes_(plan, instances_, !claims_.empty() && devices == 1 ? &claims_ : nullptr),
      aliases_(plan),
      races_(plan, devices, o, instances_),
      detectors_{&traffic_} {
  const hw::Checks& machine = plan.first().model->checks;
  if (machine.copies_in_flight) detectors_.push_back(&flights_);
  if (machine.written_before_read || machine.unwritten_outputs)
    detectors_.push_back(&writes_);  // at its end it may tell claims_ of something
  if (!claims_.empty() && devices == 1) detectors_.push_back(&claims_);
  if (!aliases_.empty()) detectors_.push_back(&aliases_);
  if (!races_.empty()) detectors_.push_back(&races_);
}

void Checks::attach(Execution& ex, std::vector<Observer*>* observers) {
  ex_ = &ex;
  observers->push_back(this);
  for (Detector* d : detectors_) {
    d->attach(ex);
    observers->push_back(d);
  }
}

void Checks::on_access(const Access& a) {
  Seen seen(*ex_, a, instances_);
  for (Detector* d : detectors_) d->see(seen);
}

void Checks::finish(std::vector<ir::Diagnostic>& findings) {
  for (Detector* d : detectors_) d->finish(findings);
}

}  // namespace pallasim::interp
