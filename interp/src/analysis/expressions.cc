#include "expressions.h"

#include <algorithm>
#include <set>

#include "pallasim/memory/saturate.h"

namespace pallasim::interp::analysis {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

namespace {

constexpr int64_t kMostOfIndex = INT32_MAX;
constexpr size_t kMostConditions = 16, kMostTerms = 8;

std::optional<int64_t> constant_of(const Op& op) {
  if (op.code == OpCode::dim_value) return op.attr("dim")->i;
  const ir::Attr* v = op.code == OpCode::constant ? op.attr("value") : nullptr;
  if (!v || !v->is(ir::Attr::Kind::Bits) || (v->dtype != ir::DType::Bool && !ir::is_int(v->dtype))) return {};
  if (v->dtype == ir::DType::Bool) return v->i & 1;
  const int shift = 64 - ir::bit_width(v->dtype);
  const uint64_t bits = static_cast<uint64_t>(v->i) << shift;
  return ir::is_signed_int(v->dtype) ? static_cast<int64_t>(bits) >> shift : static_cast<int64_t>(bits >> shift);
}

bool always(const Conditions& c) {
  return std::all_of(c.begin(), c.end(), [](const AffineExpr& e) { return e.range().least >= 0; });
}
bool never(const Conditions& c) {
  return std::any_of(c.begin(), c.end(), [](const AffineExpr& e) { return e.range().greatest < 0; });
}
Conditions known(bool v) { return v ? Conditions() : Conditions{AffineExpr(-1)}; }
std::optional<Conditions> negated(const Conditions& c) {
  if (always(c) || never(c)) return known(!always(c));
  if (c.size() != 1) return {};
  return Conditions{c[0] * -1 - AffineExpr(1)};
}

std::optional<Conditions> compared(OpCode code, const AffineExpr& a, const AffineExpr& b) {
  const AffineExpr one(1);
  switch (code) {
    case OpCode::lt: return Conditions{b - a - one};
    case OpCode::le: return Conditions{b - a};
    case OpCode::gt: return Conditions{a - b - one};
    case OpCode::ge: return Conditions{a - b};
    case OpCode::eq: return Conditions{a - b, b - a};
    case OpCode::ne: return negated({a - b, b - a});
    default: return {};
  }
}

// Null where an argument or another region is where it comes from.
const Op* made_in(const Region& body, ValueId v) {
  const auto op = std::find_if(body.ops.begin(), body.ops.end(),
                               [&](const Op& o) { return o.results.size() == 1 && o.results[0] == v; });
  return op == body.ops.end() ? nullptr : &*op;
}

// Whether somebody knows where it is after the dimensions went elsewhere.
bool is_followed(const Term& t, std::span<const int> dims) {
  if (t.symbol.kind == Symbol::Kind::Dim) return dims[static_cast<size_t>(t.symbol.id)] >= 0;
  return t.symbol.kind != Symbol::Kind::Element;
}

}  // namespace

std::optional<ValueId> increment_of(const Op& loop, size_t carry) {
  const Region& body = loop.regions[0];
  const ValueId now = body.args[carry + 1];
  const Op* sum = made_in(body, body.ops.back().operands[carry]);
  if (!sum || sum->code != OpCode::add || (sum->operands[0] == now) == (sum->operands[1] == now)) return {};
  return sum->operands[sum->operands[0] == now ? 1 : 0];
}

std::optional<std::vector<int>> unit_reshape(std::span<const int64_t> from, std::span<const int64_t> to) {
  std::vector<int> r;
  size_t next = 0;
  const auto skip_ones = [&] {
    while (next < to.size() && to[next] == 1) ++next;
  };
  for (const int64_t n : from) {
    if (n != 1) skip_ones();
    if (n != 1 && (next == to.size() || to[next] != n)) return {};
    r.push_back(n == 1 ? -1 : static_cast<int>(next++));
  }
  skip_ones();
  return next == to.size() ? std::optional(r) : std::nullopt;
}

std::optional<std::vector<int>> moved_dims(const Op& op, const ir::Type& operand, const ir::Type& result) {
  if (op.code == OpCode::broadcast_in_dim) {
    std::vector<int> r;
    for (const ir::Attr& d : op.attr("dims")->items) r.push_back(static_cast<int>(d.i));
    return r;
  }
  if (!operand.is_static() || !result.is_static()) return {};
  const auto sizes = [](const ir::Type& t) {
    std::vector<int64_t> r;
    for (const ir::Dim& d : t.dims) r.push_back(d.size);
    return r;
  };
  return unit_reshape(sizes(operand), sizes(result));
}

AffineExpr with_dims(const AffineExpr& e, std::span<const int> dims) {
  AffineExpr r(e.constant);
  for (Term t : e.terms) {
    if (t.symbol.kind == Symbol::Kind::Dim) t.symbol.id = dims[static_cast<size_t>(t.symbol.id)];
    r = r + AffineExpr(t.symbol, t.by);
  }
  return r;
}

AffineExpr coordinate(size_t axis, const ir::GridAxis& a) {
  const int64_t last = a.dynamic >= 0 ? kMostOfIndex : std::clamp<int64_t>(a.size - 1, 0, kMostOfIndex);
  return AffineExpr(Symbol{Symbol::Kind::Axis, static_cast<int>(axis), {0, last}});
}

AffineExpr position(size_t dim, int64_t size) {
  if (size <= 1) return AffineExpr(0);
  return AffineExpr(Symbol{Symbol::Kind::Dim, static_cast<int>(dim), {0, size - 1}});
}

Expressions::Expressions(const ir::Graph& graph, std::span<const ir::GridAxis> grid, Of of) : graph_(graph) {
  for (size_t g = 0; g < grid.size(); ++g) {
    if (!grid[g].vmapped) visible_.push_back(coordinate(g, grid[g]));
    if (of == Of::IndexMap) set(graph.region.args[g], coordinate(g, grid[g]));
  }
  visit(graph.region);
  made_by_.clear();
}

const AffineExpr* Expressions::of(ValueId v) const {
  const auto it = values_.find(v);
  return it == values_.end() ? nullptr : &it->second;
}

const Conditions* Expressions::conditions(ValueId v) const {
  const auto it = conditions_.find(v);
  return it == conditions_.end() ? nullptr : &it->second;
}

std::optional<bool> Expressions::truth(ValueId v) const {
  const Conditions* c = conditions(v);
  if (!c || !is_bool(v)) return {};
  return always(*c) ? std::optional(true) : never(*c) ? std::optional(false) : std::nullopt;
}

bool Expressions::is_int(ValueId v) const { return !graph_.type(v)->is_ref && ir::is_int(graph_.type(v)->dtype); }

void Expressions::set(ValueId v, std::optional<AffineExpr> e) {
  if (!e || !is_int(v)) return;
  if (e->terms.size() > kMostTerms) {  // the others count as one
    AffineExpr grid;
    for (const Term& t : e->terms)
      if (t.symbol.kind == Kind::Axis) grid.terms.push_back(t);
    e = grid + number((*e - grid).range(), !graph_.type(v)->is_scalar());
  }
  if (fits(*e, graph_.type(v)->dtype)) values_[v] = std::move(*e);
}

void Expressions::set(ValueId v, std::optional<Conditions> c) {
  if (!c || c->size() > kMostConditions) return;
  std::erase_if(*c, [](const AffineExpr& e) { return e.range().least >= 0; });
  conditions_[v] = std::move(*c);
}

AffineExpr Expressions::number(Interval values, bool of_array) {
  if (values.is_one()) return AffineExpr(values.least);
  return AffineExpr(Symbol{of_array ? Kind::Element : Kind::Number, symbols_++, values});
}

void Expressions::visit(const Region& r) {
  for (const Op& op : r.ops) {
    if (op.code == OpCode::for_ || op.code == OpCode::parallel_loop) learn_loop(op);
    for (const Region& inner : op.regions) visit(inner);
    if (!op.regions.empty() || op.results.size() != 1) continue;
    const ValueId out = op.results[0];
    made_by_[out] = &op;
    if (is_bool(out)) set(out, answer(op));
    else if (is_int(out)) set(out, result(op)), set(out, of_truth_integers(op));
  }
}

// An index is what it begins as and the step for every trip, as far as somebody knows how many trips there are; in any
// case it lies between the bounds.
void Expressions::learn_loop(const Op& op) {
  const Region& body = op.regions[0];
  const AffineExpr *lower = of(op.operands[0]), *upper = of(op.operands[1]), *step = of(op.operands[2]);
  if (!lower || !upper || !is_int(body.args[0])) return;
  const AffineExpr length = *upper - *lower;
  const Interval bounds{lower->range().least, upper->range().greatest - 1};
  if (bounds.greatest < bounds.least) return;
  const bool counted = step && step->is_constant() && step->constant > 0 &&
                       (lower->is_constant() || length.is_constant()) && length.range().greatest > 0;
  AffineExpr trip, index;
  if (counted) {
    const int64_t last = (length.range().greatest - 1) / step->constant;
    trip = last == 0 ? AffineExpr(0) : AffineExpr(Symbol{Kind::Trip, symbols_++, {0, last}});
    index = *lower + trip * step->constant;
  } else {
    index = number(bounds);
  }
  set(body.args[0], index);
  const ir::Attr* reverse = op.attr("reverse");
  if (reverse && reverse->is_true()) return;
  for (size_t i = 0; i + 3 < op.operands.size(); ++i) learn_carry(op, i, index, counted ? &trip : nullptr);
}

// A carry that grows by the same in each trip; without `trip` one that is the index by another name.
void Expressions::learn_carry(const Op& loop, size_t carry, const AffineExpr& index, const AffineExpr* trip) {
  const Region& body = loop.regions[0];
  const ValueId now = body.args[carry + 1], first = loop.operands[carry + 3];
  const std::optional<ValueId> amount = increment_of(loop, carry);
  if (!amount || !is_int(now)) return;
  std::optional<int64_t> by;  // the body's own constants were not visited yet
  if (const AffineExpr* e = of(*amount); e && e->is_constant()) by = e->constant;
  else if (const Op* made = made_in(body, *amount)) by = constant_of(*made);
  const AffineExpr *from = of(first), *lower = of(loop.operands[0]), *step = of(loop.operands[2]);
  if (trip) {
    if (from && by) set(now, *from + *trip * *by);
  } else if (from && *from == *lower &&
             (*amount == loop.operands[2] || (by && step && step->is_constant() && *by == step->constant))) {
    set(now, index);
  }
}

std::optional<Conditions> Expressions::answer(const Op& op) {
  if (const std::optional<int64_t> v = constant_of(op)) return known(*v != 0);
  if (op.operands.empty() || op.operands.size() > 2) return {};
  if (op.code == OpCode::convert) return of_truth_integers(op);
  if (const auto dims = moves(op)) {
    const Conditions* c = conditions(op.operands[0]);
    if (!c) return {};
    if (always(*c) || never(*c)) return known(always(*c));
    Conditions r;
    for (const AffineExpr& e : *c) {
      if (!std::all_of(e.terms.begin(), e.terms.end(), [&](const Term& t) { return is_followed(t, *dims); })) return {};
      r.push_back(with_dims(e, *dims));
    }
    return r;
  }
  if (std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return is_bool(v); })) return of_truths(op);
  if (op.operands.size() != 2) return {};
  const AffineExpr *a = of(op.operands[0]), *b = of(op.operands[1]);
  if (!a || !b) return {};
  // An integer that is a truth value, compared with 0.
  for (const auto& [v, other] : {std::pair(op.operands[0], b), std::pair(op.operands[1], a)})
    if (const Conditions* c = conditions(v); c && op.code == OpCode::ne && *other == AffineExpr(0)) return *c;
  return compared(op.code, *a, *b);
}

