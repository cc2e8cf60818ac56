#include "step_info.h"

#include "rows.h"
#include "steps.h"
#include "tma.h"
#include "waiting.h"

namespace pallasim::interp {
namespace {

using Uses = std::vector<SyncUse>;
using Role = SyncUse::Role;

const SemPayload& semaphore(const Step& s) { return *static_cast<const SemPayload*>(s.payload); }

void signal_uses(const Step& s, Uses* out) {
  out->push_back({Role::Signal, semaphore(s).block, semaphore(s).peer.elsewhere()});
}
void wait_uses(const Step& s, Uses* out) { out->push_back({Role::Await, semaphore(s).block}); }
void read_uses(const Step& s, Uses* out) {
  if (semaphore(s).polls) out->push_back({Role::Poll, semaphore(s).block});
}
void copy_uses(const Step& s, Uses* out) {
  const auto& p = *static_cast<const DmaPayload*>(s.payload);
  out->push_back({Role::Written, p.dst_sem.block, p.peer.elsewhere()});
  if (p.src_sem.block >= 0) out->push_back({Role::Read, p.src_sem.block});
}
void copy_wait_uses(const Step& s, Uses* out) {
  const auto& p = *static_cast<const DmaWaitPayload*>(s.payload);
  int64_t n = 1;
  for (int64_t d : p.extents.dims) n *= d;
  out->push_back({Role::Await, p.sem.block, false, p.extents.slots.empty() ? n * p.bits / 8 : SyncUse::kAnyBytes});
}
void barrier_use(const Step& s, Uses* out, Role role) {
  SyncUse u{role, static_cast<const BarrierPayload*>(s.payload)->block};
  u.object = Wait::Kind::Barrier;
  u.elsewhere = static_cast<const BarrierPayload*>(s.payload)->reaches.elsewhere();
  out->push_back(u);
}
void arrival_uses(const Step& s, Uses* out) { barrier_use(s, out, Role::Signal); }
void passage_uses(const Step& s, Uses* out) { barrier_use(s, out, Role::Await); }
void test_uses(const Step& s, Uses* out) {
  if (static_cast<const BarrierPayload*>(s.payload)->polls) barrier_use(s, out, Role::Poll);
}
void bulk_uses(const Step& s, Uses* out) {
  SyncUse u{Role::Written, static_cast<const BulkCopyPayload*>(s.payload)->barrier.block};
  u.object = Wait::Kind::Barrier;
  u.elsewhere = static_cast<const BulkCopyPayload*>(s.payload)->receivers.elsewhere();
  out->push_back(u);
}
void peer_store_uses(const Step& s, Uses* out) {
  SyncUse u{Role::Written, static_cast<const PeerStorePayload*>(s.payload)->barrier.block, true};
  u.object = Wait::Kind::Barrier;
  out->push_back(u);
}
SideNames peer_store_sides(const Step& s) { return {"", static_cast<const PeerStorePayload*>(s.payload)->dst.name}; }
SideNames bulk_sides(const Step& s) {
  const auto& p = *static_cast<const BulkCopyPayload*>(s.payload);
  return {p.src.name, p.dst.name};
}
SideNames copy_sides(const Step& s) {
  const auto& p = *static_cast<const DmaPayload*>(s.payload);
  return {p.src.name, p.dst.name};
}

}  // namespace

using Flow = StepInfo::Flow;
const StepInfo kPlainStep{"step"};
const StepInfo kAddingStep{.name = "step", .adds = true};

namespace ops {
const StepInfo kFinish{"finish", finish, Flow::End};
const StepInfo kSemSignal{"sem_signal", sem_signal, Flow::Next, signal_uses};
const StepInfo kSemWait{"sem_wait", sem_wait, Flow::Next, wait_uses};
const StepInfo kSemRead{"sem_read", sem_read, Flow::Next, read_uses};
const StepInfo kDmaStart{"dma_start", dma_start, Flow::Next, copy_uses, copy_sides};
const StepInfo kRowCopy{"row_copy", row_copy, Flow::Next, copy_uses, copy_sides};
const StepInfo kBarrierArrive{"barrier_arrive", barrier_arrive, Flow::Next, arrival_uses};
const StepInfo kBarrierWait{"barrier_wait", barrier_wait, Flow::Next, passage_uses};
const StepInfo kBarrierTest{"barrier_test", barrier_test, Flow::Next, test_uses};
const StepInfo kNamedArrive{"named_arrive", named_arrive, Flow::Next, arrival_uses};
const StepInfo kPeerStore{"peer_store", peer_store, Flow::Next, peer_store_uses, peer_store_sides};
const StepInfo kBulkLoad{"bulk_load", bulk_load, Flow::Next, bulk_uses, bulk_sides, true};
const StepInfo kBulkStore{"bulk_store", bulk_store, Flow::Next, nullptr, bulk_sides, true};
const StepInfo kWarpgroupProduct{"wgmma", warpgroup_product, Flow::Next, nullptr, nullptr, true};
const StepInfo kFetchAndAdd{.name = "fetch_and_add", .fn = fetch_and_add, .reaches = true};
const StepInfo kTrips{.name = "trips", .fn = trips, .trips = true};
const StepInfo kJoin{"join", join};
const StepInfo kDmaWait{"dma_wait", dma_wait, Flow::Next, copy_wait_uses};
}  // namespace ops

std::vector<SyncUse> sync_uses(const Step& s) {
  std::vector<SyncUse> r;
  if (s.info->sync) s.info->sync(s, &r);
  return r;
}

std::vector<int32_t> successors(const Step& s) {
  std::vector<int32_t> r;
  if (s.info->flow == Flow::Table) r = *static_cast<const std::vector<int32_t>*>(s.payload);
  if (s.jump) r.push_back(s.jump->id);
  if (s.info->flow == Flow::Next || s.info->flow == Flow::Table) r.push_back(s.id + 1);
  return r;
}

}  // namespace pallasim::interp
