#include "step_costs.h"

#include "folds.h"

#include "../plan/kinds.h"
#include "../plan/steps.h"

#include <algorithm>

#include "pallasim/ir/diagnostic.h"

namespace pallasim::interp {
namespace {

using ir::OpCode;

bool has_product(const ir::Region& r) {
  return std::any_of(r.ops.begin(), r.ops.end(), [](const ir::Op& op) {
    return op.code == OpCode::dot_general ||
           std::any_of(op.regions.begin(), op.regions.end(), [](const ir::Region& x) { return has_product(x); });
  });
}

// What lies side by side in a tile of shared memory: its last dimension, in bytes; 0: it has no tiles.
double tile_row(const ir::Op& op, const ir::Graph& g) {
  double r = 0;
  for (const char* side : {"src", "dst"}) {
    const ir::Viewed* v = op.viewed(side);
    if (!v) continue;
    const ir::Type* t = g.type(op.operands[static_cast<size_t>(v->operand)]);
    for (const ir::View& part : v->transforms)
      if (const auto* tile = std::get_if<ir::view::Tile>(&part); tile && tile->inverse && !tile->tiling.empty())
        r = static_cast<double>(tile->tiling.back()) * ir::bit_width(t->dtype) / 8;
  }
  return r;
}

class SameValues {
 public:
  explicit SameValues(const ir::Graph& g) : g_(g) {
    look(g.region);
    find(g.region);
  }
  std::unordered_map<ir::ValueId, ir::ValueId> same;

 private:
  void look(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      for (const ir::ValueId v : op.operands) (op.code == OpCode::dot_general ? multiplied_ : others_).insert(v);
      for (const ir::Region& x : op.regions) look(x);
    }
  }
  static bool is_one(const ir::Op& op) {
    const ir::Attr* a = op.attr("value");
    if (!a || a->kind != ir::Attr::Kind::Bits) return false;
    switch (a->dtype) {
      case ir::DType::F32: return a->i == 0x3f800000;
      case ir::DType::BF16: return a->i == 0x3f80;
      case ir::DType::F16: return a->i == 0x3c00;
      default: return false;
    }
  }
  ir::ValueId first(ir::ValueId v) const {
    const auto it = same.find(v);
    return it == same.end() ? v : it->second;
  }
  void find(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      if (op.code == OpCode::constant && is_one(op)) ones_.insert(op.results[0]);
      if (op.code == OpCode::broadcast_in_dim && ones_.contains(op.operands[0])) ones_.insert(op.results[0]);
      if (op.code == OpCode::get || op.code == OpCode::masked_load) loaded_.insert(op.results[0]);
      if (op.code == OpCode::mul)
        for (const size_t i : {0, 1})
          if (ones_.contains(op.operands[i]) && !g_.type(op.results[0])->is_scalar())
            same.emplace(op.results[0], first(op.operands[1 - i]));
      const bool operand =
          op.code == OpCode::transpose && multiplied_.contains(op.results[0]) && !others_.contains(op.results[0]);
      if (operand && loaded_.contains(first(op.operands[0]))) same.emplace(op.results[0], first(op.operands[0]));
      for (const ir::Region& x : op.regions) find(x);
    }
  }
  const ir::Graph& g_;
  std::unordered_set<ir::ValueId> ones_, loaded_, multiplied_, others_;  // the last two: used by products, by others
};

// Whether one of the values is an index of an access.
bool indexed_by(const ir::Op& op, const std::unordered_set<ir::ValueId>& values) {
  bool found = false;
  for (const ir::View& v : op.view())
    ir::for_each_operand(v, [&](int o) { found = found || values.contains(op.operands[static_cast<size_t>(o)]); });
  return found;
}

// Operations that do nothing but to make values that nobody uses: compilers leave them out. `used`: behind the region.
void find_unused(const ir::Region& r, std::unordered_set<ir::ValueId>* used,
                 std::unordered_set<const ir::Op*>* unused) {
  for (size_t i = r.ops.size(); i-- > 0;) {
    const ir::Op& op = r.ops[i];
    const bool acts = (ir::info(op.code).effects & ~ir::kEffectRead) != 0 || !op.regions.empty() || op.results.empty();
    if (!acts && std::none_of(op.results.begin(), op.results.end(), [&](ir::ValueId v) { return used->contains(v); })) {
      unused->insert(&op);
      continue;
    }
    for (const ir::Region& x : op.regions) find_unused(x, used, unused);
    used->insert(op.operands.begin(), op.operands.end());
  }
}

