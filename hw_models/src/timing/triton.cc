#include "triton.h"

#include <algorithm>
#include <bit>

namespace pallasim::hw {
namespace {

constexpr int64_t kLanes = 32, kRowsOfAWarp = 16;

int steps_of(int64_t lanes) { return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(lanes, 1))) - 1; }

// Whether a product multiplies what another one made (attention). A region's values, and those of regions around it.
bool chained(const ir::Region& r, std::unordered_set<ir::ValueId>* made) {
  for (const ir::Op& op : r.ops) {
    const auto is_made = [&](ir::ValueId v) { return made->contains(v); };
    const bool product = op.code == ir::OpCode::dot_general,
               follows = std::any_of(op.operands.begin(), op.operands.end(), is_made);
    if (product && follows) return true;
    if (product || (follows && op.regions.empty())) made->insert(op.results.begin(), op.results.end());
    for (const ir::Region& inner : op.regions)
      if (chained(inner, made)) return true;
  }
  return false;
}

// Products of a loop's body that are added to what it carries, and to nothing else: nobody waits for them in their
// trip.
void find_added(const ir::Region& body, std::unordered_set<const ir::Op*>* found) {
  std::unordered_map<ir::ValueId, int> uses;
  for (const ir::Op& op : body.ops)
    for (const ir::ValueId v : op.operands) ++uses[v];
  if (body.ops.empty()) return;
  const std::vector<ir::ValueId>& next = body.ops.back().operands;
  const auto carried = [&](ir::ValueId v) {
    return std::find(body.args.begin(), body.args.end(), v) != body.args.end();
  };
  const auto goes_on = [&](ir::ValueId v) {
    return uses[v] == 1 && std::find(next.begin(), next.end(), v) != next.end();
  };
  for (const ir::Op& add : body.ops) {
    if (add.code != ir::OpCode::add || !goes_on(add.results[0])) continue;
    for (const size_t i : {0, 1})
      for (const ir::Op& op : body.ops)
        if (op.code == ir::OpCode::dot_general && op.results[0] == add.operands[i] && uses[op.results[0]] == 1 &&
            carried(add.operands[1 - i]))
          found->insert(&op);
  }
}

// Those whose sum with something goes to the next trip and nowhere else, whatever that something is: they are under way
// while the next trip's first product is.
bool ends_trip(const ir::Op& product, const ir::Region& body) {
  const auto users = [&](ir::ValueId v) {
    std::vector<const ir::Op*> all;
    for (const ir::Op& op : body.ops)
      if (std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end()) all.push_back(&op);
    return all;
  };
  const std::vector<const ir::Op*> adds = users(product.results[0]);
  if (adds.size() != 1 || adds[0]->code != ir::OpCode::add) return false;
  const std::vector<const ir::Op*> next = users(adds[0]->results[0]);
  return next.size() == 1 && next[0] == &body.ops.back();
}

bool multiplies_by_warpgroup(ir::DType t) {
  return ir::bit_width(t) == 16 || ir::bit_width(t) == 8 || t == ir::DType::F32;
}

}  // namespace

TritonLayouts::TritonLayouts(const ir::Module& m, int64_t warps, bool wgmma)
    : warps_(std::max<int64_t>(warps, 1)), wgmma_(wgmma) {
  for (const ir::Body& b : m.bodies) {
    std::unordered_set<ir::ValueId> made;
    chained_ = chained_ || chained(b.graph.region, &made);
    look(b.graph.region, b.graph);
  }
  repeats_ = chained_ && first_ && warps_of(*first_).rows == warps_;
}

