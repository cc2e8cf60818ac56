// What control, addresses and synchronisation depend on.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "folds.h"
#include "step_costs.h"

#include "../plan/kinds.h"
#include "../plan/payload/movement.h"

namespace pallasim::interp {
namespace {

using ir::OpCode;
using ir::ValueId;

class Dependence {
 public:
  explicit Dependence(const ir::Graph& g) : g_(g) {}
  virtual ~Dependence() = default;
  // The first operation whose way depends on what spreads; null: none.
  const ir::Op* find() {
    prepare(g_.region);
    size_t before = 0;
    do {
      before = marked_.size();
      spread(g_.region);
    } while (marked_.size() != before);
    return use(g_.region);
  }

 protected:
  virtual bool begins(const ir::Op&, const ir::Type& result) const = 0;
  virtual void prepare(const ir::Region&) {}
  virtual bool spreads(const ir::Op&) const { return true; }
  virtual bool addresses_count() const = 0;
  virtual bool trips_count() const { return true; }  // of loops that are counted
  bool is_marked(ValueId v) const { return marked_.contains(v); }
  void mark(ValueId v) { marked_.insert(v); }
  const ir::Graph& g_;

 private:
  static const ir::Op* end_of(const ir::Region& r) { return r.ops.empty() ? nullptr : &r.ops.back(); }
  void pass(const std::vector<ValueId>& from, size_t at, const std::vector<ValueId>& to, size_t first = 0) {
    for (size_t i = 0; i + at < from.size() && i + first < to.size(); ++i)
      if (is_marked(from[i + at])) mark(to[i + first]);
  }
  void spread(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      const bool loop = op.code == OpCode::for_ || op.code == OpCode::parallel_loop;
      if (loop) {
        pass(op.operands, 3, op.regions[0].args, 1);
        spread(op.regions[0]);
        if (const ir::Op* y = end_of(op.regions[0]))
          pass(y->operands, 0, op.regions[0].args, 1), pass(y->operands, 0, op.results);
        pass(op.operands, 3, op.results);
        continue;
      }
      if (op.code == OpCode::while_) {
        for (const ir::Region& x : op.regions) pass(op.operands, 0, x.args);
        for (const ir::Region& x : op.regions) spread(x);
        if (const ir::Op* y = end_of(op.regions[1]))
          for (const ir::Region& x : op.regions) pass(y->operands, 0, x.args), pass(y->operands, 0, op.results);
        continue;
      }
      for (const ir::Region& x : op.regions) {
        if (op.code == OpCode::call) pass(op.operands, 0, x.args);
        spread(x);
        if (const ir::Op* y = end_of(x)) pass(y->operands, 0, op.results);
      }
      for (const ValueId v : op.results) {
        const ir::Type* t = g_.type(v);
        if (t->is_ref) continue;
        bool any = begins(op, *t);
        for (const ValueId o : op.operands) any = any || (spreads(op) && is_marked(o) && !g_.type(o)->is_ref);
        if (any) mark(v);
      }
    }
  }
  // All that it decides is which numbers come of it: its branches do nothing else, and take about the same time.
  bool chooses_numbers(const ir::Op& op) const {
    return std::all_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) {
      return std::all_of(r.ops.begin(), r.ops.end(), [&](const ir::Op& x) {
        return ir::info(x.code).effects == 0 && x.regions.empty() &&
               std::all_of(x.results.begin(), x.results.end(), [&](ValueId v) { return g_.type(v)->is_scalar(); });
      });
    });
  }
  bool marked_operand(const ir::Op& op, int k) const {
    return k >= 0 && static_cast<size_t>(k) < op.operands.size() && is_marked(op.operands[static_cast<size_t>(k)]);
  }
  bool decides(const ir::Op& op) const {
    switch (op.code) {
      case OpCode::cond: return marked_operand(op, 0) && (trips_count() || !chooses_numbers(op));
      case OpCode::for_:
      case OpCode::parallel_loop:
        return trips_count() && (marked_operand(op, 0) || marked_operand(op, 1) || marked_operand(op, 2));
      case OpCode::while_: {
        if (!trips_count() && counting_test(op, g_)) return false;
        const ir::Op* y = end_of(op.regions[0]);
        return y && !y->operands.empty() && is_marked(y->operands[0]);
      }
      default: break;
    }
    if (!addresses_count()) return false;
    const bool asynchronous = ir::info(op.code).family == ir::Family::Async;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ir::Type* t = g_.type(op.operands[i]);
      if (t->is_ref || !is_marked(op.operands[i])) continue;
      if (asynchronous && (t->is_scalar() || op.code == OpCode::dma_start)) return true;
      if (t->is_scalar() && ir::info(op.code).family == ir::Family::Memory && is_index(op, static_cast<int>(i)))
        return true;
    }
    return false;
  }
  static bool is_index(const ir::Op& op, int k) {
    bool found = false;
    const auto look = [&](int o) { found = found || o == k; };
    for (const ir::View& v : op.view()) ir::for_each_operand(v, look);
    return found;
  }
  const ir::Op* use(const ir::Region& r) const {
    for (const ir::Op& op : r.ops) {
      if (decides(op)) return &op;
      for (const ir::Region& x : op.regions)
        if (const ir::Op* found = use(x)) return found;
    }
    return nullptr;
  }
  std::unordered_set<ValueId> marked_;
};