bool is_loop(const ir::Op& op) { return op.code == OpCode::for_ || op.code == OpCode::parallel_loop; }

}  // namespace

std::unordered_map<ir::ValueId, ir::ValueId> same_values(const ir::Graph& g) { return SameValues(g).same; }

static bool loads_by_indices(const Step& s) { return s.kind == Kind::gather || s.kind == Kind::load_in_place; }

StepCosts::StepCosts(const Plan& p, const hw::CostModel& model, bool transfers, bool fetches_ahead)
    : plan_(p), model_(model), transfers_(transfers), fetches_ahead_(fetches_ahead) {
  all_.resize(p.steps.size());
  for (const ir::Body& b : p.module.bodies) named_ = std::max(named_, b.graph.types.size());
  for (const Step& s : p.steps)
    for (const ir::Op* op : p.ops_of(s)) {
      const auto it = first_.emplace(op, static_cast<size_t>(s.id)).first;
      // A masked load has made a value of what it takes elsewhere by then, which says nothing of where it reads.
      if (loads_by_indices(s) && p.steps[it->second].kind == Kind::elementwise) it->second = static_cast<size_t>(s.id);
    }
  for (const Step& s : p.steps) {
    StepCost& c = all_[static_cast<size_t>(s.id)];
    c.line = line_of(p.loc_of(s));
    const auto ops = p.ops_of(s);
    c.closes = row(s).flow != Flow::Next;
    if (ops.empty()) continue;
    if (s.kind == Kind::loop_begin) c.loop_begin = ops.back(), c.empty = false;
    if (s.kind == Kind::loop_next) c.loop_next = ops.back(), c.empty = false;
    for (const bool wide : {false, true})
      if (s.form == &p.functions->move_slot(wide ? 8 : 4)) {
        std::vector<Carried>& all = carried_[ops.back()];
        if (std::none_of(all.begin(), all.end(), [&](const Carried& x) { return x.slot == s.dst; }))
          all.push_back({s.dst, wide});
      }
  }
  for (const ir::Body& b : p.module.bodies) {
    loaded_.clear();
    from_memory_.clear();
    products_.clear();
    multiplied_.clear();
    same_ = transfers ? same_values(b.graph) : std::unordered_map<ir::ValueId, ir::ValueId>{};
    find_counting(b.graph.region, b.graph);
    ahead_.clear();
    std::unordered_set<ir::ValueId> used;
    find_unused(b.graph.region, &used, &unused_);
    walk(b.graph.region, {&b.graph, nullptr, false, false});
  }
  for (const Step& s : p.steps)
    for (const ir::Op* op : p.ops_of(s))
      if (const auto it = rows_.find(op); it != rows_.end())
        all_[static_cast<size_t>(s.id)].row_bytes = std::max(all_[static_cast<size_t>(s.id)].row_bytes, it->second);
}

void StepCosts::find_counting(const ir::Region& r, const ir::Graph& g) {
  for (const ir::Op& op : r.ops) {
    if (const ir::Op* test = counting_test(op, g)) {
      const auto it = first_.find(test);
      const Step* s = it == first_.end() ? nullptr : &plan_.steps[it->second];
      if (s && s->kind == Kind::scalar && plan_.ops_of(*s).size() == 1) {
        all_[it->second].counts = &op, all_[it->second].empty = false;
        counted_.insert(&op);
      }
    }
    for (const ir::Region& x : op.regions) find_counting(x, g);
  }
}

int StepCosts::line_of(ir::LocId loc) {
  if (loc < 0) return 0;
  const ir::SourceLine& at = plan_.module.locs[static_cast<size_t>(loc)].source;
  const auto [it, fresh] =
      line_numbers_.emplace(at.file + ":" + std::to_string(at.line), static_cast<int>(lines_.size()));
  if (fresh) lines_.push_back(loc);
  return it->second;
}