// What is computed with a product keeps its layout, what a loop carries too.
void TritonLayouts::look(const ir::Region& r, const ir::Graph& g) {
  std::unordered_set<ir::ValueId>& all = products_[&g];
  for (const ir::Op& op : r.ops) {
    for (const ir::Region& inner : op.regions) {
      look(inner, g);
      if (op.code != ir::OpCode::for_ && op.code != ir::OpCode::while_) continue;
      find_added(inner, &added_);
      count_in_flight(inner, g);
    }
    if (op.code == ir::OpCode::dot_general) find_left(op, g);
    if (op.code == ir::OpCode::dot_general && !first_) first_ = product_shape(op, g);
    const bool of_product =
        op.code == ir::OpCode::dot_general ||
        std::any_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) { return all.contains(v); });
    if (of_product) all.insert(op.results.begin(), op.results.end());
    if (std::unordered_set<ir::ValueId>& turned = turned_[&g];
        op.code == ir::OpCode::transpose ||
        (op.code != ir::OpCode::dot_general && op.regions.empty() &&
         std::any_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) { return turned.contains(v); })))
      turned.insert(op.results.begin(), op.results.end());
    if (op.code == ir::OpCode::broadcast_in_dim) follow_broadcast(op, g);
    if (op.code == ir::OpCode::div) find_divisors(op, g, r);
    follow_row(op, g, r, of_product);
    follow_load(op, g, of_product);
  }
}

void TritonLayouts::follow_load(const ir::Op& op, const ir::Graph& g, bool of_product) {
  if (op.results.size() != 1) return;
  const ir::Type* t = g.type(op.results[0]);
  const bool tile = !t->is_ref && t->dims.size() >= 2 &&
                    std::none_of(t->dims.end() - 2, t->dims.end(), [](const ir::Dim& d) { return d.size == 1; });
  if (!tile) return;
  auto& loaded = loaded_[&g];
  if (op.code == ir::OpCode::get || op.code == ir::OpCode::masked_load) {
    loaded[op.results[0]] = ir::bit_width(t->dtype);
    origins_[&g][op.results[0]] = op.results[0];
  }
  if (ir::info(op.code).family != ir::Family::Elementwise) return;
  int bits = 0;
  for (const ir::ValueId v : op.operands)
    if (const auto it = loaded.find(v); it != loaded.end()) {
      bits = std::max(bits, it->second);
      if (const auto origin = origins_[&g].find(v); origin != origins_[&g].end())
        origins_[&g].emplace(op.results[0], origin->second);
    }
  if (bits == 0) return;
  if (of_product) moved_[&op] = bits;
  else loaded[op.results[0]] = op.code == ir::OpCode::convert ? bits : ir::bit_width(t->dtype);
}

void TritonLayouts::follow_broadcast(const ir::Op& op, const ir::Graph& g) {
  auto& spread = spread_[&g];
  const ir::Type& x = *g.type(op.operands[0]);
  const auto to = [&](int64_t axis) { return op.attr("dims")->items[static_cast<size_t>(axis)].i; };
  if (const auto it = spread.find(op.operands[0]); it != spread.end()) {
    spread.emplace(op.results[0], Spread{it->second.from, x.is_scalar() ? 0 : to(it->second.axis)});
    return;
  }
  int64_t axis = 0, longer = 0;
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (x.dims[d].size != 1) axis = static_cast<int64_t>(d), ++longer;
  if (longer <= 1 && x.num_elements() <= g.type(op.results[0])->num_elements())
    spread.emplace(op.results[0], Spread{op.operands[0], x.dims.empty() ? 0 : to(axis)});
}

void TritonLayouts::follow_row(const ir::Op& op, const ir::Graph& g, const ir::Region& around, bool of_product) {
  if (op.results.size() != 1) return;
  const ir::Type* t = g.type(op.results[0]);
  auto& rows = rows_[&g];
  const auto longer = std::count_if(t->dims.begin(), t->dims.end(), [](const ir::Dim& d) { return d.size != 1; });
  if ((op.code == ir::OpCode::get || op.code == ir::OpCode::masked_load) && !t->is_ref && longer == 1) {
    rows[op.results[0]] = &op;
    return;
  }
  const bool same = op.code == ir::OpCode::broadcast_in_dim || op.code == ir::OpCode::reshape ||
                    ir::info(op.code).family == ir::Family::Elementwise;
  for (const ir::ValueId v : op.operands) {
    const auto it = rows.find(v);
    if (it == rows.end() || !same) continue;
    if (!of_product) {
      rows.emplace(op.results[0], it->second);
      continue;
    }
    const bool here =
        std::any_of(around.ops.begin(), around.ops.end(), [&](const ir::Op& o) { return &o == it->second; });
    if (here && fetched_rows_.insert(it->second).second)
      moved_rows_[&op] += g.type(it->second->results[0])->num_elements();
  }
}

