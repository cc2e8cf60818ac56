// Barriers with phases.
#include "barriers.h"
#include "units.h"

#include <map>

#include "../../plan/payload/barriers.h"
#include "../views/views.h"

namespace pallasim::interp {
namespace {

// Where a thread keeps which phases it saw, by block.
struct SeenPhases {
  std::unordered_map<int, uint32_t> slots;
  std::map<std::pair<int, int64_t>, uint32_t> besides;  // of spawned threads: by block and how many there are
};

// Whose barriers an arrival at a barrier of the cluster goes to, by block.
struct ClusterArrivals {
  std::unordered_map<int, UnitSet> sets;
};

constexpr int64_t kNamedBarriers = 16;           // of a CTA (PTX ISA, bar)
constexpr int64_t kWarp = 32, kWarpgroup = 128;  // CUDA threads

// The block of the CTA's named barriers.
struct NamedBarriers {
  int block = -1;
};

void place_seen(Emitter& e, BarrierPayload* p) {
  SeenPhases& s = e.state<SeenPhases>();
  const int64_t count = e.plan().memory.barriers[static_cast<size_t>(p->block)].count;
  const auto [at, fresh] = s.slots.try_emplace(p->block, 0);
  if (fresh) at->second = e.new_slot(static_cast<int>(count));
  p->seen = at->second;
  if (!e.frame().in_spawn()) return;
  int64_t children = 1;
  for (const Frame::InnerAxis& a : e.frame().inner_axes()) children = memory::mul(children, a.size);
  const auto [own, first] = s.besides.try_emplace({p->block, children}, 0);
  if (first) own->second = e.new_slot(static_cast<int>(memory::mul(count, children)));
  p->besides = own->second;
}

}  // namespace

int add_barrier(Emitter& e, const Val& v, const ir::Type& t, const Attr* facts) {
  const bool of_cluster = t.dtype == ir::DType::ClusterBarrier;
  memory::BarrierBlock b;
  b.name = v.memory().name;
  b.count = v.elements();
  b.owner = of_cluster ? memory::Level::Core : memory::owner_level(t.scope, t.space);
  b.parity = true;
  b.of_cluster = of_cluster;
  UnitSet reaches;
  for (size_t i = 0; facts && i < facts->keys.size(); ++i) {
    const Attr& a = facts->items[i];
    if (facts->keys[i] == "num_arrivals" && a.is_int() && a.i > 0) {
      b.expected = a.i;
    } else if (facts->keys[i] == "orders_tensor_core") {
      b.tensor = a.is_true();
    } else if (facts->keys[i] == "made" && a.is_int() && a.i >= 0 && a.i < std::ssize(e.module().locs)) {
      b.loc = static_cast<ir::LocId>(a.i);
    } else if (of_cluster && facts->keys[i] == "leader_tracked") {
      reaches.first_only = a.is_true();
    } else if (of_cluster && facts->keys[i] == "collective_axes") {
      std::optional<UnitSet> set = units_along(e, a, false);
      if (!set) unsupported(e.module(), "barriers along axes that are not of the cluster");
      reaches.groups = std::move(set->groups);
    } else {
      unsupported(e.module(), "barriers with " + facts->keys[i]);
    }
  }
  if (reaches.first_only && reaches.groups.size() != 1)
    unsupported(e.module(), "barriers of a cluster's first CTA along several axes");
  b.expected = memory::mul(b.expected, reaches.count());
  std::vector<memory::BarrierBlock>& blocks = e.plan().memory.barriers;
  blocks.push_back(std::move(b));
  const int block = static_cast<int>(blocks.size()) - 1;
  if (of_cluster) e.state<ClusterArrivals>().sets[block] = std::move(reaches);
  return block;
}

BarrierPayload barrier_of(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, static_cast<size_t>(op.viewed("barrier")->operand));
  const bool of_cluster = ref.dtype == ir::DType::ClusterBarrier;
  if (ref.is_choice() || !ref.is_semaphore() || !is_barrier(ref.dtype))
    e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(ref.dtype)));
  const Val target = viewed_operand(e, op, "barrier", ViewUse::Access);
  if (target.elements() != 1) e.unsupported(op, std::string(ir::name(op.code)) + " on several barriers");
  BarrierPayload p;
  p.block = ref.ref().semaphore;
  p.index = target.memory().addr;
  place_seen(e, &p);
  if (of_cluster && op.code == OpCode::barrier_arrive) p.reaches = e.state<ClusterArrivals>().sets[p.block];
  else if (of_cluster && op.code != OpCode::barrier_wait && op.code != OpCode::barrier_test &&
           op.code != OpCode::tcgen05_mma && op.code != OpCode::tcgen05_commit_arrive)
    e.unsupported(op, std::string(ir::name(op.code)) + " on a barrier of the cluster");
  if (const Attr* n = op.attr("count")) p.count = n->i;
  const auto bytes = [&](const char* key, BarrierPayload::Bytes* to) {
    const Attr* a = op.attr(key);
    if (!a) return;
    if (a->is_int()) to->fixed = a->i;
    else to->slot = scalar_slot(e, scalar_convert(e, e.operand(op, static_cast<size_t>(a->i)), ir::DType::I32));
  };
  bytes("expects", &p.expects);
  bytes("brings", &p.brings);
  return p;
}

