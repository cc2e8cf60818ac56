// Memory that copies alone fill or empty. Where copies alone write to it and loads alone read it, its bytes may stay
// where copies bring them from; a value that is stored to it for one copy alone may be computed where that takes it.
// What is found here the compiler asks by value and operation; whether bytes may stay is then known when the kernel
// runs.
#include <fmt/format.h>

#include <algorithm>

#include "../analysis/refs.h"
#include "passes.h"

namespace pallasim::interp::passes {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

// -- bytes that stay --

bool is_plain(std::span<const ir::View> view) {
  if (view.empty()) return true;
  const auto* index = view.size() == 1 ? std::get_if<ir::view::Index>(&view.front()) : nullptr;
  return index && !index->has_arrays();
}

bool only_copied_to_or_loaded(const ir::Graph& graph, const Op& op, ValueId ref, bool* loaded, bool* copied) {
  const auto uses = std::count(op.operands.begin(), op.operands.end(), ref);
  if (uses == 0 || op.code == OpCode::dma_wait) return true;
  if (uses > 1 || !op.regions.empty()) return false;
  if (op.code == OpCode::get) {
    *loaded = true;
    return op.operands[0] == ref && !graph.types[static_cast<size_t>(op.results[0])]->is_scalar() &&
           is_plain(op.view());
  }
  const ir::Viewed* dst = op.viewed("dst");
  if ((op.code != OpCode::dma_start && op.code != OpCode::copy_gmem_to_smem) || !dst) return false;
  *copied = true;
  return op.operands[static_cast<size_t>(dst->operand)] == ref && is_plain(dst->transforms);
}

bool elidable(const ir::Graph& graph, const Region& region, ValueId ref, bool* loaded, bool* copied) {
  return std::all_of(region.ops.begin(), region.ops.end(), [&](const Op& op) {
    return only_copied_to_or_loaded(graph, op, ref, loaded, copied) &&
           std::all_of(op.regions.begin(), op.regions.end(),
                       [&](const Region& r) { return elidable(graph, r, ref, loaded, copied); });
  });
}

// Whether copies alone write to the ref, and loads of arrays alone read it, under its own name: a part of it that plain
// indices name.
bool elidable(const ir::Graph& graph, const Region& region, ValueId ref) {
  bool loaded = false, copied = false;
  return elidable(graph, region, ref, &loaded, &copied) && loaded && copied;
}

// -- values that are computed where they are taken --

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

// Every store to a ref with the copy out of the same part that follows it in its region, with nothing between them that
// has to do with the ref. None where something else uses the ref, waits for copies excepted.
class Stores {
 public:
  Stores(const ir::Graph& graph, ValueId ref) : graph_(graph), ref_(ref) {}

  bool find(const Region& region) {
    const Op* stored = nullptr;
    for (const Op& op : region.ops) {
      const bool inside = std::any_of(op.regions.begin(), op.regions.end(),
                                      [&](const Region& r) { return analysis::touches(r, ref_); });
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

// Memory that is born with the region: its last `n` arguments.
void forward(const ir::Graph& graph, const Region& region, size_t n, CopyForwarding* found) {
  for (size_t i = region.args.size() - n; i < region.args.size(); ++i) {
    const ValueId ref = region.args[i];
    if (!graph.type(ref)->is_ref || ir::is_sync(graph.type(ref)->dtype)) continue;
    if (elidable(graph, region, ref)) found->elided.insert(ref);
    else if (Stores stores(graph, ref); stores.find(region)) found->stores.merge(stores.found);
  }
}

void forward_in(const ir::Graph& graph, const Region& region, CopyForwarding* found) {
  for (const Op& op : region.ops)
    for (const Region& r : op.regions) {
      if (op.code == OpCode::run_scoped) forward(graph, r, r.args.size(), found);
      forward_in(graph, r, found);
    }
}

}  // namespace

int64_t forward_copies(const Target& t) {
  if (!t.forwarding) return 0;
  forward(t.graph, t.graph.region, t.scratch, t.forwarding);
  forward_in(t.graph, t.graph.region, t.forwarding);
  return static_cast<int64_t>(t.forwarding->elided.size() + t.forwarding->stores.size());
}

std::string text_of(const CopyForwarding& f) {
  std::string r;
  for (ValueId v : f.elided) r += fmt::format("// what copies bring to %{} may stay where it is\n", v);
  std::set<ValueId> stored;
  for (const auto& [store, copy] : f.stores) stored.insert(store->operands[0]);
  for (ValueId v : stored) r += fmt::format("// what is stored to %{} may be computed where copies take it\n", v);
  return r;
}

}  // namespace pallasim::interp::passes
