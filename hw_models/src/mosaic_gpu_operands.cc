#include "mosaic_gpu_operands.h"

namespace pallasim::hw {
namespace {

// Extents and type after a transform; false where the extents are known at run time only, or nobody needs them here.
struct Shapes {
  Shape dims;
  ir::DType dtype = ir::DType::F32;

  bool operator()(const ir::view::Index& t) {
    Shape next;
    for (const ir::view::Entry& e : t.entries) {
      if (e.is_array() || (e.is_slice() && !e.size.is_static())) return false;
      if (e.is_slice()) next.push_back(e.size.value());
    }
    dims = std::move(next);
    return true;
  }
  bool operator()(const ir::view::Transpose& t) {
    Shape next;
    for (int64_t d : t.perm) next.push_back(dims[static_cast<size_t>(d)]);
    dims = std::move(next);
    return true;
  }
  bool operator()(const ir::view::Tile& t) {
    const size_t n = t.tiling.size();
    if (!t.inverse || dims.size() < 2 * n) return false;
    for (size_t i = 0; i < n; ++i) dims[dims.size() - 2 * n + i] *= dims[dims.size() - n + i];
    dims.resize(dims.size() - n);
    return true;
  }
  bool operator()(const ir::view::Swizzle&) { return true; }
  bool operator()(const ir::view::Peer&) { return true; }
  bool operator()(const ir::view::Multicast&) { return true; }
  bool operator()(const ir::view::Bitcast& t) {
    dtype = t.dtype;
    return false;
  }
  bool operator()(const ir::view::Extract& t) {  // a member of a union
    dtype = t.dtype;
    dims.clear();
    for (const ir::Dim& d : t.dims) dims.push_back(d.size);
    return true;
  }
  template <typename T>
  bool operator()(const T&) {
    return false;
  }
};

}  // namespace

Operand operand_of(const ir::Graph& graph, const ir::Op& op, const char* key) {
  const ir::Viewed* v = op.viewed(key);
  const ir::Attr* a = op.attr(key);
  const auto k = static_cast<size_t>(v ? v->operand : a && a->is(ir::Attr::Kind::Operand) ? a->i : -1);
  if (k >= op.operands.size()) return {};
  const ir::Type* t = graph.type(op.operands[k]);
  Shapes seen;
  seen.dtype = t->dtype;
  for (const ir::Dim& d : t->dims) seen.dims.push_back(d.size);
  bool known = true;
  for (size_t i = 0; v && known && i < v->transforms.size(); ++i) known = std::visit(seen, v->transforms[i]);
  return {t, seen.dtype, known ? std::optional<Shape>(std::move(seen.dims)) : std::nullopt};
}

bool Tags::fits(ir::DType t) const {
  Shape tile = tiling;
  std::erase(tile, 1);
  return tile == Shape{8, swizzle * 8 / ir::bit_width(t)};
}

Tags tags_of(const ir::Op& op, const char* key, const Operand& o) {
  Tags tags;
  const ir::Viewed* v = op.viewed(key);
  tags.shared = v && o.type->is_ref && o.type->space == ir::Space::GpuSmem;
  for (size_t i = 0; v && i < v->transforms.size(); ++i) {
    if (const auto* s = std::get_if<ir::view::Swizzle>(&v->transforms[i])) tags.swizzle = s->bytes;
    if (const auto* s = std::get_if<ir::view::Tile>(&v->transforms[i])) tags.tiling = s->tiling;
  }
  return tags;
}

bool by_lanes(const ir::Module& m) {
  const ir::Attr* params = ir::find(m.attrs, "params");
  for (size_t i = 0; params && i < params->keys.size(); ++i)
    if (params->keys[i] == "lowering_semantics") return params->items[i].s == "lane";
  return jax_minor(m) <= 10;
}

}  // namespace pallasim::hw