// Values that are not there where arithmetic on arrays is left out.
class OnValues : public Dependence {
 public:
  using Dependence::Dependence;

 protected:
  void prepare(const ir::Region& r) override {
    for (const ir::Op& op : r.ops) {
      if (const ir::Viewed* to = op.viewed("dst")) filled_.insert(op.operands[static_cast<size_t>(to->operand)]);
      if (op.code == OpCode::store && op.operands.size() > 1 && !g_.type(op.operands[1])->is_scalar())
        filled_.insert(op.operands[0]);
      for (const ir::Region& x : op.regions) prepare(x);
    }
  }
  bool begins(const ir::Op& op, const ir::Type& t) const override {
    if (!t.is_scalar()) return true;
    if ((ir::info(op.code).effects & ir::kEffectRead) == 0 || op.operands.empty()) {
      // Of arrays one number is made.
      return std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        const ir::Type* o = g_.type(v);
        return !o->is_ref && !o->is_scalar();
      });
    }
    if (op.code == OpCode::query_cluster_cancel) return false;
    const ir::Type* ref = g_.type(op.operands[0]);
    return !ref->is_ref || (ref->space != ir::Space::Smem && ref->space != ir::Space::Index) ||
           filled_.contains(op.operands[0]);
  }
  bool addresses_count() const override { return true; }

 private:
  std::set<ValueId> filled_;  // refs that arrays and copies are written to
};

// Places in the grid.
class OnPrograms : public Dependence {
 public:
  using Dependence::Dependence;

 protected:
  bool begins(const ir::Op& op, const ir::Type&) const override {
    return op.code == OpCode::program_id || op.code == OpCode::axis_index;
  }
  bool addresses_count() const override { return false; }
};

// Places in the grid, of which the threads of a program are the same.
class OnPlaces : public OnPrograms {
 public:
  OnPlaces(const ir::Body& b, const ir::Module& m) : OnPrograms(b.graph) {
    for (const ir::Mesh& mesh : m.meshes) {
      if (mesh.name != b.mesh) continue;
      const ir::Attr* grid = ir::find(mesh.attrs, "grid");
      for (size_t i = grid && grid->is_int() ? static_cast<size_t>(grid->i) : 0; i < mesh.axes.size(); ++i)
        within_.insert(mesh.axes[i].name);
    }
  }

 protected:
  bool begins(const ir::Op& op, const ir::Type& t) const override {
    const ir::Attr* axis = op.attr("axis");
    return OnPrograms::begins(op, t) && !(op.code == OpCode::axis_index && axis && within_.contains(axis->s));
  }
  bool trips_count() const override { return false; }

