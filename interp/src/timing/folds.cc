#include "folds.h"

#include <algorithm>
#include <numeric>

namespace pallasim::interp {

bool loops(const ir::Op& op) {
  return op.code == ir::OpCode::for_ || op.code == ir::OpCode::parallel_loop || op.code == ir::OpCode::while_;
}

namespace {

bool has_loop(const ir::Op& op) {
  return std::any_of(op.regions.begin(), op.regions.end(), [](const ir::Region& r) {
    return std::any_of(r.ops.begin(), r.ops.end(), [](const ir::Op& x) { return loops(x) || has_loop(x); });
  });
}

const ir::Op* maker(const ir::Region& r, ir::ValueId v) {
  for (const ir::Op& op : r.ops) {
    if (std::find(op.results.begin(), op.results.end(), v) != op.results.end()) return &op;
    for (const ir::Region& x : op.regions)
      if (const ir::Op* found = maker(x, v)) return found;
  }
  return nullptr;
}

// Its place among the region's arguments; the number of those: it is none.
size_t place(const ir::Region& r, ir::ValueId v) {
  return static_cast<size_t>(std::find(r.args.begin(), r.args.end(), v) - r.args.begin());
}

bool is_one(const ir::Op* op) {
  if (!op || op->code != ir::OpCode::constant) return false;
  const ir::Attr* value = op->attr("value");
  return value && value->is(ir::Attr::Kind::Bits) && ir::is_int(value->dtype) && value->i == 1;
}

}  // namespace

const ir::Op* counting_test(const ir::Op& loop, const ir::Graph& g) {
  if (loop.code != ir::OpCode::while_) return nullptr;
  const ir::Region &test = loop.regions[0], &body = loop.regions[1];
  if (test.ops.empty() || body.ops.empty() || test.ops.back().operands.size() != 1) return nullptr;
  const ir::Op* less = maker(test, test.ops.back().operands[0]);
  if (!less || less->code != ir::OpCode::lt || !g.type(less->operands[0])->is_scalar()) return nullptr;
  const size_t index = place(test, less->operands[0]), end = place(test, less->operands[1]);
  const std::vector<ir::ValueId>& next = body.ops.back().operands;
  if (index >= next.size() || end >= next.size() || next[end] != body.args[end]) return nullptr;
  const ir::Op* add = maker(body, next[index]);
  const bool ones = add && add->code == ir::OpCode::add && add->operands[0] == body.args[index] &&
                    is_one(maker(g.region, add->operands[1]));
  return ones ? less : nullptr;
}

Folds::Folds(const Plan& p, Kept kept) : kept_(kept), quantum_(quantum(p)) {
  for (const ir::Body& b : p.module.bodies) find(b.graph.region, b.graph, false);
}

int64_t Folds::quantum(const Plan& p) {
  int64_t slots = 1;
  const auto take = [&](int64_t count) {
    if (count > 1 && count <= 16) slots = std::lcm(slots, count);
  };
  for (const memory::BarrierBlock& b : p.memory.barriers) take(b.count);
  for (const memory::SemaphoreBlock& b : p.memory.semaphores.blocks()) take(b.count);
  if (const ir::Attr* params = ir::find(p.module.attrs, "params"))
    for (size_t i = 0; i < params->keys.size(); ++i)
      if (params->keys[i] == "num_stages" && params->items[i].is_int()) take(params->items[i].i);
  // Phases alternate; what few trips take is uneven.
  constexpr int64_t kLeast = 8;
  return 2 * slots * std::max<int64_t>(1, (kLeast + 2 * slots - 1) / (2 * slots));
}

void Folds::find(const ir::Region& r, const ir::Graph& g, bool in_loop) {
  for (const ir::Op& op : r.ops) {
    const bool loop = loops(op), around = loop && has_loop(op);
    const bool counts = loop && (op.code != ir::OpCode::while_ || counting_test(op, g));
    if (counts && !(around && in_loop)) is_inner_.emplace(&op, !around);
    for (const ir::Region& x : op.regions) find(x, g, in_loop || loop);
  }
}

Folds::Left Folds::begins(const ir::Op* loop, int64_t trips) {
  if (kept_.alike)
    if (const int64_t once = trips_.emplace(loop, trips).first->second; std::abs(trips - once) > 1) throw Uneven{};
  const auto it = is_inner_.find(loop);
  return it == is_inner_.end() ? Left{} : begins(it->second, trips, -1);
}

Folds::Left Folds::begins_axis(int axis, bool inner, int64_t extent) { return begins(inner, extent, axis); }

Folds::Left Folds::begins(bool inner, int64_t trips, int axis) {
  Class& c = inner ? inner_ : outer_;
  // Between steps of a grid blocks come and go, so that the first trips may be unlike others.
  const int64_t kept = inner ? kept_.inner : kept_.outer + (axis < 0 ? 0 : 3);
  // Of programs some have one trip more than others; loops that fill slots first have some fewer behind that.
  const int64_t apart = inner ? std::max<int64_t>(quantum_, 8) : 1;
  if (c.first < 0) {
    const int64_t left = inner ? (trips - kept) / quantum_ * quantum_ : trips - 1 - kept;
    if (left >= std::max<int64_t>(inner ? quantum_ : 2, 1) && quantum_ <= 64) c = {trips, axis, left, c.all, c.ran};
  }
  Left r;
  if (c.first >= 0) {
    if (std::abs(trips - c.first) <= apart) r = {c.left_out, std::max<int64_t>(kept / 2, 1), inner};
    else if (2 * trips > c.first) throw Uneven{};
    if (r.trips > 0 && trips - r.trips <= r.head) throw Uneven{};
  }
  c.all += trips;
  c.ran += trips - r.trips;
  return r;
}

double Folds::factor() const {
  double r = 1;
  for (const Class* c : {&inner_, &outer_})
    if (c->ran > 0) r *= static_cast<double>(c->all) / static_cast<double>(c->ran);
  return r;
}

}  // namespace pallasim::interp
