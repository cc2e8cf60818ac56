// CTAs of a cluster, as threads of the execution.
#pragma once
#include <vector>

#include "../plan/payload/cluster.h"
#include "bodies.h"

namespace pallasim::interp::ops {

// The units of the CTAs, in ascending order: of each the one with the thread's own number.
std::vector<int32_t> units_of(const Thread&, const ClusterSet&);
// Stops with PS-SEM-001 where there is no such CTA.
int32_t unit_of(const Thread&, const Step*, const ClusterPeer&);
// The thread with that place, which has its memory from now on, though it may not have run yet: the thread itself where
// the place is its own.
int32_t begun(Thread&, int32_t unit);

}  // namespace pallasim::interp::ops
