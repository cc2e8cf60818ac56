// Rules of JAX's Mosaic GPU lowering (jax experimental/mosaic/gpu/wgmma.py and launch_context.py and
// _src/pallas/mosaic_gpu/primitives.py, 0.10.2) on products of a warpgroup and on bulk copies.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mosaic_gpu_operands.h"
#include "pallasim/memory/saturate.h"

namespace pallasim::hw {
namespace {

using ir::DType, ir::OpCode;

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

  Operand operand(const ir::Op& op, const char* key) const { return operand_of(*graph_, op, key); }

  void refuse(ir::Code code, const ir::Op& op, std::string message, std::string hint) {
    report(m_, out_, code, std::move(message), op.loc, std::move(hint));
  }

  void product(const ir::Op& op) {
    const Operand acc = operand(op, "acc"), a = operand(op, "a"), b = operand(op, "b");
    if (!acc.type || !a.type || !b.type) return;
    const auto type = [](const Operand& o) { return std::string(ir::name(o.dtype)); };
    if (p_.compute_capability != "9.0")
      return refuse("PS-MGPU-001", op, "wgmma on " + p_.name,
                    "Hopper's warpgroups multiply matrices so, no other chip");
    if (a.dtype != b.dtype)
      return refuse("PS-MGPU-001", op, "wgmma of " + type(a) + " and " + type(b),
                    "both operands have one type: convert one of them before it is stored");
    if (!types_fit(a.dtype, acc.dtype))
      return refuse("PS-MGPU-001", op, "wgmma of " + type(a) + " into " + type(acc),
                    "f32 and bf16 are summed in f32, f16 and f8 in f16 or f32, i8 in i32");
    if (!acc.shape || acc.shape->size() != 2) return;
    const int64_t m = (*acc.shape)[0], n = (*acc.shape)[1];
    if (m % 64 != 0)
      return refuse("PS-MGPU-001", op, fmt::format("wgmma of {} rows", m),
                    "rows come in 64s, of which a warpgroup's warps have 16 each");
    if (n % 8 != 0 || n > 256)
      return refuse("PS-MGPU-001", op, fmt::format("wgmma of {} columns", n), "columns come in 8s, and at most 256");
    tags(op, a, b);
  }

  void tags(const ir::Op& op, const Operand& left, const Operand& right) {
    const Tags a = tags_of(op, "a", left), b = tags_of(op, "b", right);
    const char* const hint =
        "plgpu.TilingTransform((8, swizzle // itemsize)) and plgpu.SwizzleTransform(swizzle) of both operands' SMEM";
    for (const Tags* t : {&a, &b}) {
      const std::string which = t == &a ? "left" : "right";
      if (!t->shared || (!by_lanes_ && t->swizzle == 0 && t->tiling.empty())) continue;
      if (t->swizzle == 0 || t->tiling.empty())
        return refuse("PS-MGPU-001", op, fmt::format("wgmma of a {} operand that is not tiled and swizzled", which),
                      hint);
      if (!t->fits(left.dtype))
        return refuse("PS-MGPU-001", op,
                      fmt::format("wgmma of a {} operand of {} in tiles of ({}) that is swizzled by {} bytes", which,
                                  ir::name(left.dtype), fmt::join(t->tiling, ", "), t->swizzle),
                      hint);
    }
    if (a.swizzle != b.swizzle && a.swizzle != 0 && b.swizzle != 0)
      refuse("PS-MGPU-001", op,
             fmt::format("wgmma of operands that are swizzled by {} and by {} bytes", a.swizzle, b.swizzle), hint);
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
    const auto [t, dtype, shape] = operand(op, shared);
    if (!t) return;
    if (p_.compute_capability.starts_with("8."))
      return refuse("PS-MGPU-002", op, std::string(ir::name(op.code)) + " on " + p_.name,
                    "bulk copies came with Hopper");
    if (p_.compute_capability.starts_with("9.")) later(op, op.code == OpCode::copy_gmem_to_smem ? "src" : "dst");
    if (!shape || shape->empty()) return;
    // Dimensions of size 1 are dropped.
    const auto rank = std::count_if(shape->begin(), shape->end(), [](int64_t n) { return n != 1; });
    if (rank > 5) return refuse("PS-MGPU-002", op, fmt::format("a bulk copy of rank {}", rank), "at most 5 dimensions");
    const int64_t bits = shape->back() * ir::bit_width(dtype);
    if (bits % 128 != 0)
      return refuse("PS-MGPU-002", op, fmt::format("a bulk copy whose last dimension has {} bits", bits),
                    "the last dimension is a multiple of 16 bytes");
    int64_t bytes = ir::bit_width(dtype);
    for (int64_t d : *shape) bytes = memory::mul(bytes, d);
    bytes /= 8;
    if (by_lanes_ && op.code == OpCode::copy_gmem_to_smem && bytes % kWarpgroup != 0)
      refuse(
          "PS-MGPU-002", op, fmt::format("a bulk copy of {} bytes", bytes),
          fmt::format("each of a warpgroup's {0} threads expects as many bytes: copy a multiple of {0}", kWarpgroup));
  }

  // What came with the chips behind Hopper (PTX ISA: .tile::gather4, .tile::scatter4 and .cta_group::2, sm_100).
  void later(const ir::Op& op, const char* global) {
    const ir::Viewed* v = op.viewed(global);
    const auto* last = v && !v->transforms.empty() ? std::get_if<ir::view::Index>(&v->transforms.back()) : nullptr;
    if (last && last->has_arrays())
      refuse("PS-MGPU-002", op, "a bulk copy of rows that a list chooses on " + p_.name,
             "it came with Blackwell: copy the rows one by one, each with its index as a scalar");
    if (op.attr("leader_tracked"))
      refuse("PS-MGPU-002", op, "a bulk copy of pairs of CTAs on " + p_.name,
             "leader_tracked came with Blackwell: leave it out, and every CTA's barrier gets its own bytes");
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
  check_tensor_memory(m, p, out);
  check_registers(m, p, out);
  check_scopes(m, out);
}

}  // namespace pallasim::hw
