#include "forwarded_stores.h"

#include <algorithm>

#include "refs.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

// A part of a ref as an operation names it: without arrays, what it is seen through laid out as memory is.
bool is_part(std::span<const ir::View> view) {
  return std::all_of(view.begin(), view.end(), [](const ir::View& v) {
    const auto* index = std::get_if<ir::view::Index>(&v);
    return index ? !index->has_arrays()
                 : std::holds_alternative<ir::view::Tile>(v) || std::holds_alternative<ir::view::Swizzle>(v);
  });
}

bool same(const ir::ViewInt& a, const Op& of_a, const ir::ViewInt& b, const Op& of_b) {
  if (a.is_operand() != b.is_operand()) return false;
  return a.is_operand() ? of_a.operands[static_cast<size_t>(a.operand)] == of_b.operands[static_cast<size_t>(b.operand)]
                        : a == b;
}

bool same_part(std::span<const ir::View> a, const Op& of_a, std::span<const ir::View> b, const Op& of_b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const ir::View& x, const ir::View& y) {
    const auto *i = std::get_if<ir::view::Index>(&x), *j = std::get_if<ir::view::Index>(&y);
    if (!i || !j) return x == y;
    return std::equal(i->entries.begin(), i->entries.end(), j->entries.begin(), j->entries.end(),
                      [&](const ir::view::Entry& e, const ir::view::Entry& f) {
                        return e.kind == f.kind && same(e.start, of_a, f.start, of_b) &&
                               same(e.size, of_a, f.size, of_b) && same(e.stride, of_a, f.stride, of_b);
                      });
  });
}

class ForwardedStores {
 public:
  ForwardedStores(const ir::Graph& graph, ValueId ref) : graph_(graph), ref_(ref) {}

  bool find(const Region& region) {
    const Op* stored = nullptr;
    for (const Op& op : region.ops) {
      const bool inside =
          std::any_of(op.regions.begin(), op.regions.end(), [&](const Region& r) { return touches(r, ref_); });
      const auto uses = std::count(op.operands.begin(), op.operands.end(), ref_);
      if (!inside && (uses == 0 || op.code == OpCode::dma_wait)) continue;
      if (inside) {
        if (stored || uses > 0 || !std::all_of(op.regions.begin(), op.regions.end(), [&](auto& r) { return find(r); }))
          return false;
      } else if (uses > 1 || !(stored ? takes(op, *stored) : is_store(op))) {
        return false;
      } else {
        if (stored) found[stored] = &op;
        stored = stored ? nullptr : &op;
      }
    }
    return !stored;
  }
  std::unordered_map<const Op*, const Op*> found;

 private:
  bool is_store(const Op& op) const {
    return op.code == OpCode::store && op.operands[0] == ref_ && is_part(op.view()) &&
           !graph_.type(op.operands[1])->is_scalar();
  }
  bool takes(const Op& op, const Op& stored) const {
    if (op.code != OpCode::dma_start && op.code != OpCode::copy_smem_to_gmem) return false;
    const ir::Viewed* src = op.viewed("src");
    return src && op.operands[static_cast<size_t>(src->operand)] == ref_ &&
           same_part(stored.view(), stored, src->transforms, op);
  }
  const ir::Graph& graph_;
  const ValueId ref_;
};

}  // namespace

std::unordered_map<const Op*, const Op*> forwarded_stores(const ir::Graph& graph, const Region& region, ValueId ref) {
  ForwardedStores d(graph, ref);
  if (!d.find(region)) return {};
  return std::move(d.found);
}

}  // namespace pallasim::interp::analysis