void StepCosts::walk(const ir::Region& r, const Scope& scope) {
  std::vector<const ir::Op*> waiting;
  size_t last = SIZE_MAX;
  for (const ir::Op& op : r.ops) {
    const auto it = first_.find(&op);
    if (it == first_.end()) {
      waiting.push_back(&op);
    } else {
      last = it->second;
      for (const ir::Op* w : waiting) attach(*w, scope, last);
      waiting.clear();
      attach(op, scope, last);
    }
    Scope inner = scope;
    if (is_loop(op) || counted_.contains(&op)) {
      inner.loop = &op;
      inner.products = std::any_of(op.regions.begin(), op.regions.end(), has_product);
      inner.ahead = fetches_ahead_ && inner.products;
      if (inner.ahead && !inner.nest) inner.nest = &op;
    } else if (op.code == OpCode::while_) {
      inner.loop = nullptr;
      inner.ahead = inner.products = false;
    }
    for (const ir::Region& x : op.regions) walk(x, inner);
  }
  if (last == SIZE_MAX) return;
  for (const ir::Op* w : waiting) attach(*w, scope, last);
}

double StepCosts::shared_bytes(int64_t stages, bool operands) const {
  double most = 0;
  for (const auto& [loop, nest] : nests_) {
    double bytes = nest.ahead * static_cast<double>(std::max<int64_t>(stages, 1));
    for (const auto& [value, held] : nest.operands) bytes += operands ? held : 0;
    most = std::max(most, bytes);
  }
  return most;
}

// Bytes of a load that lie side by side: its last dimension, and those before it as long as all of the array's is
// taken.
double StepCosts::row_of(const ir::Type& loaded, int operand) const {
  if (loaded.dims.size() < 2) return 0;
  const ir::Type* array = operand < 0 ? nullptr : plan_.module.operands[static_cast<size_t>(operand)].array;
  double row = ir::bit_width(loaded.dtype) / 8.0;
  for (size_t i = 1; i <= loaded.dims.size(); ++i) {
    const int64_t size = loaded.dims[loaded.dims.size() - i].size;
    row *= static_cast<double>(size);
    if (!array || i > array->dims.size() || array->dims[array->dims.size() - i].size != size) break;
  }
  return row;
}

