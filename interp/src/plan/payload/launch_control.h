// Cluster launch control: a cluster asks for the work of one that has not begun.
#pragma once
#include "barriers.h"
#include "copies.h"

namespace pallasim::interp {

// What the answer is in its 16 bytes: two i32, and nothing more.
struct ClusterAnswer {
  int32_t cluster = -1;  // its number, row-major over the axes of the grid
  int32_t given = 0;     // whether there was one
};
inline constexpr int64_t kClusterAnswerBytes = 16;

// Asks, for all CTAs of the cluster. Each thread arrives at the barrier of its own CTA; those that are at 0 on the axes
// of threads that ask together do so with the expectation of the answer's bytes, and those of them that are at 0 on the
// axes of CTAs that ask together ask.
struct ClusterRequestPayload {
  CopySide answer;
  BarrierPayload barrier;
  UnitSet receivers;                    // all CTAs of the cluster
  std::vector<uint32_t> threads, ctas;  // i64 slots: the thread's place on those axes
  bool several = false;                 // more than one of a cluster may ask
};
// Reads an answer: `dst` <- whether there was a cluster, and its place on axes of the grid.
struct ClusterAnswerPayload {
  Addr answer;
  struct Axis {
    int64_t size, stride;  // clusters from one place to the next
    uint32_t slot;         // i32
  };
  std::vector<Axis> axes;
};

}  // namespace pallasim::interp