void TritonLayouts::find_divisors(const ir::Op& division, const ir::Graph& g, const ir::Region& around) {
  const auto it = spread_[&g].find(division.operands[1]);
  const ir::Type* t = g.type(division.results[0]);
  if (it == spread_[&g].end() || !ir::is_float(t->dtype)) return;
  const auto [from, axis] = it->second;
  bool here = std::find(around.args.begin(), around.args.end(), from) != around.args.end();
  for (const ir::Op& op : around.ops)
    here = here || std::find(op.results.begin(), op.results.end(), from) != op.results.end();
  const bool by_rows = axis == 0;
  double alike = 1;  // elements of a lane with one divisor
  if (t->dims.size() == 2 && is_of_a_product(division.operands[0], g)) {
    ProductShape shape = first_.value_or(ProductShape{});
    shape.m = t->dims[0].size, shape.n = t->dims[1].size;
    const Warps w = warps_of(shape);
    alike = by_rows ? static_cast<double>(shape.n) / 4 / static_cast<double>(w.columns)
                    : static_cast<double>(shape.m) / 8 / static_cast<double>(w.rows);
  } else {
    const auto beside = static_cast<double>(side_by_side(*t, false));
    alike = by_rows ? beside : static_cast<double>(t->num_elements()) / static_cast<double>(kLanes * warps_) / beside;
  }
  divisors_[&division] = here && !g.type(from)->is_scalar() ? 1 / std::max(alike, 1.0) : 0;
}

// Triton's compiler has the left operand of a warpgroup's product in registers where arithmetic made it; what was
// loaded before the loop stays in shared memory between its products.
void TritonLayouts::find_left(const ir::Op& product, const ir::Graph& g) {
  const ir::ValueId v = product.operands[0];
  if (!by_warpgroups(product_shape(product, g)) || turned_[&g].contains(v)) return;
  const ir::Attr* along = product.attr("lhs_contract");
  const auto last = static_cast<int64_t>(g.type(v)->dims.size()) - 1;
  if (!along || along->items.size() != 1 || along->items[0].i != last) return;
  if (products_[&g].contains(v)) left_[&product] = Left::Registers;
  else if (const auto it = origins_[&g].find(v); it != origins_[&g].end() && it->second != v)
    left_[&product] = Left::Fetched, fetched_[&product] = it->second;
}

// Registers of a lane for the results of products that are under way at a time, and for their left operands.
void TritonLayouts::count_in_flight(const ir::Region& body, const ir::Graph& g) {
  double ending = 0, others = 0;
  for (const ir::Op& op : body.ops) {
    if (op.code != ir::OpCode::dot_general || !by_warpgroups(product_shape(op, g))) continue;
    double bits =
        static_cast<double>(g.type(op.results[0])->num_elements()) * ir::bit_width(g.type(op.results[0])->dtype);
    if (const ir::Type* left = g.type(op.operands[0]); left_of(op) != Left::Shared)
      bits += static_cast<double>(left->num_elements()) * ir::bit_width(left->dtype);
    const double registers = bits / 32 / static_cast<double>(kLanes * warps_);
    if (ends_trip(op, body)) ending += registers;
    else others = std::max(others, registers);
  }
  in_flight_ = std::max(in_flight_, ending + others);
}

bool TritonLayouts::by_warpgroups(const ProductShape& s) const {
  return wgmma_ && warps_ % 4 == 0 && s.m % 64 == 0 && s.n % 8 == 0 && multiplies_by_warpgroup(s.dtype) && !s.highest;
}

