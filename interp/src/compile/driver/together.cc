#include "together.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "../../analysis/access.h"
#include "pallasim/ir/builder.h"

namespace pallasim::interp {
namespace {

using analysis::AffineExpr, analysis::Access, analysis::Symbol;
using ir::Op, ir::OpCode, ir::Value, ir::ValueId;

// Fewer are not worth a plan of their own; of more an array no longer lies in the first-level cache.
constexpr int64_t kFewestLanes = 16, kMostLanes = 4096;

int64_t lanes_of(int64_t points) {
  for (int64_t n = std::min(points, kMostLanes); n >= kFewestLanes; --n)
    if (points % n == 0) return n;
  return 1;
}

// What an access touches: an element per dimension of the whole array, by the grid alone.
struct Place {
  size_t operand = 0;
  Access at;
};

class Finder {
 public:
  explicit Finder(const Plan& p) : p_(p), m_(p.module), graph_(m_.bodies[0].graph), values_of_(graph_, m_.grid) {}

  std::optional<Together> find() {
    const std::vector<Op>& ops = graph_.region.ops;
    if (!std::all_of(ops.begin(), ops.end(), [&](const Op& op) { return understood(op); }) || !choose_axis())
      return std::nullopt;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) find_needed(*op);
    return Together{build(), static_cast<int>(axis_), lanes_};
  }

 private:
  // The one with most lanes.
  bool choose_axis() {
    size_t last = m_.grid.size();  // that has several points
    for (size_t g = 0; g < m_.grid.size(); ++g)
      if (m_.grid[g].size > 1) last = g;
    for (size_t g = 0; g < m_.grid.size(); ++g) {
      const bool any_order = std::find(p_.split.axes.begin(), p_.split.axes.end(), g) != p_.split.axes.end();
      const int64_t lanes = lanes_of(m_.grid[g].size);
      if (lanes > lanes_ && moves(g) && (any_order || (g == last && apart_in_a_row(g)))) lanes_ = lanes, axis_ = g;
    }
    return lanes_ > 1;
  }

  // Whether accesses are to one element, or move in one dimension, and forwards; stores do.
  bool moves(size_t axis) const {
    return std::all_of(places_.begin(), places_.end(), [&](const auto& place) {
      const Access& at = place.second.at;
      const auto moving = std::count_if(at.begin(), at.end(), [&](const auto& e) { return e->along(axis) != 0; });
      return moving <= 1 && (moving == 1 || place.first->code != OpCode::store) &&
             std::all_of(at.begin(), at.end(), [&](const auto& e) { return e->along(axis) >= 0; });
    });
  }

  // Whether points that differ in this coordinate alone touch no element of an output together.
  bool apart_in_a_row(size_t axis) const {
    for (size_t i = 0; i < m_.operands.size(); ++i) {
      if (m_.operands[i].kind != ir::Operand::Kind::Output) continue;
      std::vector<const Access*> all;
      for (const auto& [op, place] : places_)
        if (place.operand == i) all.push_back(&place.at);
      if (!all.empty() && !analysis::disjoint_along(axis, all, /*others_equal=*/true)) return false;
    }
    return true;
  }
  bool understood(const Op& op) {
    switch (op.code) {
      case OpCode::yield: return op.operands.empty();
      case OpCode::program_id:
      case OpCode::num_programs:
      case OpCode::constant: return true;
      case OpCode::get: return find_place(op);
      case OpCode::store: return graph_.type(op.operands[1])->is_scalar() && find_place(op);
      default: break;
    }
    const ir::OpInfo& info = ir::info(op.code);
    return info.family == ir::Family::Elementwise && info.effects == ir::kEffectNone &&
           info.rule != ir::TypeRule::Declared;
  }

  bool find_place(const Op& op) {
    const auto& args = graph_.region.args;
    const auto arg = std::find(args.begin(), args.end(), op.operands[0]);
    Place place{static_cast<size_t>(arg - args.begin()), {}};
    if (place.operand >= m_.operands.size()) return false;
    std::optional<Access> in_block = op.view().empty() ? Access() : analysis::access_of(values_of_, graph_, op);
    if (!in_block || op.view().size() > 1) return false;
    const ir::Operand& o = m_.operands[place.operand];
    size_t next = 0;
    for (size_t d = 0; d < o.array->dims.size(); ++d) {
      const bool squeezed = o.has_block && o.block[d].kind == ir::BlockDim::Kind::Squeezed;
      if (!squeezed && next >= in_block->size()) return false;
      std::optional<AffineExpr> e = squeezed ? AffineExpr(0) : (*in_block)[next++];
      if (!e || !lies_within(*e, extent(place.operand, d)) || !add_block(place.operand, d, &*e)) return false;
      place.at.push_back(std::move(*e));
    }
    if (next != in_block->size()) return false;
    places_[&op] = std::move(place);
    return true;
  }

