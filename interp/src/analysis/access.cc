#include "access.h"

#include <algorithm>

#include "pallasim/memory/saturate.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;
using Kind = Symbol::Kind;

bool is_store(const Op& op) { return op.code == OpCode::store || op.code == OpCode::masked_store; }

bool is_access(const Op& op) {
  return is_store(op) || op.code == OpCode::get || op.code == OpCode::swap || op.code == OpCode::masked_load ||
         op.code == OpCode::masked_swap;
}

size_t dims_of(const ir::Graph& g, const Op& op, int operand) {
  return g.type(op.operands[static_cast<size_t>(operand)])->dims.size();
}

// Index arrays broadcast together.
size_t rank_of(const ir::Graph& g, const Op& op, const ir::view::Index& index) {
  size_t r = 0;
  for (const ir::view::Entry& e : index.entries)
    if (e.is_array()) r = std::max(r, dims_of(g, op, e.operand));
  return r;
}

// As an array of `rank` dimensions, the last ones of which are the value's.
AffineExpr aligned(AffineExpr e, size_t own, size_t rank) {
  for (Term& t : e.terms)
    if (t.symbol.kind == Kind::Dim) t.symbol.id += static_cast<int>(rank) - static_cast<int>(own);
  return e;
}

// `slice`: the position in it; `rank`: of the index arrays.
std::optional<AffineExpr> element_of(const Expressions& values, const ir::Graph& g, const Op& op,
                                     const ir::view::Entry& e, size_t slice, size_t rank) {
  using EntryKind = ir::view::Entry::Kind;
  if (e.kind == EntryKind::Ref) return {};
  const int operand = e.is_array() ? e.operand : e.start.operand;
  const AffineExpr* start = operand < 0 ? nullptr : values.of(op.operands[static_cast<size_t>(operand)]);
  if (operand < 0 ? !e.start.is_static() : !start) return {};
  const AffineExpr from = start ? *start : AffineExpr(e.start.value());
  if (e.is_array()) return aligned(from, dims_of(g, op, operand), rank);
  if (e.kind == EntryKind::At) return from;
  if (!e.size.is_static() || !e.stride.is_static()) return {};
  return from + position(slice, e.size.value()) * e.stride.value();
}

// Of an operation's view of its first operand, as far as its first index says it. Nothing where that comes later, or
// nowhere.
std::optional<Access> access_of(const Expressions& values, const ir::Graph& g, const Op& op) {
  const std::span<const ir::View> view = op.view();
  const auto* index = view.empty() ? nullptr : std::get_if<ir::view::Index>(&view.front());
  if (!index) return {};
  Access r;
  constexpr size_t kSlices = 1000;  // their positions are no dimensions of arrays
  const size_t rank = rank_of(g, op, *index);
  for (const ir::view::Entry& e : index->entries) r.push_back(element_of(values, g, op, e, kSlices + r.size(), rank));
  return r;
}

// Uses of `ref` that are accesses alone; false where there are others.
bool find_accesses(const Region& r, ValueId ref, std::vector<const Op*>* found) {
  return std::all_of(r.ops.begin(), r.ops.end(), [&](const Op& op) {
    const auto uses = std::count(op.operands.begin(), op.operands.end(), ref);
    if (uses > 0) found->push_back(&op);
    return (uses == 0 || (uses == 1 && is_access(op) && op.operands[0] == ref)) &&
           std::all_of(op.regions.begin(), op.regions.end(),
                       [&](const Region& inner) { return find_accesses(inner, ref, found); });
  });
}

// Comparisons that every element inside fulfils.
bool leaves_out_what_is_outside(const AffineExpr& condition, const Access& access, std::span<const int64_t> dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    if ((condition - *access[d]).range().least >= 0 ||
        (condition - (AffineExpr(dims[d] - 1) - *access[d])).range().least >= 0)
      return true;
  return false;
}

bool store_covers(const Expressions& values, const ir::Graph& g, const Op& op, std::span<const int64_t> dims,
                  std::vector<bool>* axes) {
  const ir::Attr* mask = op.attr("mask");
  if (op.view().empty()) return !mask;
  const std::optional<Access> access = op.view().size() == 1 ? access_of(values, g, op) : std::nullopt;
  if (!access || access->size() != dims.size() || !covers(*access, dims, axes)) return false;
  const auto& index = std::get<ir::view::Index>(op.view().front());
  const auto any = [&](auto what) { return std::any_of(index.entries.begin(), index.entries.end(), what); };
  if (any([](const auto& e) { return e.ignored.has_value(); })) return false;
  if (!mask) return true;
  // Between slices the dimensions of arrays are others.
  const Conditions* all = values.conditions(op.operands[static_cast<size_t>(mask->i)]);
  if (!all || any([](const auto& e) { return e.is_slice(); })) return false;
  const size_t own = dims_of(g, op, static_cast<int>(mask->i)), rank = rank_of(g, op, index);
  return std::all_of(all->begin(), all->end(), [&](const AffineExpr& c) {
    return leaves_out_what_is_outside(aligned(c, own, rank), *access, dims);
  });
}

}  // namespace