// What is made of truth values, or of integers that are 0 or 1 as they are.
std::optional<Conditions> Expressions::of_truth_integers(const Op& op) const {
  if (!std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return conditions(v) != nullptr; }))
    return {};
  if (op.code == OpCode::convert) return *conditions(op.operands[0]);
  return op.code == OpCode::and_ || op.code == OpCode::or_ ? of_truths(op) : std::nullopt;
}

std::optional<Conditions> Expressions::of_truths(const Op& op) const {
  const Conditions *a = conditions(op.operands[0]), *b = conditions(op.operands.back());
  if (op.operands.size() == 1) return op.code == OpCode::not_ && a ? negated(*a) : std::nullopt;
  switch (op.code) {
    case OpCode::and_: {
      if (never_rounds(op.operands[0], op.operands[1]) || never_rounds(op.operands[1], op.operands[0]))
        return known(false);
      if ((a && never(*a)) || (b && never(*b))) return known(false);
      if (!a || !b) return {};
      Conditions both = *a;
      both.insert(both.end(), b->begin(), b->end());
      return both;
    }
    case OpCode::or_:
      if ((a && always(*a)) || (b && always(*b))) return known(true);
      if (a && b && (never(*a) || never(*b))) return never(*a) ? *b : *a;
      return {};
    case OpCode::ne:
    case OpCode::xor_:
    case OpCode::eq: {
      if (!a || !b) return {};
      const bool known_b = always(*b) || never(*b);
      const Conditions &of = known_b ? *b : *a, &other = known_b ? *a : *b;
      if (!always(of) && !never(of)) return {};
      return always(of) == (op.code == OpCode::eq) ? std::optional(other) : negated(other);
    }
    default: return {};
  }
}