// Triton's AccelerateMatmul.cpp, warpsPerTileV2 and V3: all along the rows of warpgroups' products; of a chain of
// products all along the longer side; else a warp's operands take as few registers as can be.
TritonLayouts::Warps TritonLayouts::warps_of(const ProductShape& s) const {
  if (by_warpgroups(s)) return {warps_, 1};
  if (chained_) {
    const ProductShape& of = first_ ? *first_ : s;
    return of.m >= of.n ? Warps{warps_, 1} : Warps{1, warps_};
  }
  int64_t rows = std::max<int64_t>(1, (s.m + 15) / 16), columns = std::max<int64_t>(1, (s.n + 7) / 8);
  Warps w;
  while (w.rows * w.columns < warps_) {
    if (rows >= columns) {
      w.rows *= 2;
      rows = std::max<int64_t>(1, rows / 2);
    } else {
      w.columns *= 2;
      columns /= 2;
    }
  }
  return w;
}

// Four lanes have a row of a product's result, eight a column.
TritonLayouts::Reduction TritonLayouts::of_product(const ir::Type& t, bool along_rows) const {
  ProductShape shape = first_.value_or(ProductShape{});
  shape.m = t.dims[0].size, shape.n = t.dims[1].size;
  const Warps w = warps_of(shape);
  const auto per = [](int64_t n, int64_t lanes) { return std::max<int64_t>(1, (n + lanes - 1) / lanes); };
  if (along_rows) return {per(std::max(t.dims[0].size / w.rows, kRowsOfAWarp), 8), 2, w.columns};
  return {per(t.dims[1].size / w.columns, 4), 3, w.rows};
}

int64_t TritonLayouts::side_by_side(const ir::Type& t, bool of_a_product) const {
  if (of_a_product) return 2;
  return std::clamp<int64_t>(128 / std::max(8, ir::bit_width(t.dtype)), 1,
                             std::max<int64_t>(1, t.num_elements() / (kLanes * warps_)));
}

bool TritonLayouts::is_of_a_product(ir::ValueId v, const ir::Graph& g) const {
  const auto it = products_.find(&g);
  return it != products_.end() && it->second.contains(v);
}

// Lanes, then warps, lie along the last dimension as far as it reaches, with up to 16 bytes each. `last`: it is
// reduced; `others`: so are all others.
TritonLayouts::Reduction TritonLayouts::of_block(const ir::Type& t, bool last, bool others) const {
  if (last && others) return {1, steps_of(kLanes), warps_};
  const int64_t columns = t.dims.back().size, all = t.num_elements(), rows = std::max<int64_t>(1, all / columns);
  const int64_t per_lane = side_by_side(t, false);
  const int64_t lanes = std::clamp<int64_t>(columns / per_lane, 1, kLanes),
                warps = std::clamp<int64_t>(columns / (per_lane * lanes), 1, warps_);
  const int64_t row_lanes = kLanes / lanes, row_warps = std::max<int64_t>(1, warps_ / warps);
  if (last) return {std::max<int64_t>(1, rows / (row_lanes * row_warps)), steps_of(lanes), warps};
  return {std::max<int64_t>(1, columns / (lanes * warps)), steps_of(row_lanes), row_warps};
}

std::optional<TritonLayouts::Reduction> TritonLayouts::reduction(const ir::Op& op, const ir::Graph& g) const {
  const ir::Type* t = operand_type(op, g, 0);
  const ir::Attr* axes = op.attr("axes");
  if (!t || t->dims.empty() || !axes || axes->items.empty()) return {};
  const auto rank = static_cast<int64_t>(t->dims.size());
  const bool last =
      std::any_of(axes->items.begin(), axes->items.end(), [&](const ir::Attr& a) { return a.i == rank - 1; });
  int64_t kept = 1;  // elements of dimensions that are not reduced
  for (int64_t d = 0; d < rank; ++d)
    if (std::none_of(axes->items.begin(), axes->items.end(), [&](const ir::Attr& a) { return a.i == d; }))
      kept *= t->dims[static_cast<size_t>(d)].size;
  if (is_of_a_product(op.operands[0], g) && rank == 2 && axes->items.size() == 1) return of_product(*t, last);
  return of_block(*t, last, kept == 1);
}

}  // namespace pallasim::hw
