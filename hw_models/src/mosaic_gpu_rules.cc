// Rules of JAX's Mosaic GPU lowering (jax experimental/mosaic/gpu/wgmma.py and launch_context.py and
// _src/pallas/mosaic_gpu/primitives.py, 0.10.2) on products of a warpgroup and on bulk copies.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rules.h"

namespace pallasim::hw {
namespace {

using ir::DType, ir::OpCode;

using Shape = std::vector<int64_t>;

// Extents after a transform; false where they are known at run time only, or nobody needs them here.
struct Shapes {
  Shape dims;

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
  template <typename T>
  bool operator()(const T&) {
    return false;
  }
};

class MosaicGpuRules {
 public:
  MosaicGpuRules(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out)
      : m_(m), p_(p), by_lanes_(by_lanes(m)), out_(out) {}

  void check() {
    for (const ir::Body& b : m_.bodies) {
      graph_ = &b.graph;
      region(b.graph.region);
    }
  }

 private:
  void region(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      if (op.code == OpCode::wgmma_ref || op.code == OpCode::wgmma) product(op);
      if (op.code == OpCode::copy_gmem_to_smem) copy(op, "dst");
      if (op.code == OpCode::copy_smem_to_gmem) copy(op, "src");
      for (const ir::Region& inner : op.regions) region(inner);
    }
  }

  // The operand of an attribute, and its extents as far as they are known here.
  const ir::Type* operand(const ir::Op& op, const char* key, std::optional<Shape>* shape) const {
    const ir::Viewed* v = op.viewed(key);
    const ir::Attr* a = op.attr(key);
    const auto k = static_cast<size_t>(v ? v->operand : a && a->is(ir::Attr::Kind::Operand) ? a->i : -1);
    if (k >= op.operands.size()) return nullptr;
    const ir::Type* t = graph_->type(op.operands[k]);
    Shapes seen;
    for (const ir::Dim& d : t->dims) seen.dims.push_back(d.size);
    bool known = true;
    for (size_t i = 0; v && known && i < v->transforms.size(); ++i) known = std::visit(seen, v->transforms[i]);
    if (known) *shape = std::move(seen.dims);
    return t;
  }

  void refuse(ir::Code code, const ir::Op& op, std::string message, std::string hint) {
    report(m_, out_, code, std::move(message), op.loc, std::move(hint));
  }

  void product(const ir::Op& op) {
    std::optional<Shape> acc, a, b;
    const ir::Type *to = operand(op, "acc", &acc), *left = operand(op, "a", &a), *right = operand(op, "b", &b);
    if (!to || !left || !right) return;
    const auto type = [](const ir::Type* t) { return std::string(ir::name(t->dtype)); };
    if (p_.compute_capability != "9.0")
      return refuse("PS-MGPU-001", op, "wgmma on " + p_.name,
                    "Hopper's warpgroups multiply matrices so, no other chip");
    if (left->dtype != right->dtype)
      return refuse("PS-MGPU-001", op, "wgmma of " + type(left) + " and " + type(right),
                    "both operands have one type: convert one of them before it is stored");
    if (!types_fit(left->dtype, to->dtype))
      return refuse("PS-MGPU-001", op, "wgmma of " + type(left) + " into " + type(to),
                    "f32 and bf16 are summed in f32, f16 and f8 in f16 or f32, i8 in i32");
    if (!acc || acc->size() != 2) return;
    const int64_t m = (*acc)[0], n = (*acc)[1];
    if (m % 64 != 0)
      return refuse("PS-MGPU-001", op, fmt::format("wgmma of {} rows", m),
                    "rows come in 64s, of which a warpgroup's warps have 16 each");
    if (n % 8 != 0 || n > 256)
      return refuse("PS-MGPU-001", op, fmt::format("wgmma of {} columns", n), "columns come in 8s, and at most 256");
    tags(op, *left, *right);
  }

  // How an operand lies in shared memory: rows of `swizzle` bytes, in tiles of `tiling`.
  struct Tags {
    bool shared = false;
    int64_t swizzle = 0;
    Shape tiling;
  };

