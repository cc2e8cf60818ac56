// Where the values of a kernel lie while it runs: of plans that keep them (PlanOptions::keeps_values).
#pragma once
#include <cstdint>
#include <vector>

#include "pallasim/ir/module.h"
#include "pallasim/memory/address.h"

namespace pallasim::interp {

struct ValuePlace {
  enum class What : uint8_t {
    Scalar,     // in a slot, in compute-type form; with dims: an array of that scalar
    Array,      // in memory, and nobody writes there
    Ref,        // in memory that a ref shows
    Semaphore,  // a block of semaphores
    Barrier,    // the same of barriers
    Elsewhere,  // one of several refs, or behind a copy: known at each access alone
  };
  What what = What::Scalar;
  int32_t body = 0;  // among Plan::bodies
  ir::ValueId value = -1;
  int32_t begin = 0, end = -1;  // the steps in front of which it is there
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims, strides;  // elements
  uint32_t slot = 0;
  memory::Addr addr;
  int block = -1;                 // of semaphores or barriers
  int edge = -1;                  // index into Body::windows: the block may reach beyond its array
  std::vector<uint32_t> extents;  // Val::Ref::extents
};

}  // namespace pallasim::interp
