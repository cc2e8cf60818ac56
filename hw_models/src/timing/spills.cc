#include "spills.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "cost.h"

namespace pallasim::hw {
namespace {

// A result that is alive from an operation to its last use.
struct Kept {
  size_t from, to;
  double registers, uses;
};

// By value: the operations of the region that use it, those within nested regions as the operation that has these.
using Uses = std::unordered_map<ir::ValueId, std::vector<size_t>>;

void add_uses(const ir::Op& op, size_t at, Uses* to) {
  for (const ir::ValueId v : op.operands)
    if (auto& of = (*to)[v]; of.empty() || of.back() != at) of.push_back(at);
  for (const ir::Region& x : op.regions)
    for (const ir::Op& inner : x.ops) add_uses(inner, at, to);
}

// Whether an operation could come right behind the one that makes its operand: whatever else it takes is there by then.
bool follows(const ir::Op& op, size_t maker, const std::unordered_map<ir::ValueId, size_t>& made) {
  return op.regions.empty() && std::all_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) {
           const auto it = made.find(v);
           return it == made.end() || it->second <= maker;
         });
}

}  // namespace

Spills::Spills(const ir::Module& m, const TimingFigures& f, double register_bytes, const Registers& registers)
    : register_bytes_(register_bytes) {
  for (const ir::Body& b : m.bodies) look(b.graph.region, b.graph, f, registers);
}

void Spills::look(const ir::Region& r, const ir::Graph& g, const TimingFigures& f, const Registers& registers) {
  Uses uses;
  std::unordered_map<ir::ValueId, size_t> made;
  double products = 0;  // flops
  for (size_t i = 0; i < r.ops.size(); ++i) {
    const ir::Op& op = r.ops[i];
    for (const ir::Region& x : op.regions) look(x, g, f, registers);
    add_uses(op, i, &uses);
    for (const ir::ValueId v : op.results) made[v] = i;
    if (sort_of(op.code) == Sort::Product) products += product_shape(op, g).flops();
  }
  if (products <= 0) return;
  std::vector<Kept> all;
  for (size_t i = 0; i < r.ops.size(); ++i) {
    const ir::Op& op = r.ops[i];
    if (op.results.size() != 1) continue;
    const auto it = uses.find(op.results[0]);
    const double n = it == uses.end() ? 0 : registers(op, g);
    if (n <= 0) continue;
    const ir::Op& user = r.ops[it->second.front()];
    const bool once = it->second.size() == 1 && sort_of(user.code) != Sort::Product && follows(user, i, made);
    if (once) continue;
    all.push_back({i, it->second.back(), n, static_cast<double>(it->second.size())});
  }
  double stored = 0, alive = 0, largest = 0;
  Spilled most;
  const auto later = [](const Kept& x, const Kept& y) { return x.to > y.to; };
  std::priority_queue<Kept, std::vector<Kept>, decltype(later)> now(later);
  for (const Kept& k : all) {
    for (; !now.empty() && now.top().to <= k.from; now.pop()) alive -= now.top().registers;
    now.push(k);
    alive += k.registers;
    if (alive <= f("vector_registers")) continue;
    moved_[&r.ops[k.from]] = {k.registers, k.registers * k.uses, 0};
    stored += k.registers;
    most.needed = std::max(most.needed, alive);
    if (k.registers > largest) largest = k.registers, most.at = &r.ops[k.from];
  }
  if (stored <= 0) return;
  most.registers = f("vector_registers");
  most.bytes = stored * register_bytes_;
  if (most.bytes > most_.bytes) most_ = most;
  for (const ir::Op& op : r.ops)
    if (sort_of(op.code) == Sort::Product) moved_[&op].waits = stored * product_shape(op, g).flops() / products;
}

}  // namespace pallasim::hw
