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
      watches_{&traffic_} {
  const hw::Checks& machine = plan.first().model->checks;
  if (machine.copies_in_flight) watches_.push_back(&flights_);
  if (machine.written_before_read || machine.unwritten_outputs)
    watches_.push_back(&writes_);  // at its end it may tell claims_ of something
  if (!claims_.empty() && devices == 1) watches_.push_back(&claims_);
  if (!aliases_.empty()) watches_.push_back(&aliases_);
  if (!races_.empty()) watches_.push_back(&races_);
}

void Checks::attach(std::vector<Listener*>* listeners) {
  listeners->push_back(this);
  listeners->insert(listeners->end(), watches_.begin(), watches_.end());
}

void Checks::on_access(Execution& ex, const Access& a) {
  Seen seen(ex, a, instances_);
  for (AccessWatch* w : watches_) w->see(ex, seen);
}

}  // namespace pallasim::interp
