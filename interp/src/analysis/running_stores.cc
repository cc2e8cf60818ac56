#include "running_stores.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "expressions.h"
#include "pallasim/hw/machine.h"
#include "refs.h"

namespace pallasim::interp::analysis {
namespace {

using ir::OpCode;
using ir::ValueId;
using Values = std::unordered_set<ValueId>;

bool is_plain_store(const ir::Op& op) { return op.code == OpCode::store || op.code == OpCode::masked_store; }

bool goes_around(const ir::Op& op) { return op.code == OpCode::for_ || op.code == OpCode::while_; }
const ir::Region& trip_region(const ir::Op& loop) { return loop.regions.back(); }
// Where the carries begin among the arguments of a trip, and among the loop's operands.
size_t first_carry(const ir::Op& loop) { return loop.code == OpCode::for_ ? 1 : 0; }

// Whether every use of the ref is a store into it.
bool only_stored(const ir::Region& region, ValueId ref) {
  return std::all_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& op) {
    const auto uses = std::count(op.operands.begin(), op.operands.end(), ref);
    return (uses == 0 || (uses == 1 && is_plain_store(op) && op.operands[0] == ref)) &&
           std::all_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) { return only_stored(r, ref); });
  });
}

// What is known of one body.
class Search {
 public:
  Search(const Plan& plan, const ir::Body& body, bool grid)
      : plan_(plan), graph_(body.graph), grid_(grid), numbers_(body.graph, plan.module.grid) {
    learn(graph_.region);
  }

  std::vector<RunningStore> stores(int operand) {
    operand_ = operand;
    ref_ = graph_.region.args[static_cast<size_t>(operand)];
    found_.clear();
    if (only_stored(graph_.region, ref_)) walk(graph_.region, nullptr, grid_);
    return found_;
  }

 private:
  void learn(const ir::Region& region) {
    for (const ir::Op& op : region.ops) {
      for (const ValueId v : op.results) made_by_[v] = &op;
      for (const ir::Region& r : op.regions) learn(r);
    }
  }

  // `loop`: the innermost around the region whose trips all come here. `every`: all points of the grid do.
  void walk(const ir::Region& region, const ir::Op* loop, bool every) {
    for (const ir::Op& op : region.ops) {
      if (is_plain_store(op) && op.operands[0] == ref_ && op.loc >= 0) {
        if (loop) in_loop(op, *loop);
        else if (every) in_grid(op);
      }
      const bool same = op.code == OpCode::run_scoped || op.code == OpCode::call;
      for (const ir::Region& r : op.regions)
        walk(r, goes_around(op) ? (&r == &trip_region(op) ? &op : nullptr) : same ? loop : nullptr, same && every);
    }
  }

  static void inside(const ir::Region& region, Values* all) {
    all->insert(region.args.begin(), region.args.end());
    for (const ir::Op& op : region.ops) {
      all->insert(op.results.begin(), op.results.end());
      for (const ir::Region& r : op.regions) inside(r, all);
    }
  }

  // What the value is made of, of values that `within` has: itself, operands of what makes it, and what regions on the
  // way use.
  Values made_of(ValueId value, const Values& within) const {
    Values seen;
    std::vector<ValueId> next{value};
    while (!next.empty()) {
      const ValueId v = next.back();
      next.pop_back();
      if (!within.count(v) || !seen.insert(v).second) continue;
      if (const auto op = made_by_.find(v); op != made_by_.end()) uses(*op->second, &next);
    }
    return seen;
  }
  static void uses(const ir::Op& op, std::vector<ValueId>* all) {
    all->insert(all->end(), op.operands.begin(), op.operands.end());
    for (const ir::Region& r : op.regions)
      for (const ir::Op& o : r.ops) uses(o, all);
  }

  void in_loop(const ir::Op& store, const ir::Op& loop) {
    const ir::Region& trip = trip_region(loop);
    Values within;
    inside(trip, &within);
    for (size_t i = 2; i < store.operands.size(); ++i)
      if (within.count(store.operands[i])) return;  // another place, or another mask, in each trip
    const Values value = made_of(store.operands[1], within);
    RunningStore r{operand_, store.loc, loop.loc, {}, {}, false};
    for (size_t c = first_carry(loop); c < trip.args.size(); ++c)
      if (value.count(trip.args[c]) && carries_a_sum(loop, c, within)) {
        r.sum = graph_.names[static_cast<size_t>(trip.args[c])];
        r.early = !value.count(trip.ops.back().operands[c - first_carry(loop)]);
        found_.push_back(std::move(r));
        return;
      }
    if (const auto sum = memory_of_a_sum(trip, value, within);
        sum && !within.count(sum->ref) && !full_store_first(trip, sum->ref)) {
      r.sum = graph_.names[static_cast<size_t>(sum->ref)];
      r.early = sum->early;
      found_.push_back(std::move(r));
    }
  }