Access access_of(const Window& w, std::span<const ir::GridAxis> grid) {
  Access r(std::min(w.map.index.size(), w.dims.size()));
  for (size_t d = 0; d < r.size(); ++d) {
    const Affine& index = w.map.index[d];
    if (!index.known) continue;
    AffineExpr e(index.constant);
    for (size_t g = 0; g < grid.size(); ++g) e = e + coordinate(g, grid[g]) * index.coefficient[g];
    r[d] = e * w.map.scale[d] - AffineExpr(w.map.pad_lo[d]) + position(d, w.map.extent[d]);
  }
  return r;
}

bool disjoint_along(size_t axis, std::span<const Access* const> all) {
  const auto disjoint = [&](size_t d) {
    const std::optional<AffineExpr>& first = (*all.front())[d];
    if (!first || first->along(axis) == 0 || !first->moves_alone_along(axis)) return false;
    const auto coordinates = [](const AffineExpr& e) { return e - e.without(Kind::Axis); };
    std::optional<Interval> reach;
    for (const Access* a : all) {
      const std::optional<AffineExpr>& e = (*a)[d];
      if (!e || coordinates(*e) != coordinates(*first)) return false;
      const Interval own = e->without(Kind::Axis).range();
      reach = reach ? hull(*reach, own) : own;
    }
    return memory::sub(reach->greatest, reach->least) < std::abs(first->along(axis));
  };
  for (size_t d = 0; !all.empty() && d < all.front()->size(); ++d)
    if (disjoint(d)) return true;
  return false;
}

std::vector<bool> disjoint_axes(const ir::Graph& graph, const Expressions& values, ValueId ref, size_t axes) {
  std::vector<const Op*> ops;
  std::vector<bool> r(axes, false);
  if (!find_accesses(graph.region, ref, &ops)) return r;
  std::vector<Access> all;
  for (const Op* op : ops) {
    std::optional<Access> access = access_of(values, graph, *op);
    if (!access) return r;
    for (std::optional<AffineExpr>& e : *access)
      if (e && e->range().least < 0) e.reset();  // an array's may count from the end
    all.push_back(std::move(*access));
  }
  std::vector<const Access*> each;
  for (const Access& a : all) each.push_back(&a);
  for (size_t g = 0; g < axes; ++g) r[g] = disjoint_along(g, each);
  return r;
}

bool covers(const Access& access, std::span<const int64_t> dims, std::vector<bool>* axes) {
  std::vector<int> taken;  // positions
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!access[d]) return false;
    std::vector<Term> terms = access[d]->terms;
    std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return std::abs(a.by) < std::abs(b.by); });
    int64_t run = 1;  // elements in a row
    for (const Term& t : terms) {
      const auto n = static_cast<size_t>(t.symbol.id);
      if (t.symbol.kind == Kind::Axis) {
        if (!axes || (*axes)[n] || t.symbol.values.greatest == INT32_MAX) return false;
        (*axes)[n] = true;
      } else if (t.symbol.kind != Kind::Dim || std::count(taken.begin(), taken.end(), t.symbol.id)) {
        return false;
      } else {
        taken.push_back(t.symbol.id);
      }
      if (std::abs(t.by) > run) return false;
      run = memory::add(run, memory::mul(std::abs(t.by), t.symbol.values.greatest));
    }
    const Interval range = access[d]->range();
    if (range.least > 0 || range.greatest < dims[d] - 1) return false;
  }
  return true;
}

bool covered_by_stores(const ir::Graph& graph, const Expressions& values, ValueId ref, std::span<const int64_t> dims,
                       std::vector<bool>* axes) {
  std::vector<const Op*> ops;
  if (!find_accesses(graph.region, ref, &ops) ||
      !std::all_of(ops.begin(), ops.end(), [](const Op* op) { return is_store(*op); }))
    return false;
  const std::vector<Op>& always = graph.region.ops;
  return std::any_of(always.begin(), always.end(), [&](const Op& op) {
    std::vector<bool> own = axes ? *axes : std::vector<bool>();
    const bool found =
        std::count(ops.begin(), ops.end(), &op) && store_covers(values, graph, op, dims, axes ? &own : nullptr);
    if (found && axes) *axes = own;
    return found;
  });
}

}  // namespace pallasim::interp::analysis
