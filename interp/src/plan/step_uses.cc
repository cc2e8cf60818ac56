// What kinds of steps do with semaphores and barriers, and the table of kinds.
#include <array>

#include "kinds.h"
#include "payload/barriers.h"
#include "payload/bulk.h"
#include "payload/control.h"
#include "payload/copies.h"
#include "payload/launch_control.h"
#include "payload/rows.h"
#include "payload/tensor.h"

namespace pallasim::interp {
namespace {

using Uses = std::vector<SyncUse>;
using Role = SyncUse::Role;
constexpr auto none = nullptr;

void signals(const Step& s, Uses* out) {
  const SemPayload& p = payload<Kind::sem_signal>(s);
  out->push_back({Role::Signal, p.block, p.peer.elsewhere()});
}
void awaits(const Step& s, Uses* out) { out->push_back({Role::Await, payload<Kind::sem_wait>(s).block}); }
void looks(const Step& s, Uses* out) {
  const SemPayload& p = payload<Kind::sem_read>(s);
  if (p.polls) out->push_back({Role::Poll, p.block});
}
void copy_uses(const DmaPayload& p, Uses* out) {
  out->push_back({Role::Written, p.dst_sem.block, p.peer.elsewhere()});
  if (p.src_sem.block >= 0) out->push_back({Role::Read, p.src_sem.block});
}
void copies(const Step& s, Uses* out) { copy_uses(payload<Kind::dma_start>(s), out); }
void copies_rows(const Step& s, Uses* out) { copy_uses(payload<Kind::row_copy>(s), out); }
void awaits_copy(const Step& s, Uses* out) {
  const DmaWaitPayload& p = payload<Kind::dma_wait>(s);
  int64_t n = 1;
  for (int64_t d : p.extents.dims) n *= d;
  out->push_back({Role::Await, p.sem.block, false, p.extents.slots.empty() ? n * p.bits / 8 : SyncUse::kAnyBytes});
}

SyncUse of_barrier(Role role, int block, bool elsewhere) { return {role, block, elsewhere, 0, Wait::Kind::Barrier}; }
void barrier_use(const BarrierPayload& p, Uses* out, Role role) {
  out->push_back(of_barrier(role, p.block, p.reaches.elsewhere()));
}
void arrives(const Step& s, Uses* out) { barrier_use(payload<Kind::barrier_arrive>(s), out, Role::Signal); }
void arrives_named(const Step& s, Uses* out) { barrier_use(payload<Kind::named_arrive>(s), out, Role::Signal); }
void passes(const Step& s, Uses* out) { barrier_use(payload<Kind::barrier_wait>(s), out, Role::Await); }
void tests(const Step& s, Uses* out) {
  const BarrierPayload& p = payload<Kind::barrier_test>(s);
  if (p.polls) barrier_use(p, out, Role::Poll);
}
void loads_box(const Step& s, Uses* out) {
  const BulkCopyPayload& p = payload<Kind::bulk_load>(s);
  out->push_back(of_barrier(Role::Written, p.barrier.block, p.receivers.elsewhere()));
}
void stores_to_peer(const Step& s, Uses* out) {
  out->push_back(of_barrier(Role::Written, payload<Kind::peer_store>(s).barrier.block, true));
}
void tells(const BarrierPayload& p, const UnitSet& ctas, Uses* out) {
  if (p.block >= 0) out->push_back(of_barrier(Role::Written, p.block, ctas.elsewhere()));
}
void multiplies(const Step& s, Uses* out) {
  const TensorProductPayload& p = payload<Kind::tcgen05_mma>(s);
  tells(p.barrier, p.ctas, out);
}
void commits(const Step& s, Uses* out) {
  const TensorCommitPayload& p = payload<Kind::tcgen05_commit>(s);
  tells(p.barrier, p.ctas, out);
}

void asks(const Step& s, Uses* out) {
  const ClusterRequestPayload& p = payload<Kind::cluster_request>(s);
  barrier_use(p.barrier, out, Role::Signal);
  out->push_back(of_barrier(Role::Written, p.barrier.block, p.receivers.elsewhere()));
}

template <Kind k>
SideNames sides_of(const Step& s) {
  return {payload<k>(s).src.name, payload<k>(s).dst.name};
}
constexpr auto copy_sides = sides_of<Kind::dma_start>, row_copy_sides = sides_of<Kind::row_copy>,
               bulk_load_sides = sides_of<Kind::bulk_load>, bulk_store_sides = sides_of<Kind::bulk_store>;
constexpr auto tmem_copy_sides = sides_of<Kind::tmem_copy>;
SideNames product_sides(const Step& s) {
  const TensorProductPayload& p = payload<Kind::tcgen05_mma>(s);
  return {p.left.name, p.sum.name};
}
SideNames tmem_load_sides(const Step& s) { return {payload<Kind::tmem_load>(s).memory.name, ""}; }
SideNames tmem_store_sides(const Step& s) { return {"", payload<Kind::tmem_store>(s).memory.name}; }
SideNames peer_store_sides(const Step& s) { return {"", payload<Kind::peer_store>(s).dst.name}; }
SideNames request_sides(const Step& s) { return {"", payload<Kind::cluster_request>(s).answer.name}; }

constexpr std::array<KindRow, kKinds> kRows{{
#define STEP(kind, payload, flow, definedness, uses, sides, traits, visible, work, footprint) \
  {#kind,                                                                                     \
   Flow::flow,                                                                                \
   Definedness::definedness,                                                                  \
   uses,                                                                                      \
   sides,                                                                                     \
   traits,                                                                                    \
   Visible::visible,                                                                          \
   Work::work,                                                                                \
   Footprint::footprint,                                                                      \
   #payload},
#include "steps.def"
}};

}  // namespace

const KindRow& row(Kind k) { return kRows[static_cast<size_t>(k)]; }
std::span<const KindRow> kind_rows() { return kRows; }

std::vector<SyncUse> sync_uses(const Step& s) {
  std::vector<SyncUse> r;
  if (row(s).uses) row(s).uses(s, &r);
  return r;
}

std::vector<int32_t> successors(const Step& s) {
  std::vector<int32_t> r;
  if (s.kind == Kind::branch_table) r = payload<Kind::branch_table>(s).steps;
  if (s.jump) r.push_back(s.jump->id);
  if (row(s).flow != Flow::Jump && row(s).flow != Flow::End) r.push_back(s.id + 1);
  return r;
}

}  // namespace pallasim::interp
