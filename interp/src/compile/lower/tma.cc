// Bulk copies between global and shared memory (TMA).
#include "../../plan/payload/bulk.h"
#include "../../plan/payload/copies.h"

#include <algorithm>
#include <optional>
#include <string>

#include "access.h"
#include "barriers.h"
#include "copy_forwarding.h"
#include "rows.h"
#include "units.h"

namespace pallasim::interp {
namespace {

// A copy under a predicate: the steps that `body` emits run where it holds.
template <typename F>
void where(Emitter& e, const Op& op, const F& body) {
  const Attr* predicate = op.attr("predicate");
  if (!predicate) return body();
  const uint32_t slot = scalar_slot(e, e.operand(op, static_cast<size_t>(predicate->i)));
  const int branch = e.here();
  e.emit(e.functions().branch_if_false).a = slot;
  const LiveValues::Conditional inside(e.live());
  body();
  e.jump_to(branch, e.here());
}

void refuse_unknown(Emitter& e, const Op& op, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : op.attrs) {
    bool found = false;
    for (const char* k : known) found = found || key == k;
    if (!found) e.unsupported(op, std::string(ir::name(op.code)) + " with \"" + key + "\"");
  }
}

CopySide side(Emitter& e, const Op& op, const Val& v) {
  if (v.is_semaphore() || !v.is_ref()) e.unsupported(op, "copy of " + std::string(ir::name(v.dtype)));
  if (v.is_choice() || v.is_recast())
    e.unsupported(op,
                  std::string(ir::name(op.code)) + " of one of several refs, or of a ref with other element widths");
  if (!v.ref().extents.empty())
    e.unsupported(op, std::string(ir::name(op.code)) + " of an extent that is known at run time only");
  if (v.dims.size() > memory::kMaxRank) e.unsupported(op, "copy of rank " + std::to_string(v.dims.size()));
  return {v.memory().addr,    {v.dims, v.ref().extents}, v.ref().valid, v.ref().gates,
          v.memory().strides, v.memory().name,           v.ref().before};
}

// A load whose bytes the first CTA's barrier counts, for all CTAs: each loads a tile of the box for itself, or a part
// of it for all.
struct LeaderTracked {
  bool is = false;
  std::optional<size_t> tiles;  // the dimension along which they lie
};

LeaderTracked leader_tracked(Emitter& e, const Op& op) {
  const Attr* a = op.attr("leader_tracked");
  if (!a) return {};
  if (a->is_call("Replicated") && a->items.empty()) return {true, {}};
  if (!a->is_call("Partitioned") || a->items.size() != 1 || !a->items[0].is_int() || a->items[0].i < 0)
    e.unsupported(op, "copy_gmem_to_smem with such a \"leader_tracked\"");
  return {true, static_cast<size_t>(a->items[0].i)};
}

// A box of global memory and a ref of its shape; of a box in tiles, of a tile's. `list`: keeps the indices of rows
// until the copy is emitted.
struct Box {
  bool load = true;
  std::optional<size_t> tiles = {};
  int64_t count = 1;
  Val list = {};
  Val far = {};  // the part of global memory
};

BulkCopyPayload box(Emitter& e, const Op& op, Box* b) {
  BulkCopyPayload p;
  const std::string name(ir::name(op.code));
  const char *key = b->load ? "src" : "dst", *other = b->load ? "dst" : "src";
  const ViewUse use = b->load ? ViewUse::Box : ViewUse::BoxTo;
  p.chooses = chooses_rows(op.viewed(key));
  std::vector<ir::View> view = op.viewed(key)->transforms;
  const bool to_all = !b->load && drop_multicast(e, op, &view, &p.receivers);
  if (to_all && p.chooses) e.unsupported(op, "a copy of chosen rows to several devices");
  const Val whole = e.operand(op, static_cast<size_t>(op.viewed(key)->operand));
  const Val far = p.chooses ? all_rows(e, op, key, use, &p.rows, &b->list)
                  : to_all  ? apply_view(e, op, whole, view, use, Recast::Keep).ref
                            : viewed_operand(e, op, key, use, Recast::Keep),
            near = viewed_operand(e, op, other, b->load ? ViewUse::CopyTo : ViewUse::Copy, Recast::Keep);
  const Val &src = b->load ? far : near, &dst = b->load ? near : far;
  check_writable(e, op, dst);
  if (to_all && !is_array_of_device(e, far)) e.unsupported(op, name + " to all devices of what is no array of theirs");
  if (src.dtype != dst.dtype)
    e.unsupported(op, "copy from " + std::string(ir::name(src.dtype)) + " to " + std::string(ir::name(dst.dtype)));
  p.dtype = src.dtype;
  p.kind = b->load ? memory::AsyncKind::tma_load : memory::AsyncKind::tma_store;
  p.src = side(e, op, src);
  p.dst = side(e, op, dst);
  if (p.chooses) p.dst.elidable = elidable_of(e, dst);
  else tell_elision(e, src, dst, &p.src, &p.dst);
  std::vector<int64_t> moved = far.dims;
  if (p.chooses) {
    if (p.rows.count_slot != Addr::kNoSlot || p.rows.ignores)
      e.unsupported(op, name + " of rows whose number is known at run time only");
    moved[p.rows.dim] = p.rows.count;
    (b->load ? p.src : p.dst).extents.dims = moved;
  }
  if (b->tiles) {
    if (p.chooses || *b->tiles >= moved.size() || moved[*b->tiles] % b->count != 0)
      e.unsupported(op, name + " of a box that is no row of equal tiles");
    moved[*b->tiles] /= b->count;
  }
  if (moved != near.dims) e.unsupported(op, name + " between refs of different shapes");
  b->far = far;
  return p;
}

// The dimension along which `n` CTAs share a box: the first that has equal parts for them, else the largest.
int parted(const std::vector<int64_t>& dims, int64_t n) {
  size_t d = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] % n == 0) return static_cast<int>(i);
    if (dims[i] > dims[d]) d = i;
  }
  return static_cast<int>(d);
}

