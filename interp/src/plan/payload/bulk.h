// Bulk copies between global and shared memory (TMA).
#pragma once
#include "barriers.h"
#include "copies.h"
#include "pallasim/memory/async.h"
#include "rows.h"

namespace pallasim::interp {

// A box into shared memory, whose bytes a barrier expects, or one out of it, in the thread's bulk stream.
struct BulkCopyPayload : Transfer {
  memory::Combine combine = memory::Combine::Replace;
  BarrierPayload barrier;  // block -1: the stream
  // Rows of the side in global memory that a list chooses, which moves one by one.
  bool chooses = false;
  ChosenRows rows;
  // A load of several CTAs: each reads a part of the box, along dimension `part`, for all of them; or for itself alone
  // where `tiles` says so, the destination then being as large as the part. Of a store: all devices.
  UnitSet receivers;
  int part = 0;
  bool tiles = false;
  bool to_leader = false;  // the first of the CTAs expects the bytes of all, and its barrier gets them
};
// A value that goes into the shared memory of another CTA, whose barrier gets an arrival and the bytes.
struct PeerStorePayload {
  UnitSet peer;
  Addr src;  // dense
  CopySide dst;
  ir::DType dtype = ir::DType::F32;
  memory::Combine combine = memory::Combine::Replace;
  BarrierPayload barrier;
};
struct GroupWaitPayload {
  uint32_t most_slot = 0;  // i32: so many groups may be left
  bool reads = false;      // until their sources were read; else until they are complete
};

}  // namespace pallasim::interp