  const Window& window(size_t operand) const { return p_.first().windows[operand]; }
  int64_t extent(size_t operand, size_t d) const {
    return m_.operands[operand].has_block ? window(operand).map.extent[d] : window(operand).dims[d];
  }

  // One element at each point of the grid.
  bool lies_within(const AffineExpr& e, int64_t size) const {
    const analysis::Interval r = e.range();
    return e.has_only(Symbol::Kind::Axis) && r.least >= 0 && r.greatest < std::min<int64_t>(size, INT32_MAX);
  }

  // From the block's element to the array's.
  bool add_block(size_t operand, size_t d, AffineExpr* e) const {
    if (!m_.operands[operand].has_block) return true;
    const BlockMap& map = window(operand).map;
    const std::optional<AffineExpr> block = analysis::access_of(window(operand), m_.grid)[d];
    if (!block || !map.bounded.empty() || map.pad_lo[d] != 0 || map.pad_hi[d] != 0) return false;
    *e = *e + block->without(Symbol::Kind::Dim);
    return lies_within(*e, window(operand).dims[d]);
  }

  // Where accesses lie is computed anew: values count that reach a store.
  void find_needed(const Op& op) {
    if (op.code == OpCode::store) {
      needed_.insert(op.operands[1]);
    } else if (op.code != OpCode::get &&
               std::any_of(op.results.begin(), op.results.end(), [&](ValueId v) { return needed_.contains(v); })) {
      needed_.insert(op.operands.begin(), op.operands.end());
    }
  }

  ir::Module build() {
    ir::ModuleBuilder mb(m_.name, m_.machine);
    for (size_t g = 0; g < m_.grid.size(); ++g) mb.grid(m_.grid[g].size / (g == axis_ ? lanes_ : 1));
    for (const ir::Operand& o : m_.operands) {
      const ir::Type* array = mb.module().types->intern(*o.array);
      if (o.kind == ir::Operand::Kind::Prefetch) mb.prefetch(o.name, array, o.space);
      else if (o.kind == ir::Operand::Kind::Input) mb.input(o.name, array, o.space);
      else mb.output(o.name, array, o.space);
    }
    mb.body([&](ir::BodyBuilder& b, const ir::Values& refs) {
      for (const Op& op : graph_.region.ops) emit(b, refs, op);
    });
    return mb.finish();
  }

  static Value number(ir::BodyBuilder& b, int64_t n) { return b.constant(ir::DType::I32, static_cast<double>(n)); }

  // The scalar at the first one of a point's lanes.
  ir::Index first(ir::BodyBuilder& b, const AffineExpr& e) const {
    std::optional<Value> sum;
    for (size_t g = 0; g < m_.grid.size(); ++g) {
      const int64_t step = e.along(g) * (g == axis_ ? lanes_ : 1);
      if (step == 0 || m_.grid[g].size == (g == axis_ ? lanes_ : 1)) continue;
      const Value id = b.program_id(static_cast<int>(g));
      const Value term = step == 1 ? id : b.mul(id, number(b, step));
      sum = sum ? b.add(*sum, term) : term;
    }
    if (!sum) return e.constant;
    if (e.constant == 0) return *sum;
    return b.add(*sum, number(b, e.constant));
  }

  std::vector<ir::Index> indices(ir::BodyBuilder& b, const Place& p) const {
    std::vector<ir::Index> r;
    for (const auto& e : p.at) {
      const ir::Index at = first(b, *e);
      if (e->along(axis_) == 0) r.push_back(at);
      else if (at.value) r.push_back(ir::slice(*at.value, lanes_, e->along(axis_)));
      else r.push_back(ir::slice(at.attr.i, lanes_, e->along(axis_)));
    }
    return r;
  }

