// Bulk copies between global and shared memory (TMA), and products of a warpgroup: payloads and steps.
#pragma once
#include "rows.h"
#include "waiting.h"

namespace pallasim::interp {

// A box into shared memory, whose bytes a barrier expects, or one out of it, in the thread's bulk stream.
struct BulkCopyPayload {
  CopySide src, dst;
  ir::DType dtype = ir::DType::F32;
  memory::Combine combine = memory::Combine::Replace;
  BarrierPayload barrier;  // block -1: the stream
  // Rows of the side in global memory that a list chooses, which moves one by one.
  bool chooses = false;
  ChosenRows rows;
  // A load of several CTAs: each reads a part of the box, along dimension `part`, for all of them; or for itself alone
  // where `tiles` says so, the destination then being as large as the part.
  ClusterSet receivers;
  int part = 0;
  bool tiles = false;
  bool departed = false;   // the bytes are there already
  bool to_leader = false;  // the first of the CTAs expects the bytes of all, and its barrier gets them
};
// A value that goes into the shared memory of another CTA, whose barrier gets an arrival and the bytes.
struct PeerStorePayload {
  ClusterPeer peer;
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

namespace ops {
extern const StepInfo kBulkLoad, kBulkStore;  // payload BulkCopyPayload
extern const StepInfo kPeerStore;             // payload PeerStorePayload
const Step* peer_store(Thread&, const Step*);
const Step* bulk_load(Thread&, const Step*);
const Step* bulk_store(Thread&, const Step*);
const Step* commit_group(Thread&, const Step*);  // closes the group of the bulk stores so far
const Step* wait_groups(Thread&, const Step*);   // payload GroupWaitPayload
extern const StepInfo kWarpgroupProduct;
const Step* warpgroup_product(Thread&,
                              const Step*);        // payload ContractPayload: a product in flight until it is awaited
const Step* await_products(Thread&, const Step*);  // a: i32 slot, kNoSlot: imm: so many may be left
const Step* fence_proxy(Thread&, const Step*);     // what was written is visible to bulk copies and tensor cores
}  // namespace ops

}  // namespace pallasim::interp
