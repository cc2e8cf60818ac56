// All that a checked run looks for.
#pragma once
#include <vector>

#include "checked.h"
#include "flight_watch.h"
#include "race_watch.h"

namespace pallasim::interp {

// The watchers that a kernel and its machine ask for. Accesses come to them through this one.
class Checks : public Listener {
 public:
  // `devices`: of the launch.
  Checks(const Plan&, const Options&, size_t devices);
  Checks(const Checks&) = delete;
  Checks& operator=(const Checks&) = delete;
  // Behind the listeners that are there; as long as they are in use this one stays.
  void attach(std::vector<Listener*>*);
  void on_access(Execution&, const Access&) override;
  const std::vector<Traffic>& traffic() const { return traffic_.traffic; }

 private:
  Instances instances_;
  TrafficWatch traffic_;
  ClaimWatch claims_;
  FlightWatch flights_;
  WriteWatch writes_;
  AliasWatch aliases_;
  RaceWatch races_;
  std::vector<AccessWatch*> watches_;  // those in use
};

}  // namespace pallasim::interp
