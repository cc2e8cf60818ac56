// All that a checked run looks for.
#pragma once
#include <vector>

#include "checked.h"
#include "flight_watch.h"
#include "race_watch.h"

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
  uint32_t wants() const override { return kAccess; }
  void on_access(const Access&) override;
  void finish(std::vector<ir::Diagnostic>&);  // what they found
  const std::vector<Traffic>& traffic() const { return traffic_.traffic; }

 private:
  Instances instances_;
  TrafficWatch traffic_;
  ClaimWatch claims_;
  FlightWatch flights_;
  WriteWatch writes_;
  AliasWatch aliases_;
  RaceWatch races_;
  std::vector<Detector*> detectors_;  // those in use
  Execution* ex_ = nullptr;
};

}  // namespace pallasim::interp