void lower_load(Emitter& e, const Op& op) {
  refuse_unknown(e, op, {"src", "dst", "barrier", "collective_axes", "oob_mode", "predicate", "leader_tracked"});
  const LeaderTracked leader = leader_tracked(e, op);
  UnitSet receivers;
  if (const Attr* axes = op.attr("collective_axes")) {
    std::optional<UnitSet> set = units_along(e, *axes, true);
    if (!set) e.unsupported(op, "copy_gmem_to_smem along axes that are not of the cluster");
    if (set->count() > 1) receivers = std::move(*set);
  }
  if (leader.is && receivers.count() != 2)
    e.unsupported(op, "copy_gmem_to_smem with \"leader_tracked\" in a cluster that is no pair");
  e.about_to_write(everything());
  where(e, op, [&] {
    Box b{.tiles = leader.tiles, .count = receivers.count()};
    BulkCopyPayload p = box(e, op, &b);
    p.barrier = barrier_of(e, op);
    p.part = leader.tiles ? static_cast<int>(*leader.tiles) : parted(p.src.extents.dims, receivers.count());
    p.tiles = leader.tiles.has_value();
    p.to_leader = leader.is;
    p.receivers = receivers;
    if (receivers.elsewhere() && p.src.extents.dims.empty()) e.unsupported(op, "a scalar for several CTAs");
    if (receivers.elsewhere() && p.chooses) e.unsupported(op, "a copy of chosen rows for several CTAs");
    charge_copy(e, p.src.extents.dims, p.dtype);
    e.emit<Kind::bulk_load>(std::move(p));
  });
}

struct Reduction {
  const char* name;
  memory::Combine combine;
  std::initializer_list<ir::DType> types;
  bool is_unsigned = false;
};

// What the copy unit can combine (PTX, cp.reduce.async.bulk.tensor, by the types that JAX's lowering takes).
const Reduction* reduction_by(const std::string& name) {
  using enum ir::DType;
  using memory::Combine;
  static constexpr auto kIntegers = {I32, U32, I64, U64}, kWords = {I32, U32}, kHalves = {F16, BF16};
  static constexpr Reduction kAll[] = {{"add", Combine::Add, {F16, BF16, F32, I32, U32, I64, U64}},
                                       {"min", Combine::Min, kHalves},
                                       {"max", Combine::Max, kHalves},
                                       {"smin", Combine::Min, kIntegers},
                                       {"smax", Combine::Max, kIntegers},
                                       {"umin", Combine::Min, kIntegers, true},
                                       {"umax", Combine::Max, kIntegers, true},
                                       {"and", Combine::And, kIntegers},
                                       {"or", Combine::Or, kIntegers},
                                       {"xor", Combine::Xor, kIntegers},
                                       {"inc", Combine::Inc, kWords, true},
                                       {"dec", Combine::Dec, kWords, true}};
  for (const Reduction& r : kAll)
    if (name == r.name) return &r;
  return nullptr;
}