 private:
  std::set<std::string> within_;  // axes of threads and of CTAs of a cluster
};

// Steps of a sequential grid along one of its axes: none does what another one does not.
class OnAxis : public Dependence {
 public:
  OnAxis(const ir::Body& b, const ir::Module& m, int axis, bool addresses)
      : Dependence(b.graph), axis_(axis), addresses_(addresses) {
    for (size_t i = 0; i < m.operands.size() && i < b.graph.region.args.size(); ++i)
      if (m.operands[i].kind == ir::Operand::Kind::Prefetch) prefetched_.insert(b.graph.region.args[i]);
  }

 protected:
  // What memory holds may be another thing at each step, but for what was there from the start.
  bool begins(const ir::Op& op, const ir::Type&) const override {
    if (op.code == OpCode::program_id) {
      const ir::Attr* axis = op.attr("axis");
      return axis && axis->i == axis_;
    }
    if (op.code == OpCode::axis_index || ir::info(op.code).family == ir::Family::Async) return true;
    return (ir::info(op.code).effects & ir::kEffectRead) != 0 && !op.operands.empty() &&
           !prefetched_.contains(op.operands[0]);
  }
  bool addresses_count() const override { return addresses_; }

 private:
  int axis_;
  bool addresses_;
  std::set<ValueId> prefetched_;
};

}  // namespace

// How deep loops lie in each other.
static int loops_within(const ir::Region& r) {
  int deepest = 0;
  for (const ir::Op& op : r.ops) {
    for (const ir::Region& x : op.regions) deepest = std::max(deepest, loops_within(x) + (loops(op) ? 1 : 0));
  }
  return deepest;
}

FoldedAxes folded_axes(const Plan& p, const std::vector<int64_t>& grid) {
  constexpr int64_t kLong = 32;  // shorter ones are run
  if (p.module.bodies.size() != 1 || !p.module.meshes.empty()) return {};
  const ir::Body& b = p.module.bodies[0];
  const auto& windows = p.bodies[0]->windows;
  if (!std::all_of(windows.begin(), windows.end(), [](const Window& w) { return w.map.index.empty() || w.map.affine; }))
    return {};
  const int loops = loops_within(b.graph.region);
  if (loops > 1) return {};
  const auto longest = [&](size_t end, bool addresses) {
    int r = -1;
    for (size_t g = 0; g < end; ++g)
      if (grid[g] >= std::max(kLong, r < 0 ? 0 : grid[static_cast<size_t>(r)]) &&
          !OnAxis(b, p.module, static_cast<int>(g), addresses).find())
        r = static_cast<int>(g);
    return r;
  };
  FoldedAxes r;
  if (loops == 0) r.inner = longest(grid.size(), false);
  // Of what lies around others any number may be left out, so that nothing may go round by its number.
  r.outer = longest(loops == 0 ? static_cast<size_t>(std::max(r.inner, 0)) : grid.size(), true);
  return r;
}

bool control_needs_values(const Plan& p, ir::LocId* where) {
  for (const ir::Body& b : p.module.bodies)
    if (const ir::Op* op = OnValues(b.graph).find()) {
      *where = op->loc;
      return true;
    }
  return false;
}

bool atomics_go_by_lists(const Plan& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) {
    if (s.kind != Kind::atomic) return false;
    const auto& dims = payload<Kind::atomic>(s).ref_dims;
    return std::any_of(dims.begin(), dims.end(), [](const GatherDim& g) { return g.kind == GatherDim::Kind::Array; });
  });
}

bool programs_differ(const Plan& p) {
  return std::any_of(p.module.bodies.begin(), p.module.bodies.end(),
                     [](const ir::Body& b) { return OnPrograms(b.graph).find() != nullptr; });
}

bool programs_branch(const Plan& p) {
  return std::any_of(p.module.bodies.begin(), p.module.bodies.end(),
                     [&](const ir::Body& b) { return OnPlaces(b, p.module).find() != nullptr; });
}

}  // namespace pallasim::interp
