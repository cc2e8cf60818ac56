#include "covered.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "forms.h"
#include "pallasim/memory/saturate.h"
#include "predicates.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

// A value behind the broadcasts that an access makes of it: its dimensions, as those of the access.
struct Root {
  ValueId value = -1;
  std::vector<int> dims;  // -1: one element
  bool operator==(const Root&) const = default;
};

// From `least` on so many elements, moved by an axis of the grid (-1: by none).
struct Strip {
  int axis = -1;
  int64_t step = 0, least = 0, size = 1;
};

bool is_store(const Op& op, ValueId ref) {
  return (op.code == OpCode::store || op.code == OpCode::masked_store) && op.operands[0] == ref;
}

bool stored_alone(const Region& r, ValueId ref) {
  return std::all_of(r.ops.begin(), r.ops.end(), [&](const Op& op) {
    const auto uses = std::count(op.operands.begin(), op.operands.end(), ref);
    return (uses == 0 || (uses == 1 && is_store(op, ref))) &&
           std::all_of(op.regions.begin(), op.regions.end(), [&](const Region& in) { return stored_alone(in, ref); });
  });
}

class Covered {
 public:
  Covered(const ir::Graph& graph, std::span<const ir::GridAxis> grid, ValueId ref, std::span<const int64_t> dims,
          bool by_points)
      : graph_(graph),
        grid_(grid),
        forms_(graph, grid),
        defs_(graph.region),
        ref_(ref),
        dims_(dims),
        by_points_(by_points) {}

  bool find() const {
    const std::vector<Op>& ops = graph_.region.ops;
    return std::any_of(ops.begin(), ops.end(), [&](const Op& op) { return is_store(op, ref_) && covers(op); });
  }

 private:
  bool covers(const Op& op) const {
    const std::span<const ir::View> view = op.view();
    const auto* index = view.size() == 1 ? std::get_if<ir::view::Index>(&view.front()) : nullptr;
    if (!index || index->entries.size() != dims_.size()) return view.empty() && !op.attr("mask");
    const size_t rank = graph_.type(op.operands[1])->dims.size();
    std::vector<bool> axes(grid_.size(), false), used(rank, false);
    std::vector<Root> roots(dims_.size());
    for (size_t d = 0; d < dims_.size(); ++d) {
      const ir::view::Entry& e = index->entries[d];
      if (e.is_array()) {
        if (e.kind != ir::view::Entry::Kind::Array || e.ignored) return false;
        roots[d] = root_of(op.operands[static_cast<size_t>(e.operand)], rank);
      }
      const std::optional<Strip> s = e.is_array() ? of_array(roots[d], &used) : of_entry(op, e);
      if (!s || !covers(*s, dims_[d], &axes)) return false;
    }
    const ir::Attr* mask = op.attr("mask");
    // Between slices the dimensions of arrays are others.
    if (mask && std::any_of(index->entries.begin(), index->entries.end(), [](const auto& e) { return e.is_slice(); }))
      return false;
    return !mask || leaves_out_what_is_outside(op.operands[static_cast<size_t>(mask->i)], identity(rank), roots);
  }

  bool covers(const Strip& s, int64_t size, std::vector<bool>* axes) const {
    if (s.least > 0) return false;
    if (s.axis < 0) return s.least + s.size >= size;
    const auto g = static_cast<size_t>(s.axis);
    if (!by_points_ || (*axes)[g] || grid_[g].dynamic >= 0 || s.step <= 0 || s.step > s.size) return false;
    (*axes)[g] = true;
    return memory::add(memory::mul(s.step, grid_[g].size - 1), s.least + s.size) >= size;
  }

  // Of a number or slice.
  std::optional<Strip> of_entry(const Op& op, const ir::view::Entry& e) const {
    const bool slice = e.is_slice();
    if (slice && (!e.size.is_static() || !e.stride.is_static() || e.stride.value() != 1)) return {};
    const std::optional<Form> f = forms_.start(op, e);
    return f && f->exact() ? strip_of(*f, slice ? e.size.value() : 1) : std::nullopt;
  }

  // Of indices that are all the same, or follow each other along a dimension that no other array has.
  std::optional<Strip> of_array(const Root& r, std::vector<bool>* used) const {
    const Form* f = r.value < 0 ? nullptr : forms_.form(r.value);
    if (f && graph_.type(r.value)->is_scalar()) return f->exact() ? strip_of(*f, 1) : std::nullopt;
    if (!f || r.dims.size() != 1 || r.dims[0] < 0 || (*used)[static_cast<size_t>(r.dims[0])] || !counts_up(r.value))
      return {};
    (*used)[static_cast<size_t>(r.dims[0])] = true;
    const int64_t size = graph_.type(r.value)->dims[0].size;
    return f->rest.greatest - f->rest.least == size - 1 ? strip_of(*f, size) : std::nullopt;
  }