const Op* Expressions::made_by(ValueId v, OpCode code) const {
  const auto it = made_by_.find(v);
  return it != made_by_.end() && it->second->code == code ? it->second : nullptr;
}

// Whether a quotient of x >= 0 and y > 0 is asked if it has to be rounded down: its signs differ, and something rests.
// They differ where x is 0, and then nothing rests.
bool Expressions::never_rounds(ValueId signs, ValueId rest) const {
  const Op *differ = made_by(signs, OpCode::ne), *rests = made_by(rest, OpCode::ne);
  const Op* rem = rests ? made_by(rests->operands[0], OpCode::rem) : nullptr;
  const Op* of_x = differ ? made_by(differ->operands[0], OpCode::sign) : nullptr;
  if (!rem || !of_x || of_x->operands[0] != rem->operands[0]) return false;
  const Op* of_y = made_by(differ->operands[1], OpCode::sign);
  const auto is = [&](ValueId v, int64_t n) { return of(v) && *of(v) == AffineExpr(n); };
  const AffineExpr *x = of(rem->operands[0]), *y = of(rem->operands[1]);
  return ((of_y && of_y->operands[0] == rem->operands[1]) || is(differ->operands[1], 1)) && is(rests->operands[1], 0) &&
         x && x->range().least >= 0 && y && y->range().least > 0;
}