  // Whether a carry becomes something of itself, and is no counter.
  bool carries_a_sum(const ir::Op& loop, size_t arg, const Values& within) const {
    const ir::Region& trip = trip_region(loop);
    const ValueId now = trip.args[arg], next = trip.ops.back().operands[arg - first_carry(loop)];
    if (next == now || !made_of(next, within).count(now)) return false;
    const auto sum = made_by_.find(next);
    if (sum == made_by_.end() || sum->second->code != OpCode::add) return true;
    return std::none_of(sum->second->operands.begin(), sum->second->operands.end(), [&](ValueId v) {
      const auto op = made_by_.find(v);
      return v != now && (!within.count(v) || (op != made_by_.end() && op->second->code == OpCode::constant));
    });
  }

  struct Sum {
    ValueId ref = -1;
    bool early = false;
  };
  // Memory that a value of the region comes from, and that the region adds to: what it stores there is made of what it
  // read there.
  std::optional<Sum> memory_of_a_sum(const ir::Region& region, const Values& value, const Values& within) const {
    for (size_t i = 0; i < region.ops.size(); ++i) {
      const ir::Op& read = region.ops[i];
      if (read.code != OpCode::get || !value.count(read.results[0])) continue;
      bool adds = false, early = true;
      for (size_t k = 0; k < region.ops.size(); ++k) {
        const ir::Op& write = region.ops[k];
        if (!adds_to(region, write, read.operands[0], within)) continue;
        adds = true;
        early &= k > i;
      }
      if (adds) return Sum{read.operands[0], early};
    }
    return std::nullopt;
  }
  bool adds_to(const ir::Region& region, const ir::Op& write, ValueId ref, const Values& within) const {
    if (write.operands.empty() || write.operands[0] != ref) return false;
    if (write.code == OpCode::addupdate) return true;
    if (write.code != OpCode::store) return false;
    const Values value = made_of(write.operands[1], within);
    return std::any_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& o) {
      return o.code == OpCode::get && o.operands[0] == ref && value.count(o.results[0]);
    });
  }

  // Axes along which scratch adds up: at whose first points alone it is set. All of them come behind the axes along
  // which the output's block moves.
  void in_grid(const ir::Op& store) {
    const ir::Region& region = graph_.region;
    Values within;
    inside(region, &within);
    const auto sum = memory_of_a_sum(region, made_of(store.operands[1], within), within);
    const auto arg = sum ? std::find(region.args.begin(), region.args.end(), sum->ref) : region.args.end();
    if (arg - region.args.begin() < std::ssize(plan_.module.operands) || arg == region.args.end()) return;
    RunningStore r{operand_, store.loc, -1, {}, graph_.names[static_cast<size_t>(sum->ref)], sum->early};
    if (!full_store_first(region, sum->ref, &numbers_, &r.axes) || r.axes.empty()) return;
    std::sort(r.axes.begin(), r.axes.end());
    const auto turns = [&](size_t g) { return plan_.module.grid[g].dynamic >= 0 || plan_.module.grid[g].size != 1; };
    std::erase_if(r.axes, [&](int a) { return !turns(static_cast<size_t>(a)); });
    if (r.axes.empty()) return;
    for (auto g = static_cast<size_t>(r.axes.front()); g < plan_.module.grid.size(); ++g)
      if (turns(g) && (std::find(r.axes.begin(), r.axes.end(), static_cast<int>(g)) == r.axes.end() || moves(g)))
        return;
    for (size_t i = 2; i < store.operands.size(); ++i) {
      const AffineExpr* at = numbers_.of(store.operands[i]);
      if (!at || !at->has_only(Symbol::Kind::Axis)) return;
      for (const int a : r.axes)
        if (at->along(static_cast<size_t>(a)) != 0) return;
    }
    found_.push_back(std::move(r));
  }
  bool moves(size_t axis) const {
    for (const Window& w : plan_.first().windows)
      if (w.operand == operand_)
        return !w.map.affine || std::any_of(w.map.index.begin(), w.map.index.end(), [&](const Affine& a) {
          return axis < a.coefficient.size() && a.coefficient[axis] != 0;
        });
    return true;
  }

  const Plan& plan_;
  const ir::Graph& graph_;
  bool grid_;
  Expressions numbers_;
  std::unordered_map<ValueId, const ir::Op*> made_by_;
  int operand_ = -1;
  ValueId ref_ = -1;
  std::vector<RunningStore> found_;
};

}  // namespace

std::vector<RunningStore> running_stores(const Plan& plan) {
  const ir::Module& m = plan.module;
  std::vector<RunningStore> all;
  const bool grid = m.meshes.empty() && m.bodies.size() == 1 && plan.first().model->in_order();
  for (const ir::Body& body : m.bodies) {
    Search search(plan, body, grid);
    for (size_t o = 0; o < m.operands.size(); ++o) {
      if (m.operands[o].kind != ir::Operand::Kind::Output || m.is_aliased_output(o)) continue;
      if (ir::is_sync(m.operands[o].array->dtype)) continue;
      const bool read = std::any_of(m.bodies.begin(), m.bodies.end(), [&](const ir::Body& b) {
        return !only_stored(b.graph.region, b.graph.region.args[o]);
      });
      if (read) continue;
      for (RunningStore& s : search.stores(static_cast<int>(o))) all.push_back(std::move(s));
    }
  }
  return all;
}

}  // namespace pallasim::interp::analysis