  static std::optional<Strip> strip_of(const Form& f, int64_t size) {
    Strip s{-1, 0, f.rest.least, size};
    for (size_t g = 0; g < f.coefficient.size(); ++g) {
      if (f.coefficient[g] == 0) continue;
      if (s.axis >= 0) return {};
      s.axis = static_cast<int>(g), s.step = f.coefficient[g];
    }
    return s;
  }

  bool is_uniform(ValueId v) const {
    if (graph_.type(v)->is_scalar()) return true;
    const Op* op = defs_.of(v);
    return op && op->code == OpCode::broadcast_in_dim && is_uniform(op->operands[0]);
  }

  // A number that is the same for all, and iota.
  bool counts_up(ValueId v) const {
    const Op* op = defs_.of(v);
    if (!op || graph_.type(v)->rank() != 1) return false;
    if (op->code == OpCode::iota) return true;
    if (op->code == OpCode::sub) return counts_up(op->operands[0]) && is_uniform(op->operands[1]);
    if (op->code != OpCode::add) return false;
    const ValueId a = op->operands[0], b = op->operands[1];
    return (counts_up(a) && is_uniform(b)) || (counts_up(b) && is_uniform(a));
  }

  static std::vector<int> identity(size_t rank) {
    std::vector<int> r(rank);
    std::iota(r.begin(), r.end(), 0);
    return r;
  }

  // Of an array whose last dimension is the access's.
  Root root_of(ValueId v, size_t rank) const {
    std::vector<int> dims = identity(rank);
    const auto own = graph_.type(v)->dims.size();
    if (own > rank) return {};
    dims.erase(dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(own));
    return behind_broadcasts(v, dims);
  }
  Root behind_broadcasts(ValueId v, std::vector<int> dims) const {
    const Op* op = defs_.of(v);
    while (op && op->code == OpCode::broadcast_in_dim) {
      dims = dims_behind(*op, dims);
      v = op->operands[0];
      op = defs_.of(v);
    }
    return {v, dims};
  }
  std::vector<int> dims_behind(const Op& broadcast, const std::vector<int>& dims) const {
    std::vector<int> r;
    const std::vector<ir::Dim>&from = graph_.type(broadcast.operands[0])->dims,
          &to = graph_.type(broadcast.results[0])->dims;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto d = static_cast<size_t>(broadcast.attr("dims")->items[i].i);
      r.push_back(from[i] == to[d] ? dims[d] : -1);
    }
    return r;
  }

  // Comparisons of the indices themselves with the end of their dimension, or with more.
  bool leaves_out_what_is_outside(ValueId mask, std::vector<int> dims, const std::vector<Root>& roots) const {
    const Op* op = defs_.of(mask);
    if (!op) return false;
    if (op->code == OpCode::broadcast_in_dim)
      return leaves_out_what_is_outside(op->operands[0], dims_behind(*op, dims), roots);
    if (op->code == OpCode::and_)
      return std::all_of(op->operands.begin(), op->operands.end(), [&](ValueId v) {
        return graph_.type(v)->dims.size() == dims.size() && leaves_out_what_is_outside(v, dims, roots);
      });
    if (op->code != OpCode::lt || graph_.type(op->operands[0])->dims.size() != dims.size()) return false;
    const Root root = behind_broadcasts(op->operands[0], dims);
    const Form* bound = forms_.form(op->operands[1]);
    for (size_t d = 0; d < roots.size(); ++d)
      if (roots[d].value >= 0 && roots[d] == root) return bound && bound->constant() && bound->rest.least >= dims_[d];
    return false;
  }

  const ir::Graph& graph_;
  std::span<const ir::GridAxis> grid_;
  const Forms forms_;
  const Definitions defs_;
  const ValueId ref_;
  std::span<const int64_t> dims_;
  const bool by_points_;
};

}  // namespace

bool covered_by_stores(const ir::Graph& graph, std::span<const ir::GridAxis> grid, ValueId ref,
                       std::span<const int64_t> dims, bool by_points) {
  return stored_alone(graph.region, ref) && Covered(graph, grid, ref, dims, by_points).find();
}

}  // namespace pallasim::interp::analysis