std::optional<std::vector<int>> Expressions::moves(const Op& op) const {
  if (op.operands.size() != 1) return {};
  switch (op.code) {
    case OpCode::broadcast_in_dim:
    case OpCode::reshape:
      if (auto dims = moved_dims(op, *graph_.type(op.operands[0]), *graph_.type(op.results[0]))) return dims;
      [[fallthrough]];
    case OpCode::transpose:
    case OpCode::slice:
    case OpCode::rev: return std::vector<int>(graph_.type(op.operands[0])->dims.size(), -1);
    default: return {};
  }
}

// Of elements that nobody can follow, their interval rests.
AffineExpr Expressions::moved(const AffineExpr& e, std::span<const int> dims) {
  AffineExpr kept(e.constant), lost;
  for (const Term& t : e.terms) {
    AffineExpr& part = is_followed(t, dims) ? kept : lost;
    part.terms.push_back(t);
  }
  return with_dims(kept, dims) + number(lost.range(), true);
}

std::optional<AffineExpr> Expressions::result(const Op& op) {
  if (const std::optional<int64_t> v = constant_of(op)) return AffineExpr(*v);
  if (std::optional<AffineExpr> e = of_index(op)) return e;
  const bool of_array = !graph_.type(op.results[0])->is_scalar();
  if (op.code == OpCode::select_n) return chosen(op, of_array);
  const AffineExpr* a = op.operands.empty() ? nullptr : of(op.operands[0]);
  if (op.code == OpCode::convert && is_bool(op.operands[0])) return number({0, 1}, of_array);
  if (!a || std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return of(v) == nullptr; })) {
    if (const std::optional<Interval> bounds = bounded(op)) return number(*bounds, of_array);
    if (!a) return {};
  }
  if (op.code == OpCode::convert) return *a;
  if (const auto dims = moves(op)) return moved(*a, *dims);
  const AffineExpr* b = op.operands.size() == 2 ? of(op.operands[1]) : nullptr;
  return b ? of_two(op.code, *a, *b, of_array) : std::nullopt;
}