static void lower_barrier(Emitter& e, const Op& op) {
  // What nobody gave a meaning to is refused: a predicate, a barrier of other blocks.
  for (const auto& [key, value] : op.attrs)
    if (key != "barrier" && key != "count" && key != "expects" && key != "brings")
      e.unsupported(op, std::string(ir::name(op.code)) + " with \"" + key + "\"");
  if (const Attr* n = op.attr("count"); n && (!n->is_int() || n->i < 0))
    e.unsupported(op, std::string(ir::name(op.code)) + " of such a count");
  e.about_to_write(everything());
  BarrierPayload p = barrier_of(e, op);
  if (p.reaches.elsewhere() && e.frame().in_spawn())
    e.unsupported(op, "an arrival of a single warp at a barrier of the cluster");
  if (op.code == OpCode::barrier_arrive) {
    e.emit<Kind::barrier_arrive>(e.functions().arrival(p), p);
    return;
  }
  if (op.code == OpCode::barrier_wait) {
    e.emit<Kind::barrier_wait>(e.functions().passage(p), p);
    return;
  }
  p.polls = e.live().in_while();
  const Val v = scalar_in(e.new_slot(), ir::DType::Bool);
  e.emit<Kind::barrier_test>(p).dst = v.scalar().slot;
  e.define(op.results[0], v);
}

// The named barrier that an item of `does` names, and how many warps it takes.
static BarrierPayload named_barrier(Emitter& e, const Op& op, const Attr& act) {
  int& block = e.state<NamedBarriers>().block;
  if (block < 0) {
    memory::BarrierBlock b;
    b.name = "named barrier ";
    b.count = kNamedBarriers;
    b.owner = memory::Level::Core;
    b.named = true;
    block = static_cast<int>(e.plan().memory.barriers.size());
    e.plan().memory.barriers.push_back(std::move(b));
  }
  BarrierPayload p;
  p.block = block;
  place_seen(e, &p);
  const Attr& id = act.items[0];
  if (id.is(Attr::Kind::Operand)) {
    p.index.dyn = scalar_slot(e, scalar_convert(e, e.operand(op, static_cast<size_t>(id.i)), ir::DType::I64));
  } else {
    if (!id.is_int() || id.i < 0 || id.i >= kNamedBarriers) e.unsupported(op, "a named barrier of such a number");
    p.index.offset = id.i;
  }
  p.takes = e.body().per_core * (kWarpgroup / kWarp);
  p.count = e.frame().in_spawn() ? 1 : kWarpgroup / kWarp;
  if (act.items.size() > 1) {
    if (!act.items[1].is_int() || act.items[1].i < kWarp || act.items[1].i % kWarp != 0)
      e.unsupported(op, "a named barrier of threads that are not whole warps");
    p.takes = act.items[1].i / kWarp;
  }
  return p;
}

static void lower_ptx(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  for (const Attr& act : op.attr("does")->items) {
    const bool sync = act.is_call("named_barrier_sync");
    if (act.is(Attr::Kind::Symbol) && act.s == "fence") continue;  // memory has one order here
    if (act.is(Attr::Kind::Symbol) && act.s == "fence_async") {
      e.emit<Kind::fence_proxy>();
      continue;
    }
    if ((!sync && !act.is_call("named_barrier_arrive")) || act.items.empty() || act.items.size() > 2)
      e.unsupported(op, "ptx that does " + (act.s.empty() ? std::string("something else") : act.s));
    BarrierPayload p = named_barrier(e, op, act);
    p.sees = sync;
    e.emit<Kind::named_arrive>(p);
    if (sync) e.emit<Kind::barrier_wait>(e.functions().barrier_wait, p);
  }
}

Rows barrier_rows() {
  static constexpr Row kRows[] = {{OpCode::ptx, lower_ptx},
                                  {OpCode::barrier_arrive, lower_barrier},
                                  {OpCode::barrier_wait, lower_barrier},
                                  {OpCode::barrier_test, lower_barrier}};
  return kRows;
}

}  // namespace pallasim::interp
