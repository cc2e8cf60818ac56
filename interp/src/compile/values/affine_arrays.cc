#include "affine_arrays.h"

#include <algorithm>
#include <functional>

#include "../../plan/affine_elements.h"

namespace pallasim::interp {
namespace {

using analysis::AffineExpr;
using C = OpCode;
using Relation = GatherCondition::Relation;

constexpr size_t kMostPredicates = 4;     // of one mask
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

bool makes_arrays(C code) {
  return code == C::iota || code == C::add || code == C::sub || code == C::mul || code == C::broadcast_in_dim ||
         code == C::reshape;
}

bool is_zero(const Val& v) { return known_int(v) == 0; }

// Kept where later steps do not write.
Val kept(Emitter& e, const Val& scalar) {
  if (scalar.scalar().is_const) return scalar.spread({});
  const Val r = scalar_in(e.new_slot(), scalar.dtype);
  move_scalar(e, r.scalar().slot, scalar.scalar().slot, scalar.dtype);
  return r;
}

Val combined(Emitter& e, C code, const Val& a, const Val& b) {
  if (code != C::mul && is_zero(b)) return a;
  if (code == C::add && is_zero(a)) return b;
  StripParams params;
  params.dtype = a.dtype;
  params.semantics = e.semantics();
  return scalar_result(e, code, a.dtype, a.dtype, {a, b}, params);
}

// The elements of an operand of a broadcast or a reshape; nothing where somebody would have to look for them.
std::optional<AffineArray> moved(Emitter& e, const Op& op, const AffineArray& a) {
  const ir::Type& result = *e.type(op.results[0]);
  const auto dims = analysis::moved_dims(op, *e.type(op.operands[0]), result);
  if (!dims) return {};
  return AffineArray{a.base, analysis::with_dims(a.positions, *dims), dims_of(&result)};
}

std::optional<AffineExpr> product(const AffineArray& a, const AffineArray& b) {
  if (a.is_uniform() && b.is_uniform()) return AffineExpr();
  const std::optional<int64_t> factor = known_int(a.is_uniform() ? a.base : b.base);
  if (!factor || (!a.is_uniform() && !b.is_uniform())) return {};
  return (a.is_uniform() ? b : a).positions * *factor;
}

}  // namespace

void AffineArrays::read(const ir::Graph& graph) {
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
void AffineArrays::read_roles(const Region& region) {
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
void AffineArrays::want(ir::ValueId v, const std::unordered_map<ir::ValueId, const Op*>& defs) {
  const auto def = defs.find(v);
  if (def == defs.end()) return;
  const Op& op = *def->second;
  if (!makes_arrays(op.code) && !relation_of(op.code) && op.code != C::and_) return;
  for (const ir::ValueId operand : op.operands)
    if (uses_[operand]++ == 0) want(operand, defs);
}

bool AffineArrays::stays_pending(ir::ValueId v, int uses) const {
  const auto it = uses_.find(v);
  return it != uses_.end() && uses - it->second <= 1 && (arrays_.contains(v) || masks_.contains(v));
}

const AffineArray* AffineArrays::find(ir::ValueId v) const {
  const auto it = arrays_.find(v);
  return it == arrays_.end() ? nullptr : &it->second;
}

const std::vector<Predicate>* AffineArrays::find_mask(ir::ValueId v) const {
  const auto it = masks_.find(v);
  return it == masks_.end() ? nullptr : &it->second;
}

// A scalar is the same at every position.
std::optional<AffineArray> AffineArrays::operand(Emitter& e, const Op& op, size_t i) const {
  if (const AffineArray* a = find(op.operands[i])) return *a;
  const Val& v = e.operand(op, i);
  if (!is_index_type(e.type(op.operands[i])) || !v.is_uniform()) return {};
  return AffineArray{kept(e, v), {}, v.dims};
}

std::optional<AffineArray> AffineArrays::array(Emitter& e, const Op& op) const {
  const ir::Type* type = e.type(op.results[0]);
  if (!makes_arrays(op.code) || !is_index_type(type) || type->is_scalar()) return {};
  const std::vector<int64_t> dims = dims_of(type);
  if (op.code == C::iota) {
    const auto d = static_cast<size_t>(op.attr("axis")->i);
    return AffineArray{e.const_int(type->dtype, 0), analysis::position(d, dims[d]), dims};
  }
  const std::optional<AffineArray> a = operand(e, op, 0);
  if (!a) return {};
  if (op.code == C::broadcast_in_dim || op.code == C::reshape) return moved(e, op, *a);
  const std::optional<AffineArray> b = operand(e, op, 1);
  if (!b) return {};
  const std::optional<AffineExpr> positions = op.code == C::mul   ? product(*a, *b)
                                              : op.code == C::sub ? a->positions - b->positions
                                                                  : a->positions + b->positions;
  const auto too_far = [](const analysis::Term& t) { return t.by > kMostStride || t.by < -kMostStride; };
  if (!positions || std::any_of(positions->terms.begin(), positions->terms.end(), too_far)) return {};
  return AffineArray{combined(e, op.code, a->base, b->base), *positions, dims};
}

std::optional<std::vector<Predicate>> AffineArrays::mask(Emitter& e, const Op& op) const {
  const ir::Type* type = e.type(op.results[0]);
  if (type->is_ref || type->dtype != ir::DType::Bool || type->is_scalar()) return {};
  const std::vector<Predicate>* first = op.operands.empty() ? nullptr : find_mask(op.operands[0]);
  if (op.code == C::and_) {
    const std::vector<Predicate>* second = find_mask(op.operands[1]);
    if (!first || !second || first->size() + second->size() > kMostPredicates) return {};
    std::vector<Predicate> r = *first;
    r.insert(r.end(), second->begin(), second->end());
    return r;
  }
  if (op.code == C::broadcast_in_dim || op.code == C::reshape) {
    if (!first) return {};
    std::vector<Predicate> r;
    for (const Predicate& p : *first) {
      std::optional<AffineArray> values = moved(e, op, p.values);
      if (!values) return {};
      r.push_back({std::move(*values), p.relation, p.bound});
    }
    return r;
  }
  const std::optional<Relation> relation = relation_of(op.code);
  if (!relation) return {};
  const std::optional<AffineArray> a = operand(e, op, 0), b = operand(e, op, 1);
  if (!a || !b) return {};
  if (b->is_uniform()) return std::vector<Predicate>{{*a, *relation, b->base}};
  if (a->is_uniform()) return std::vector<Predicate>{{*b, mirrored(*relation), a->base}};
  return {};
}

void AffineArrays::learn(Emitter& e, const Op& op) {
  if (op.results.size() != 1 || !op.regions.empty()) return;
  if (std::optional<AffineArray> a = array(e, op)) arrays_[op.results[0]] = std::move(*a);
  else if (auto m = mask(e, op)) masks_[op.results[0]] = std::move(*m);
}

std::optional<int64_t> known_int(const Val& v) {
  if (!v.is_uniform() || !v.scalar().is_const) return {};
  const auto bits = static_cast<int64_t>(v.scalar().bits);
  if (v.dtype == ir::DType::I64) return bits;
  return v.dtype == ir::DType::I32 || v.dtype == ir::DType::U32 ? std::optional(wrapped(bits, v.dtype)) : std::nullopt;
}

std::vector<int64_t> strides_along(const AffineArray& a, size_t rank, size_t last) {
  std::vector<int64_t> r(rank, 0);
  for (const analysis::Term& t : a.positions.terms)
    r[last + 1 - a.dims.size() + static_cast<size_t>(t.symbol.id)] = t.by;
  return r;
}

GatherCondition condition_of(const Predicate& p, size_t rank) {
  return {p.values.base.scalar().slot, p.bound.scalar().slot, p.values.base.dtype, p.relation,
          rank == 0 ? std::vector<int64_t>() : strides_along(p.values, rank, rank - 1)};
}

}  // namespace pallasim::interp