// What an operation makes of a value that may be any.
std::optional<Interval> Expressions::bounded(const Op& op) const {
  const ir::DType t = graph_.type(op.results[0])->dtype;
  const int bits = ir::bit_width(t) - ir::is_signed_int(t);
  if (bits > 32) return {};
  const int64_t greatest = (int64_t{1} << bits) - 1, least = ir::is_signed_int(t) ? -greatest - 1 : 0;
  const auto range = [&](size_t i) {
    const AffineExpr* e = of(op.operands[i]);
    return e ? e->range() : Interval{least, greatest};
  };
  if (op.code == OpCode::clamp && op.operands.size() == 3) {
    const Interval low = range(0), high = range(2);
    return low.greatest <= high.least ? std::optional(Interval{low.least, high.greatest}) : std::nullopt;
  }
  if (op.operands.size() != 2 || (!of(op.operands[0]) && !of(op.operands[1]))) return {};
  const Interval x = range(0), y = range(1);
  switch (op.code) {
    case OpCode::rem: {
      if (y.least <= 0) return {};
      const int64_t most = y.greatest - 1;
      return Interval{x.least < 0 ? -most : 0, most};
    }
    case OpCode::and_: {
      if (x.least < 0 && y.least < 0) return {};
      return Interval{0, std::min(x.least < 0 ? greatest : x.greatest, y.least < 0 ? greatest : y.greatest)};
    }
    case OpCode::min: return Interval{std::min(x.least, y.least), std::min(x.greatest, y.greatest)};
    case OpCode::max: return Interval{std::max(x.least, y.least), std::max(x.greatest, y.greatest)};
    default: return {};
  }
}

// Where a program, a core or an element is.
std::optional<AffineExpr> Expressions::of_index(const Op& op) {
  if (op.code == OpCode::axis_index || op.code == OpCode::axis_size) return number({0, kMostOfIndex});
  if (op.code == OpCode::iota) {
    const auto d = static_cast<size_t>(op.attr("axis")->i);
    const ir::Dim& dim = graph_.type(op.results[0])->dims[d];
    return dim.is_static() ? std::optional(position(d, dim.size)) : std::nullopt;
  }
  const bool id = op.code == OpCode::program_id;
  if (!id && op.code != OpCode::num_programs) return {};
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  if (axis >= visible_.size()) return number({0, kMostOfIndex});
  if (id) return visible_[axis];
  const int64_t last = visible_[axis].range().greatest;
  return last < kMostOfIndex ? AffineExpr(last + 1) : number({0, kMostOfIndex});
}

// One of two: what both have, and the rest of either.
std::optional<AffineExpr> Expressions::chosen(const Op& op, bool of_array) {
  if (op.operands.size() != 3 || !is_bool(op.operands[0])) return {};
  const AffineExpr *a = of(op.operands[1]), *b = of(op.operands[2]);
  if (const std::optional<bool> p = truth(op.operands[0])) {
    const AffineExpr* taken = *p ? b : a;
    return taken ? std::optional(*taken) : std::nullopt;
  }
  if (!a || !b) return {};
  AffineExpr common;
  for (const Term& t : a->terms)
    if (std::find(b->terms.begin(), b->terms.end(), t) != b->terms.end()) common.terms.push_back(t);
  return common + number(hull((*a - common).range(), (*b - common).range()), of_array);
}

