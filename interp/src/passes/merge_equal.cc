// Scalar operations without effects that an earlier one of the same operands and attributes computed, in the same
// region or one around it, go; who used their results uses the earlier ones. The numbers of values are then no longer
// without gaps.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "pallasim/interp/rewrites.h"
#include "pallasim/ir/equal.h"
#include "pallasim/ir/op_table.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

using ir::Op, ir::Region, ir::ValueId;

class Merger {
 public:
  explicit Merger(ir::Graph& graph) : graph_(graph) {}

  int run() {
    region(graph_.region);
    return merged_;
  }

 private:
  bool scalar(const Op& op) const {
    const ir::OpInfo& info = ir::info(op.code);
    const bool value = info.family == ir::Family::Elementwise || info.rule == ir::TypeRule::Index ||
                       info.rule == ir::TypeRule::Constant;
    return value && info.effects == ir::kEffectNone && op.regions.empty() && !op.results.empty() &&
           std::all_of(op.results.begin(), op.results.end(), [&](ValueId v) { return graph_.type(v)->is_scalar(); });
  }

  static size_t hash(const Op& op) {
    size_t h = static_cast<size_t>(op.code);
    for (ValueId v : op.operands) h = h * 1000003 + static_cast<size_t>(v);
    return h;
  }

  bool same(const Op& a, const Op& b) const {
    if (a.code != b.code || a.operands != b.operands || a.attrs.size() != b.attrs.size()) return false;
    for (size_t i = 0; i < a.attrs.size(); ++i)
      if (a.attrs[i].first != b.attrs[i].first || !ir::equal(a.attrs[i].second, b.attrs[i].second)) return false;
    return std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                      [&](ValueId x, ValueId y) { return ir::equal(graph_.type(x), graph_.type(y)); });
  }

  // The earlier operation that computed the same; null where this one is the first.
  const Op* earlier(const Op& op, size_t h) const {
    const auto it = seen_.find(h);
    if (it == seen_.end()) return nullptr;
    const auto first = std::find_if(it->second.begin(), it->second.end(), [&](const Op* x) { return same(*x, op); });
    return first == it->second.end() ? nullptr : *first;
  }

  void region(Region& r) {
    std::vector<Op> kept;
    kept.reserve(r.ops.size());  // seen_ points into it
    std::vector<size_t> mine;    // hashes of what this region added
    for (Op& op : r.ops) {
      for (ValueId& v : op.operands)
        if (const auto it = instead_.find(v); it != instead_.end()) v = it->second;
      // The mesh of spawned threads may have an axis of a name that the body's own has, too.
      const bool other_axes = op.code == ir::OpCode::spawn;
      auto outer = other_axes ? std::exchange(seen_, {}) : decltype(seen_){};
      for (Region& inner : op.regions) region(inner);
      if (other_axes) seen_ = std::move(outer);
      const bool may_merge = scalar(op);
      const size_t h = may_merge ? hash(op) : 0;
      if (const Op* first = may_merge ? earlier(op, h) : nullptr) {
        for (size_t i = 0; i < op.results.size(); ++i) instead_[op.results[i]] = first->results[i];
        ++merged_;
        continue;
      }
      kept.push_back(std::move(op));
      if (may_merge) seen_[h].push_back(&kept.back()), mine.push_back(h);
    }
    r.ops = std::move(kept);
    for (const size_t h : mine) seen_[h].pop_back();  // the region ends: what it computed may not have run
  }

  ir::Graph& graph_;
  std::unordered_map<size_t, std::vector<const Op*>> seen_;
  std::unordered_map<ValueId, ValueId> instead_;
  int merged_ = 0;
};

}  // namespace

int64_t merge_equal(const Target& t) {
  const int merged = Merger(t.graph).run();
  count(Rewrite::EqualScalar, merged);
  return merged;
}

}  // namespace pallasim::interp::passes
