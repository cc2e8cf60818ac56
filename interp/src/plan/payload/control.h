// Where threads go on: tables of branches, threads that threads spawn.
#pragma once
#include <vector>

#include "../step.h"

namespace pallasim::interp {

struct BranchTablePayload {
  std::vector<int32_t> steps;  // ids
};
// Threads of a mesh inside a thread: they begin behind the step, with the scalars and refs of who spawns them.
struct SpawnPayload {
  std::vector<int64_t> extents;      // of the mesh's axes, row-major
  std::vector<uint32_t> axis_slots;  // i64, of a child: its place on each axis
  bool warps = false;                // they are those of a warpgroup
  uint32_t temps = 0;                // the buffer of a child's own temporaries
  int64_t temp_bytes = 0;
  int64_t count() const {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return n;
  }
};

}  // namespace pallasim::interp