void reduce(Emitter& e, const Op& op, const std::string& name, BulkCopyPayload* p) {
  const Reduction* r = reduction_by(name);
  if (!r || std::find(r->types.begin(), r->types.end(), p->dtype) == r->types.end())
    e.unsupported(op, "a copy of " + std::string(ir::name(p->dtype)) + " that reduces by " + name);
  p->combine = r->combine;
  if (ir::is_float(p->dtype))
    p->combine = r->combine == memory::Combine::Add   ? memory::Combine::BulkAdd
                 : r->combine == memory::Combine::Min ? memory::Combine::BulkMin
                                                      : memory::Combine::BulkMax;
  const bool wide = ir::byte_size(p->dtype) == 8;
  if (r->is_unsigned) p->dtype = wide ? ir::DType::U64 : ir::DType::U32;
  else if (name == "smin" || name == "smax") p->dtype = wide ? ir::DType::I64 : ir::DType::I32;
}

void lower_bulk_store(Emitter& e, const Op& op) {
  refuse_unknown(e, op, {"src", "dst", "commit_group", "predicate", "reduction_op"});
  StoreForwarding stored(e, op);
  const Attr *reduction = op.attr("reduction_op"), *commit = op.attr("commit_group");
  const bool reduces = reduction && reduction->s != "none";
  if (op.attr("predicate")) stored.store();
  where(e, op, [&] {
    Box b{.load = false};
    BulkCopyPayload p = box(e, op, &b);
    if (reduces) {
      if (p.chooses) e.unsupported(op, "a copy to chosen rows that reduces");
      reduce(e, op, reduction->s, &p);
    }
    const bool own = is_array_of_device(e, b.far) && !p.receivers.elsewhere();
    stored.emit({b.far, p.dst, {}}, !reduces && !p.chooses && own, [&](bool forwarded) {
      p.forwarded = forwarded;
      charge_copy(e, p.src.extents.dims, p.dtype);
      e.emit<Kind::bulk_store>(p);
    });
  });
  if (!commit || commit->is_true()) e.emit<Kind::commit_group>();
}

// A value into another CTA's shared memory.
void lower_peer_store(Emitter& e, const Op& op) {
  refuse_unknown(e, op, {"value", "ref", "barrier", "cluster_idx", "cluster_dim", "optimized", "atomic"});
  const Attr *dim = op.attr("cluster_dim"), *atomic = op.attr("atomic");
  if (!dim || dim->items.size() != 1) e.unsupported(op, "async_store_smem without one axis of the cluster");
  const Val dst = viewed_operand(e, op, "ref", ViewUse::CopyTo, Recast::Keep);
  PeerStorePayload p;
  const Val at = scalar_convert(e, e.operand(op, static_cast<size_t>(op.attr("cluster_idx")->i)), ir::DType::I32);
  p.peer = cta_at(e, op, dim->items[0].s, scalar_slot(e, at));
  const Val value =
      dense(e, e.about_to_write(everything(), {e.operand(op, static_cast<size_t>(op.attr("value")->i))})[0]);
  p.dst = side(e, op, dst);
  if (value.dims != dst.dims || value.dtype != dst.dtype || !p.dst.valid.empty())
    e.unsupported(op, "async_store_smem of another shape or type than the ref's");
  p.src = value.memory().addr;
  p.dtype = dst.dtype;
  if (atomic && atomic->s != "none") {
    if (atomic->s != "add" || !e.kernels().strip(OpCode::add, p.dtype))
      e.unsupported(op, "async_store_smem that reduces by " + atomic->s);
    p.combine = memory::Combine::Add;
  }
  p.barrier = barrier_of(e, op);
  e.emit<Kind::peer_store>(std::move(p));
}

void lower_commit(Emitter& e, const Op&) { e.emit<Kind::commit_group>(); }

void lower_wait(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  GroupWaitPayload p;
  p.most_slot = scalar_slot(e, scalar_convert(e, e.operand(op, 0), ir::DType::I32));
  if (const Attr* reads = op.attr("wait_read_only")) p.reads = reads->is_true();
  e.emit<Kind::wait_groups>(p);
}

void lower_fence(Emitter& e, const Op&) { e.emit<Kind::fence_proxy>(); }

// Into a cache: nothing that a kernel can see.
void lower_prefetch(Emitter&, const Op&) {}

}  // namespace

Rows tma_rows() {
  static constexpr Row kRows[] = {
      {OpCode::copy_gmem_to_smem, lower_load},     {OpCode::copy_smem_to_gmem, lower_bulk_store},
      {OpCode::commit_group, lower_commit},        {OpCode::wait_smem_to_gmem, lower_wait},
      {OpCode::commit_smem, lower_fence},          {OpCode::async_prefetch, lower_prefetch},
      {OpCode::async_store_smem, lower_peer_store}};
  return kRows;
}

}  // namespace pallasim::interp