std::optional<AffineExpr> Expressions::of_two(OpCode code, const AffineExpr& a, const AffineExpr& b, bool of_array) {
  if (code == OpCode::add) return a + b;
  if (code == OpCode::sub) return a - b;
  if (code == OpCode::mul && a.is_constant()) return b * a.constant;
  if (code == OpCode::mul && b.is_constant()) return a * b.constant;
  const Interval x = a.range(), y = b.range();
  switch (code) {
    case OpCode::mul: return number(hull(x * y.least, x * y.greatest), of_array);
    case OpCode::min:
    case OpCode::max: {
      const bool min = code == OpCode::min;
      const Interval more = (a - b).range();
      if (more.greatest <= 0) return min ? a : b;
      if (more.least >= 0) return min ? b : a;
      return number(min ? Interval{std::min(x.least, y.least), std::min(x.greatest, y.greatest)}
                        : Interval{std::max(x.least, y.least), std::max(x.greatest, y.greatest)},
                    of_array);
    }
    case OpCode::div: return divided(a, b, true, of_array);
    case OpCode::rem: return divided(a, b, false, of_array);
    case OpCode::and_:
      if (x.least < 0 || y.least < 0) return {};
      return number({0, std::min(x.greatest, y.greatest)}, of_array);
    default: return {};
  }
}

// Of x >= 0 by y > 0: the multiples of y, where the rest of x is less than y.
std::optional<AffineExpr> Expressions::divided(const AffineExpr& a, const AffineExpr& b, bool quotient, bool of_array) {
  const Interval x = a.range(), y = b.range();
  if (x.least < 0 || y.least <= 0) return {};
  if (b.is_constant()) {
    AffineExpr multiple(a.constant / b.constant), rest(a.constant % b.constant);
    for (const Term& t : a.terms) {
      AffineExpr& to = t.by % b.constant == 0 ? multiple : rest;
      to.terms.push_back({t.symbol, t.by % b.constant == 0 ? t.by / b.constant : t.by});
    }
    const Interval left = rest.range();
    if (left.least >= 0 && left.greatest < b.constant) return quotient ? multiple : rest;
  }
  return number(quotient ? Interval{x.least / y.greatest, x.greatest / y.least}
                         : Interval{0, std::min(x.greatest, y.greatest - 1)},
                of_array);
}

std::vector<Affine> affine_map(const ir::Module& m, const ir::Operand& operand) {
  const ir::Graph& g = *operand.index_map;
  const Expressions values(g, m.grid, Expressions::Of::IndexMap);
  const bool runs = std::any_of(g.region.ops.begin(), g.region.ops.end(), [](const Op& op) {
    return (ir::info(op.code).effects & (ir::kEffectPrint | ir::kEffectCheck)) != 0;
  });
  std::vector<Affine> r;
  for (ValueId v : g.region.ops.back().operands) {
    Affine a;
    const AffineExpr* e = runs ? nullptr : values.of(v);
    if (e && e->has_only(Symbol::Kind::Axis)) {
      a = {true, e->constant, std::vector<int64_t>(m.grid.size(), 0)};
      for (const Term& t : e->terms) a.coefficient[static_cast<size_t>(t.symbol.id)] = t.by;
    }
    r.push_back(std::move(a));
  }
  return r;
}

std::optional<std::vector<int>> zero_axes(const Expressions& values, ValueId pred) {
  const Conditions* c = values.conditions(pred);
  if (!c) return {};
  std::set<int> axes;
  for (const AffineExpr& e : *c) {
    if (e.range().least >= 0) continue;
    const bool zero = e.terms.size() == 1 && e.has_only(Symbol::Kind::Axis) && e.terms[0].by < 0 && e.constant >= 0 &&
                      e.constant < -e.terms[0].by;
    if (!zero) return {};
    axes.insert(e.terms[0].symbol.id);
  }
  return std::vector<int>(axes.begin(), axes.end());
}

}  // namespace pallasim::interp::analysis
