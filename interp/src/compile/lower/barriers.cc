// Barriers with phases.
#include "barriers.h"
#include "../../plan/waiting.h"
#include "../views.h"

namespace pallasim::interp {
namespace {

// Where a thread keeps which phases it saw, by block.
struct SeenPhases {
  std::unordered_map<int, uint32_t> slots;
};

}  // namespace

int Emitter::add_barrier(const Val& v, const ir::Type& t, const Attr* facts) {
  if (t.dtype == ir::DType::ClusterBarrier) interp::unsupported(m_, "barriers across the CTAs of a cluster");
  memory::BarrierBlock b;
  b.name = v.memory().name;
  b.count = v.elements();
  b.owner = memory::owner_level(t.scope, t.space);
  b.parity = true;
  for (size_t i = 0; facts && i < facts->keys.size(); ++i) {
    const Attr& a = facts->items[i];
    if (facts->keys[i] == "num_arrivals" && a.is_int() && a.i > 0) b.expected = a.i;
    else interp::unsupported(m_, "barriers with " + facts->keys[i]);
  }
  plan_.barriers.push_back(std::move(b));
  return static_cast<int>(plan_.barriers.size()) - 1;
}

BarrierPayload barrier_of(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, static_cast<size_t>(op.viewed("barrier")->operand));
  if (ref.is_choice() || !ref.is_semaphore() || ref.dtype != ir::DType::Mbarrier)
    e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(ref.dtype)));
  const Val target = viewed_operand(e, op, "barrier", ViewUse::Access);
  if (target.elements() != 1) e.unsupported(op, std::string(ir::name(op.code)) + " on several barriers");
  BarrierPayload p;
  p.block = ref.ref().semaphore;
  p.index = target.memory().addr;
  auto& slots = e.state<SeenPhases>().slots;
  const auto [at, fresh] = slots.try_emplace(p.block, 0);
  if (fresh) at->second = e.slot_block(static_cast<int>(e.plan().barriers[static_cast<size_t>(p.block)].count));
  p.seen = at->second;
  if (const Attr* n = op.attr("count")) p.count = n->i;
  const auto bytes = [&](const char* key, BarrierPayload::Bytes* to) {
    const Attr* a = op.attr(key);
    if (!a) return;
    if (a->is_int()) to->fixed = a->i;
    else to->slot = e.scalar_slot(e.scalar_convert(e.operand(op, static_cast<size_t>(a->i)), ir::DType::I32));
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
  e.about_to_write(e.everything());
  BarrierPayload p = barrier_of(e, op);
  if (op.code == OpCode::barrier_arrive) {
    e.emit(ops::kBarrierArrive, e.own(p));
    return;
  }
  if (op.code == OpCode::barrier_wait) {
    e.emit(ops::kBarrierWait, e.own(p));
    return;
  }
  p.polls = e.in_while();
  const Val v = scalar_in(e.new_slot(), ir::DType::Bool);
  e.emit(ops::kBarrierTest, e.own(p)).dst = v.scalar().slot;
  e.define(op.results[0], v);
}

Rows barrier_rows() {
  static constexpr Row kRows[] = {{OpCode::barrier_arrive, lower_barrier},
                                  {OpCode::barrier_wait, lower_barrier},
                                  {OpCode::barrier_test, lower_barrier}};
  return kRows;
}

}  // namespace pallasim::interp
