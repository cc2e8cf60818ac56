// Units that operations name, as threads of the execution: of each unit the thread with the own one's number in it.
#pragma once
#include <vector>

#include "../plan/payload/units.h"
#include "bodies.h"

namespace pallasim::interp::ops {

// All of them, in ascending order. Stops with PS-SEM-001 where one does not exist; `what` names the operation.
std::vector<int32_t> units_of(const Thread&, const Step*, const UnitSet&, const char* what = "an access");
// Of a set that names one.
int32_t unit_elsewhere(const Thread&, const Step*, const UnitSet&, const char* what);
inline int32_t unit_of(const Thread& t, const Step* s, const UnitSet& set, const char* what = "an access") {
  return set.elsewhere() ? unit_elsewhere(t, s, set, what) : t.unit;
}
// The thread whose memory is the unit's from now on, though it may not have run yet: the thread itself where the unit
// is its own.
int32_t begun(const Thread&, int32_t unit);

}  // namespace pallasim::interp::ops
