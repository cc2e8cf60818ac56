#include "places.h"

#include <algorithm>

#include "pallasim/memory/saturate.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

// Elements of one dimension that an access may touch: from a form's least value on, up to behind its greatest one.
struct Strip {
  std::vector<int64_t> coefficient;
  Range elements;  // ends behind the last one
};

class Places {
 public:
  Places(const ir::Graph& graph, const Forms& forms, ValueId ref)
      : forms_(forms), ref_(ref), strips_(graph.type(ref)->dims.size()) {
    known_ = visit(graph.region);
  }

  bool apart_along(size_t axis) const {
    return known_ && std::any_of(strips_.begin(), strips_.end(), [&](const auto& dim) { return apart(dim, axis); });
  }

 private:
  static bool accesses(OpCode code) {
    switch (code) {
      case OpCode::get:
      case OpCode::store:
      case OpCode::swap:
      case OpCode::masked_load:
      case OpCode::masked_store:
      case OpCode::masked_swap: return true;
      default: return false;
    }
  }

  // False: the ref is used by something that is no plain access.
  bool visit(const Region& r) {
    return std::all_of(r.ops.begin(), r.ops.end(), [&](const Op& op) {
      const auto uses = std::count(op.operands.begin(), op.operands.end(), ref_);
      if (uses > 0 && !(uses == 1 && accesses(op.code) && op.operands[0] == ref_ && add(op))) return false;
      return std::all_of(op.regions.begin(), op.regions.end(), [&](const Region& inner) { return visit(inner); });
    });
  }

  bool add(const Op& op) {
    const std::span<const ir::View> view = op.view();
    const auto* index = view.empty() ? nullptr : std::get_if<ir::view::Index>(&view.front());
    if (!index || index->entries.size() != strips_.size()) return false;
    for (size_t d = 0; d < strips_.size(); ++d) strips_[d].push_back(strip(op, index->entries[d]));
    return true;
  }

  std::optional<Strip> strip(const Op& op, const ir::view::Entry& e) const {
    using Kind = ir::view::Entry::Kind;
    if (e.kind == Kind::Ref || (e.kind == Kind::Slice && !(e.size.is_static() && e.stride.is_static()))) return {};
    const std::optional<Form> start = forms_.start(op, e);
    if (!start || forms_.range(*start).least < 0) return {};  // an array's may count from the end
    const int64_t more =
        e.kind == Kind::Slice ? memory::mul(std::max<int64_t>(e.size.value() - 1, 0), e.stride.value()) : 0;
    if (more < 0) return {};
    return Strip{start->coefficient, {start->rest.least, memory::add(start->rest.greatest, more + 1)}};
  }

  static bool apart(const std::vector<std::optional<Strip>>& dim, size_t axis) {
    if (dim.empty() || !dim.front() || axis >= dim.front()->coefficient.size()) return false;
    const std::vector<int64_t>& all = dim.front()->coefficient;
    for (size_t g = 0; g < all.size(); ++g)
      if ((all[g] != 0) != (g == axis)) return false;
    Range hull = dim.front()->elements;
    for (const std::optional<Strip>& s : dim) {
      if (!s || s->coefficient != all) return false;
      hull = {std::min(hull.least, s->elements.least), std::max(hull.greatest, s->elements.greatest)};
    }
    return hull.greatest - hull.least <= std::abs(all[axis]);
  }

  const Forms& forms_;
  const ValueId ref_;
  std::vector<std::vector<std::optional<Strip>>> strips_;  // of each dimension, per access; none: not known
  bool known_ = false;
};

}  // namespace

std::vector<bool> axes_apart(const ir::Graph& graph, const Forms& forms, ValueId ref, size_t axes) {
  const Places places(graph, forms, ref);
  std::vector<bool> r;
  for (size_t g = 0; g < axes; ++g) r.push_back(places.apart_along(g));
  return r;
}

}  // namespace pallasim::interp::analysis
