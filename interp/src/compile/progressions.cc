#include "progressions.h"

#include <algorithm>
#include <functional>

#include "../plan/payload/movement.h"
#include "../plan/progression.h"

namespace pallasim::interp {
namespace {

using C = OpCode;
using Relation = GatherCondition::Relation;

constexpr size_t kMostConditions = 4;     // of one mask
constexpr int64_t kMostStride = 1 << 30;  // positions times strides stay far inside 64 bits

bool is_index_type(const ir::Type* t) {
  return !t->is_ref && (t->dtype == ir::DType::I32 || t->dtype == ir::DType::U32);
}

std::optional<Relation> relation_of(C code) {
  switch (code) {
    case C::lt: return Relation::Less;
    case C::le: return Relation::LessEqual;
    case C::gt: return Relation::Greater;
    case C::ge: return Relation::GreaterEqual;
    default: return {};
  }
}

Relation mirrored(Relation r) {
  switch (r) {
    case Relation::Less: return Relation::Greater;
    case Relation::LessEqual: return Relation::GreaterEqual;
    case Relation::Greater: return Relation::Less;
    default: return Relation::LessEqual;
  }
}

bool makes_progressions(C code) {
  return code == C::iota || code == C::add || code == C::sub || code == C::mul || code == C::broadcast_in_dim ||
         code == C::reshape;
}

bool is_flat(const Progression& p) {
  return std::all_of(p.strides.begin(), p.strides.end(), [](int64_t s) { return s == 0; });
}

bool is_zero(const Val& v) { return known_int(v) == 0; }

// Kept where later steps do not write.
Val kept(Emitter& e, const Val& scalar) {
  if (scalar.scalar().is_const) return scalar.spread({});
  const Val r = scalar_in(e.new_slot(), scalar.dtype);
  e.move_scalar(r.scalar().slot, scalar.scalar().slot, scalar.dtype);
  return r;
}

Val combined(Emitter& e, C code, const Val& a, const Val& b) {
  if (code != C::mul && is_zero(b)) return a;
  if (code == C::add && is_zero(a)) return b;
  StripParams params;
  params.dtype = a.dtype;
  params.semantics = e.semantics();
  return e.scalar_result(code, a.dtype, a.dtype, {a, b}, params);
}

// The same elements with the dims that a broadcast or a reshape gives them; `map`: where each old dim goes.
Progression spread(const Progression& p, const std::vector<int64_t>& dims, const std::vector<int64_t>& map) {
  Progression r{p.base, dims, std::vector<int64_t>(dims.size(), 0)};
  for (size_t i = 0; i < map.size(); ++i)
    if (p.dims[i] != 1) r.strides[static_cast<size_t>(map[i])] = p.strides[i];
  return r;
}

// Where each dim of a goes in a reshape that adds and drops dims of one element only; nothing for others.
std::optional<std::vector<int64_t>> unit_reshape(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<int64_t> map;
  size_t j = 0;
  for (const int64_t n : from) {
    while (n != 1 && j < to.size() && to[j] == 1) ++j;
    if (n != 1 && (j == to.size() || to[j] != n)) return {};
    map.push_back(static_cast<int64_t>(n == 1 ? 0 : j++));
  }
  if (std::any_of(to.begin() + static_cast<std::ptrdiff_t>(j), to.end(), [](int64_t n) { return n != 1; })) return {};
  return map;
}

// Where the dims of the operand of a broadcast or a reshape go.
std::optional<std::vector<int64_t>> moved_dims(Emitter& e, const Op& op) {
  if (op.code == C::broadcast_in_dim) return ints(op.attr("dims"));
  return unit_reshape(dims_of(e.type(op.operands[0])), dims_of(e.type(op.results[0])));
}

std::optional<Progression> sum(Emitter& e, C code, const Progression& a, const Progression& b) {
  if (a.dims != b.dims) return {};
  Progression r{{}, a.dims, a.strides};
  for (size_t i = 0; i < r.strides.size(); ++i) r.strides[i] += code == C::sub ? -b.strides[i] : b.strides[i];
  r.base = combined(e, code, a.base, b.base);
  return r;
}

std::optional<Progression> product(Emitter& e, const Progression& a, const Progression& b) {
  if (a.dims != b.dims) return {};
  if (!is_flat(b)) return is_flat(a) ? product(e, b, a) : std::nullopt;
  Progression r{{}, a.dims, a.strides};
  if (!is_flat(a)) {
    const std::optional<int64_t> factor = known_int(b.base);
    if (!factor) return {};
    for (int64_t& s : r.strides)
      if (__builtin_mul_overflow(s, *factor, &s)) return {};
  }
  r.base = combined(e, C::mul, a.base, b.base);
  return r;
}

}  // namespace

void Progressions::read(const ir::Graph& graph) {
  uses_.clear();
  std::unordered_map<ir::ValueId, const Op*> defs;
  const std::function<void(const Region&)> visit = [&](const Region& r) {
    for (const Op& op : r.ops) {
      for (const ir::ValueId v : op.results) defs[v] = &op;
      for (const Region& inner : op.regions) visit(inner);
    }
  };
  read_roles(graph.region);
  if (uses_.empty()) return;
  visit(graph.region);
  std::vector<ir::ValueId> roles;
  for (const auto& [v, n] : uses_) roles.push_back(v);
  for (const ir::ValueId v : roles) want(v, defs);
}

// Indices and masks of accesses.
void Progressions::read_roles(const Region& region) {
  for (const Op& op : region.ops) {
    for (const Region& r : op.regions) read_roles(r);
    if ((ir::info(op.code).effects & (ir::kEffectRead | ir::kEffectWrite | ir::kEffectAtomic)) == 0) continue;
    if (const Attr* mask = op.attr("mask"); mask && mask->is(Attr::Kind::Operand))
      ++uses_[op.operands[static_cast<size_t>(mask->i)]];
    const auto* last = op.view().empty() ? nullptr : std::get_if<ir::view::Index>(&op.view().back());
    if (!last) continue;
    for (const ir::view::Entry& d : last->entries)
      if (d.kind == ir::view::Entry::Kind::Array && !d.ignored) ++uses_[op.operands[static_cast<size_t>(d.operand)]];
  }
}

// What a wanted value is made from is wanted, too.
void Progressions::want(ir::ValueId v, const std::unordered_map<ir::ValueId, const Op*>& defs) {
  const auto def = defs.find(v);
  if (def == defs.end()) return;
  const Op& op = *def->second;
  if (!makes_progressions(op.code) && !relation_of(op.code) && op.code != C::and_) return;
  for (const ir::ValueId operand : op.operands)
    if (uses_[operand]++ == 0) want(operand, defs);
}

bool Progressions::stays_pending(ir::ValueId v, int uses) const {
  const auto it = uses_.find(v);
  return it != uses_.end() && uses - it->second <= 1 && (progressions_.contains(v) || conditions_.contains(v));
}

const Progression* Progressions::find(ir::ValueId v) const {
  const auto it = progressions_.find(v);
  return it == progressions_.end() ? nullptr : &it->second;
}

const std::vector<Condition>* Progressions::find_conditions(ir::ValueId v) const {
  const auto it = conditions_.find(v);
  return it == conditions_.end() ? nullptr : &it->second;
}

// A scalar is a progression that does not move.
std::optional<Progression> Progressions::operand(Emitter& e, const Op& op, size_t i) const {
  if (const Progression* p = find(op.operands[i])) return *p;
  const Val& v = e.operand(op, i);
  if (!is_index_type(e.type(op.operands[i])) || !v.is_uniform()) return {};
  return Progression{kept(e, v), v.dims, std::vector<int64_t>(v.dims.size(), 0)};
}

std::optional<Progression> Progressions::progression(Emitter& e, const Op& op) const {
  const ir::Type* type = e.type(op.results[0]);
  if (!makes_progressions(op.code) || !is_index_type(type) || type->is_scalar()) return {};
  const std::vector<int64_t> dims = dims_of(type);
  if (op.code == C::iota) {
    Progression r{e.const_int(type->dtype, 0), dims, std::vector<int64_t>(dims.size(), 0)};
    r.strides[static_cast<size_t>(op.attr("axis")->i)] = 1;
    return r;
  }
  std::optional<Progression> a = operand(e, op, 0);
  if (!a) return {};
  if (op.code == C::broadcast_in_dim || op.code == C::reshape) {
    const std::optional<std::vector<int64_t>> map = moved_dims(e, op);
    return map ? std::optional(spread(*a, dims, *map)) : std::nullopt;
  }
  std::optional<Progression> b = operand(e, op, 1);
  if (!b) return {};
  for (Progression* p : {&*a, &*b})
    if (p->dims.empty()) p->dims = dims, p->strides.assign(dims.size(), 0);
  std::optional<Progression> r = op.code == C::mul ? product(e, *a, *b) : sum(e, op.code, *a, *b);
  if (r && std::any_of(r->strides.begin(), r->strides.end(), [](int64_t s) { return std::abs(s) > kMostStride; }))
    return {};
  return r;
}

std::optional<std::vector<Condition>> Progressions::conditions(Emitter& e, const Op& op) const {
  const ir::Type* type = e.type(op.results[0]);
  if (type->is_ref || type->dtype != ir::DType::Bool || type->is_scalar()) return {};
  if (op.code == C::and_) {
    const std::vector<Condition>*a = find_conditions(op.operands[0]), *b = find_conditions(op.operands[1]);
    if (!a || !b || a->size() + b->size() > kMostConditions) return {};
    std::vector<Condition> r = *a;
    r.insert(r.end(), b->begin(), b->end());
    return r;
  }
  if (op.code == C::broadcast_in_dim || op.code == C::reshape) {
    const std::vector<Condition>* a = find_conditions(op.operands[0]);
    const std::optional<std::vector<int64_t>> map = a ? moved_dims(e, op) : std::nullopt;
    if (!map) return {};
    std::vector<Condition> r = *a;
    for (Condition& c : r) c.values = spread(c.values, dims_of(type), *map);
    return r;
  }
  const std::optional<Relation> relation = relation_of(op.code);
  if (!relation) return {};
  std::optional<Progression> a = operand(e, op, 0), b = operand(e, op, 1);
  if (!a || !b || (!is_flat(*a) && !is_flat(*b))) return {};
  for (Progression* p : {&*a, &*b})
    if (p->dims.empty()) p->dims = dims_of(type), p->strides.assign(p->dims.size(), 0);
  if (is_flat(*b)) return std::vector<Condition>{{*a, *relation, b->base}};
  return std::vector<Condition>{{*b, mirrored(*relation), a->base}};
}

void Progressions::learn(Emitter& e, const Op& op) {
  if (op.results.size() != 1 || !op.regions.empty()) return;
  if (std::optional<Progression> p = progression(e, op)) progressions_[op.results[0]] = std::move(*p);
  else if (auto c = conditions(e, op)) conditions_[op.results[0]] = std::move(*c);
}

std::optional<int64_t> known_int(const Val& v) {
  if (!v.is_uniform() || !v.scalar().is_const) return {};
  const auto bits = static_cast<int64_t>(v.scalar().bits);
  if (v.dtype == ir::DType::I64) return bits;
  return v.dtype == ir::DType::I32 || v.dtype == ir::DType::U32 ? std::optional(wrapped(bits, v.dtype)) : std::nullopt;
}

std::vector<int64_t> strides_along(const Progression& p, size_t rank, size_t last) {
  std::vector<int64_t> r(rank, 0);
  for (size_t k = 0; k < p.dims.size(); ++k)
    if (p.dims[k] != 1) r[last + 1 - p.dims.size() + k] = p.strides[k];
  return r;
}

GatherCondition condition_of(const Condition& c, size_t rank) {
  return {c.values.base.scalar().slot, c.bound.scalar().slot, c.values.base.dtype, c.relation,
          rank == 0 ? std::vector<int64_t>() : strides_along(c.values, rank, rank - 1)};
}

}  // namespace pallasim::interp