  void emit(ir::BodyBuilder& b, const ir::Values& refs, const Op& op) {
    if (op.code == OpCode::store) {
      const Place& p = places_[&op];
      Value v = values_[op.operands[1]];
      if (v.type->dims.empty()) v = b.broadcast(v, {lanes_}, {});
      return b.store(refs[p.operand], v, indices(b, p));
    }
    if (op.results.empty() || !needed_.contains(op.results[0])) return;
    values_[op.results[0]] = value(b, refs, op);
  }

  Value value(ir::BodyBuilder& b, const ir::Values& refs, const Op& op) {
    const auto axis = [&] { return static_cast<size_t>(op.attr("axis")->i); };
    if (op.code == OpCode::get) {
      const Place& p = places_[&op];
      return b.get(refs[p.operand], indices(b, p));
    }
    if (op.code == OpCode::num_programs && axis() == axis_) return number(b, m_.grid[axis_].size);
    if (op.code == OpCode::program_id && axis() == axis_) {
      const Value begin = b.mul(b.program_id(static_cast<int>(axis_)), number(b, lanes_));
      return b.add(b.iota(ir::DType::I32, {lanes_}, 0), begin);
    }
    ir::Values operands;
    bool lanes = false;
    for (const ValueId v : op.operands) {
      operands.push_back(values_[v]);
      lanes = lanes || !operands.back().type->dims.empty();
    }
    const std::vector<ir::Dim> dims = lanes ? std::vector<ir::Dim>{lanes_} : std::vector<ir::Dim>{};
    return b.op(op.code, operands, b.tensor(graph_.type(op.results[0])->dtype, dims), op.attrs);
  }

  const Plan& p_;
  const ir::Module& m_;
  const ir::Graph& graph_;
  const analysis::Expressions values_of_;
  size_t axis_ = 0;
  int64_t lanes_ = 1;
  std::unordered_map<const Op*, Place> places_;
  std::unordered_set<ValueId> needed_;
  std::unordered_map<ValueId, Value> values_;  // of the module that is built
};

bool has_own_type(const ir::Attr& a) {
  return a.type != nullptr || std::any_of(a.items.begin(), a.items.end(), has_own_type);
}

// Attributes are taken as they are: they may not name types of the module that they come from.
bool names_types(const ir::Region& r) {
  return std::any_of(r.ops.begin(), r.ops.end(), [](const Op& op) {
    return std::any_of(op.attrs.begin(), op.attrs.end(), [](const auto& a) { return has_own_type(a.second); });
  });
}

// Scalars that are stored somewhere, and nothing else.
bool has_scalars_alone(const ir::Graph& graph) {
  const std::vector<Op>& ops = graph.region.ops;
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.code == OpCode::store; }) &&
         std::all_of(ops.begin(), ops.end(), [&](const Op& op) {
           return op.regions.empty() && std::all_of(op.results.begin(), op.results.end(), [&](ValueId v) {
                    return graph.type(v)->is_scalar() && !ir::is_sync(graph.type(v)->dtype);
                  });
         });
}

bool is_plain(const Plan& p) {
  const ir::Module& m = p.module;
  const auto plain_axis = [](const ir::GridAxis& g) { return g.dynamic < 0 && !g.vmapped && g.size < INT32_MAX; };
  const auto plain_operand = [](const ir::Operand& o) { return !ir::is_sync(o.array->dtype); };
  // What nobody wrote of a copy goes to the array with the rest.
  const auto plain_window = [](const Window& w) { return !w.is_output || !w.stage(); };
  return p.options.rewrites() && !p.given && p.options.out_of_bounds == Options::Oob::Error && p.threads.count == 1 &&
         !p.first().modelled && p.first().core_arrays.empty() && m.bodies.size() == 1 && m.meshes.empty() &&
         m.scratch.empty() && m.aliases.empty() && p.memory.own_inputs.empty() &&
         std::all_of(m.grid.begin(), m.grid.end(), plain_axis) &&
         std::all_of(m.operands.begin(), m.operands.end(), plain_operand) &&
         std::all_of(p.first().windows.begin(), p.first().windows.end(), plain_window) &&
         has_scalars_alone(m.bodies[0].graph) && !names_types(m.bodies[0].graph.region);
}

}  // namespace

std::optional<Together> points_together(const Plan& p) { return is_plain(p) ? Finder(p).find() : std::nullopt; }

}  // namespace pallasim::interp
