// CTAs of a thread's cluster that operations reach.
#pragma once
#include <string>
#include <vector>

#include "../step.h"

namespace pallasim::interp {

// An axis of a cluster, as its threads see it.
struct ClusterAxis {
  uint32_t place_slot = 0;  // i64: the thread's own place
  int64_t size = 1;
  int64_t stride = 0;  // threads from one place to the next
};

// CTAs at any place along the axes of a group, the other places being the thread's own; of several groups all of them.
// Without groups the thread's own CTA.
struct ClusterSet {
  std::vector<std::vector<ClusterAxis>> groups;
  bool first_only = false;  // of them the one at place 0
  bool elsewhere() const { return !groups.empty(); }
  int64_t count() const {
    int64_t n = 1;
    for (const auto& group : groups) {
      int64_t all = 1;
      for (const ClusterAxis& a : group) all *= a.size;
      n += all - 1;
    }
    return n;
  }
};

// The thread's own CTA, but for places that i32 slots name.
struct ClusterPeer {
  struct At {
    ClusterAxis axis;
    uint32_t slot = 0;
    std::string name;  // of the axis
  };
  std::vector<At> places;
};

// Memory of another CTA, read at once.
struct PeerReadPayload {
  ClusterPeer peer;
  Addr src, dst;
  std::vector<int64_t> dims, src_strides, dst_strides;  // elements
  ir::DType dtype = ir::DType::F32;
};

}  // namespace pallasim::interp