void StepCosts::attach(const ir::Op& op, const Scope& scope, size_t step) {
  StepCost& c = all_[step];
  attached_.emplace(&op, step);
  if (unused_.contains(&op) || (!op.results.empty() && same_.contains(op.results[0]))) return;
  const bool reads = (ir::info(op.code).effects & ir::kEffectRead) != 0,
             follows = std::any_of(op.operands.begin(), op.operands.end(),
                                   [&](ir::ValueId v) { return from_memory_.contains(v); });
  if (reads || follows) from_memory_.insert(op.results.begin(), op.results.end());
  if ((ir::info(op.code).effects & ir::kEffectAtomic) != 0) {
    if (indexed_by(op, from_memory_)) scattered_.insert(&op);
    side_by_side_[&op] = model_.side_by_side(op, *scope.graph);
  }
  const auto first = [&](ir::ValueId v) {
    const auto it = same_.find(v);
    return it == same_.end() ? v : it->second;
  };
  if (const hw::Work w = model_.rearranged(op, *scope.graph); w.total() > 0) c.work += w, c.empty = false;
  // A tensor core adds a product to what is there.
  const auto is_product = [&](ir::ValueId v) { return products_.contains(first(v)); };
  if (op.code == OpCode::dot_general) products_.insert(op.results[0]);
  const auto is_spread = [&](ir::ValueId v) { return model_.spread(v, *scope.graph); };
  if (transfers_ && op.code == OpCode::add && std::any_of(op.operands.begin(), op.operands.end(), is_product) &&
      std::none_of(op.operands.begin(), op.operands.end(), is_spread))
    return;
  for (const ir::ValueId v : op.operands)
    if (loaded_.contains(first(v))) c.uses.push_back(first(v)), c.empty = false;
  if ((ir::info(op.code).effects & ir::kEffectAsync) != 0) rows_[&op] = tile_row(op, *scope.graph);
  hw::Work w = model_.of(op, *scope.graph);
  if (transfers_ && op.code == OpCode::dot_general) {
    std::vector<ir::ValueId> held = op.operands;
    if (const ir::ValueId v = model_.fetched_by(op); v >= 0) held.push_back(v);
    for (const ir::ValueId v : held)
      if (loaded_.contains(first(v)) && !ahead_.contains(first(v)))
        nests_[scope.nest].operands[first(v)] = static_cast<double>(scope.graph->type(v)->num_bytes());
  }
  if (transfers_ && !fetches_ahead_ && op.code == OpCode::dot_general) {
    double bytes = 0;
    for (const ir::ValueId v : op.operands)
      if (loaded_.contains(first(v))) bytes += static_cast<double>(scope.graph->type(v)->num_bytes());
    if (bytes > 0) w += model_.staged(bytes);
  }
  if (transfers_ && w.bytes > 0) {
    StepLoad l{&op, w.writes || op.results.empty() ? -1 : op.results[0], w.bytes, w.writes, nullptr, -1};
    if (l.value >= 0) loaded_[l.value] = true;
    const auto& args = scope.graph->region.args;
    const auto arg = std::find(args.begin(), args.end(), op.operands.empty() ? -1 : op.operands[0]) - args.begin();
    if (arg < static_cast<std::ptrdiff_t>(plan_.module.operands.size())) l.operand = static_cast<int>(arg);
    if (l.value >= 0) l.row = row_of(*scope.graph->type(l.value), l.operand);
    if (scope.ahead && l.value >= 0) {
      l.loop = scope.loop;
      nests_[scope.nest].ahead += w.bytes;
      ahead_.insert(l.value);
    }
    if (scope.products && l.value >= 0) (l.row >= l.bytes ? boxes_ : apart_bytes_) += l.row >= l.bytes ? 1 : l.bytes;
    c.loads.push_back(l);
    c.empty = false;
  }
  // A multiplication and the addition behind it are one instruction.
  if (!op.results.empty() && op.code == OpCode::mul) multiplied_.insert(op.results[0]);
  const bool adds = op.code == OpCode::add || op.code == OpCode::sub;
  if (adds &&
      std::any_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) { return multiplied_.contains(v); }))
    for (double& busy : w.busy) busy *= model_.behind_a_product;
  if (model_.overlap == hw::Overlap::Packed && op.regions.empty()) {
    StepPart p = part_of(op, *scope.graph, w);
    if (w.total() > 0 || w.latency > 0 || (!p.from.empty() && !p.to.empty())) c.parts.push_back(std::move(p));
  }
  if (w.total() > 0 || w.flops > 0 || w.latency > 0 || !c.parts.empty()) c.empty = false;
  c.work += w;
}

// What operations see of memory by the same name is the same; of what they name differently nobody knows that.
int32_t StepCosts::place_of(const ir::Op& op) {
  std::string name = std::to_string(op.operands[0]);
  for (const ir::View& v : op.view()) {
    name += " " + ir::to_string(v);
    ir::for_each_operand(v, [&](int o) { name += " $" + std::to_string(op.operands[static_cast<size_t>(o)]); });
  }
  const auto [it, fresh] = places_.emplace(std::move(name), static_cast<int32_t>(named_));
  if (fresh) ++named_;
  return it->second;
}

StepPart StepCosts::part_of(const ir::Op& op, const ir::Graph& g, const hw::Work& w) {
  StepPart p{w, {}, {}};
  const bool memory = !op.operands.empty() && g.type(op.operands[0])->is_ref;
  const auto effects = ir::info(op.code).effects;
  for (const ir::ValueId v : op.operands)
    if (!g.type(v)->is_ref && !g.type(v)->is_scalar()) p.from.push_back(v);
  for (const ir::ValueId v : op.results) p.to.push_back(v);
  if (memory && (effects & (ir::kEffectRead | ir::kEffectWrite)) != 0) {
    const int32_t place = place_of(op);
    if ((effects & ir::kEffectRead) != 0) p.from.push_back(place);
    if ((effects & ir::kEffectWrite) != 0) p.to.push_back(place);
  }
  return p;
}

void StepCosts::add(const ir::Op& op, hw::Unit unit, double seconds) {
  const auto it = attached_.find(&op);
  if (it == attached_.end()) return;
  all_[it->second].work.busy[static_cast<size_t>(unit)] += seconds;
  all_[it->second].empty = false;
}

void StepCosts::wait(const ir::Op& op, double seconds) {
  if (const auto it = attached_.find(&op); it != attached_.end()) all_[it->second].work.latency += seconds;
}

}  // namespace pallasim::interp