  Tags tags_of(const ir::Op& op, const char* key, const ir::Type& t) const {
    Tags tags;
    const ir::Viewed* v = op.viewed(key);
    tags.shared = v && t.is_ref;
    for (size_t i = 0; v && i < v->transforms.size(); ++i) {
      if (const auto* s = std::get_if<ir::view::Swizzle>(&v->transforms[i])) tags.swizzle = s->bytes;
      if (const auto* s = std::get_if<ir::view::Tile>(&v->transforms[i])) tags.tiling = s->tiling;
    }
    return tags;
  }

  void tags(const ir::Op& op, const ir::Type& left, const ir::Type& right) {
    const Tags a = tags_of(op, "a", left), b = tags_of(op, "b", right);
    const int64_t bytes = ir::byte_size(left.dtype);
    const char* const hint =
        "plgpu.TilingTransform((8, swizzle // itemsize)) and plgpu.SwizzleTransform(swizzle) of both operands' SMEM";
    for (const Tags* t : {&a, &b}) {
      const std::string which = t == &a ? "left" : "right";
      if (!t->shared || (!by_lanes_ && t->swizzle == 0 && t->tiling.empty())) continue;
      if (t->swizzle == 0 || t->tiling.empty())
        return refuse("PS-MGPU-001", op, fmt::format("wgmma of a {} operand that is not tiled and swizzled", which),
                      hint);
      if (t->tiling != Shape{8, t->swizzle / bytes})
        return refuse("PS-MGPU-001", op,
                      fmt::format("wgmma of a {} operand of {} in tiles of ({}) that is swizzled by {} bytes", which,
                                  ir::name(left.dtype), fmt::join(t->tiling, ", "), t->swizzle),
                      hint);
    }
    if (a.swizzle != b.swizzle && a.swizzle != 0 && b.swizzle != 0)
      refuse("PS-MGPU-001", op,
             fmt::format("wgmma of operands that are swizzled by {} and by {} bytes", a.swizzle, b.swizzle), hint);
  }

  // Under the other semantics the compiler chooses how memory is tiled and swizzled where the kernel does not say.
  static bool by_lanes(const ir::Module& m) {
    const ir::Attr* params = ir::find(m.attrs, "params");
    for (size_t i = 0; params && i < params->keys.size(); ++i)
      if (params->keys[i] == "lowering_semantics") return params->items[i].s == "lane";
    return jax_minor(m) <= 10;
  }

  static bool types_fit(DType in, DType acc) {
    switch (in) {
      case DType::F32:
      case DType::BF16: return acc == DType::F32;
      case DType::F16:
      case DType::F8E5M2:
      case DType::F8E4M3FN: return acc == DType::F16 || acc == DType::F32;
      case DType::I8:
      case DType::U8: return acc == DType::I32;
      default: return false;
    }
  }

  void copy(const ir::Op& op, const char* shared) {
    std::optional<Shape> shape;
    const ir::Type* t = operand(op, shared, &shape);
    if (!t) return;
    if (p_.compute_capability.starts_with("8."))
      return refuse("PS-MGPU-002", op, std::string(ir::name(op.code)) + " on " + p_.name,
                    "bulk copies came with Hopper");
    if (!shape || shape->empty()) return;
    if (shape->size() > 5)
      return refuse("PS-MGPU-002", op, fmt::format("a bulk copy of rank {}", shape->size()), "at most 5 dimensions");
    const int64_t bits = shape->back() * ir::bit_width(t->dtype);
    if (bits % 128 != 0)
      refuse("PS-MGPU-002", op, fmt::format("a bulk copy whose last dimension has {} bits", bits),
             "the last dimension is a multiple of 16 bytes");
  }

  const ir::Module& m_;
  const Profile& p_;
  const bool by_lanes_;
  std::vector<ir::Diagnostic>* out_;
  const ir::Graph* graph_ = nullptr;
};

}  // namespace

void check_mosaic_gpu(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  MosaicGpuRules(m, p, out).check();
}

}  // namespace pallasim::hw
