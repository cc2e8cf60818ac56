// Rules of JAX's Mosaic GPU lowering (jax experimental/mosaic/gpu/tcgen05.py and _src/pallas/mosaic_gpu/lowering.py and
// primitives.py, 0.10.2) on tensor memory and on products of the tensor pipe.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "mosaic_gpu_operands.h"

namespace pallasim::hw {
namespace {

using ir::DType, ir::OpCode;

constexpr int64_t kLanes = 128;

// How rows and columns lie on the lanes and columns of tensor memory; Unknown: nobody says.
enum class Order : uint8_t {
  Unknown,
  Lanes,         // a row a lane
  HalfLanes,     // 64 rows, half of the columns on other lanes than the rest: of one CTA
  PairedHalves,  // the same of a pair
  Scales,
  PairedScales,  // of a right operand whose columns belong to the halves of a pair
  Metadata,
};
struct TensorLayout {
  Order order = Order::Unknown;
  int64_t packed = 0;  // elements of a column of 32 bits; 0: nobody says
  bool pair = false;   // it is a pair's
};

bool is_replicated(const ir::Attr& a, int64_t times) {
  return a.is_call("Replicated") && a.items.size() == 1 && a.items[0].i == times;
}

// The order is told by the dimensions that choose the warp.
Order order_of(const ir::Attr& warps) {
  const std::vector<ir::Attr>& w = warps.items;
  const auto dim = [&](size_t i, int64_t n) { return w[i].is_int() && w[i].i == n; };
  if (w.size() == 2 && dim(0, -4) && dim(1, -5)) return Order::PairedHalves;
  if (w.size() == 2 && is_replicated(w[0], 2)) return Order::PairedScales;
  if (w.size() != 1) return Order::Unknown;
  if (is_replicated(w[0], 4)) return Order::Scales;
  return dim(0, -4) ? Order::Lanes : dim(0, -5) ? Order::HalfLanes : dim(0, -8) ? Order::Metadata : Order::Unknown;
}

TensorLayout layout_of(const ir::Attr* layout, bool pair) {
  TensorLayout r;
  r.pair = pair;
  if (!layout || !layout->is_call("TMEMLayout") || layout->items.size() < 2) return r;
  const ir::Attr &tiling = layout->items[0], &warps = layout->items[1];
  r.order = order_of(warps);
  if (!tiling.is_call("Tiling") || tiling.items.empty()) return r;
  const std::vector<ir::Attr>& tiles = tiling.items[0].items;
  if (!tiles.empty() && !tiles.back().items.empty()) r.packed = tiles.back().items.back().i;
  return r;
}

class TensorMemoryRules {
 public:
  TensorMemoryRules(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out)
      : m_(m), p_(p), out_(out) {}

  void check() {
    const size_t scratch = m_.scratch.size();
    for (const ir::Body& b : m_.bodies) {
      graph_ = &b.graph;
      const std::vector<ir::ValueId>& args = b.graph.region.args;
      for (size_t i = 0; i < scratch && scratch <= args.size(); ++i)
        note(args[args.size() - scratch + i], ir::find(m_.scratch[i].attrs, "layout"),
             ir::find(m_.scratch[i].attrs, "collective"));
      region(b.graph.region);
    }
  }

 private:
  void note(ir::ValueId ref, const ir::Attr* layout, const ir::Attr* pair) {
    const ir::Type* t = graph_->type(ref);
    if (!t->is_ref || t->space != ir::Space::Tmem) return;
    const TensorLayout& own = layouts_[ref] = layout_of(layout, pair && pair->is_true());
    if (pairs_ && *pairs_ != own.pair && !told_) {
      told_ = true;
      report(m_, out_, "PS-MGPU-004", "tensor memory of single CTAs and of pairs in one kernel", -1,
             "collective=True says that a pair has it: say so of all of it, or of nothing");
    }
    pairs_ = own.pair;
  }

  void region(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      const ir::Attr* facts = op.code == OpCode::run_scoped ? op.attr("allocs") : nullptr;
      for (size_t i = 0; facts && i < facts->items.size() && i < op.regions[0].args.size(); ++i) {
        const ir::Attr& of = facts->items[i];
        const auto fact = [&](const char* key) -> const ir::Attr* {
          const auto at = std::find(of.keys.begin(), of.keys.end(), key);
          return at == of.keys.end() ? nullptr : &of.items[static_cast<size_t>(at - of.keys.begin())];
        };
        note(op.regions[0].args[i], fact("layout"), fact("collective"));
      }
      if (op.code == OpCode::tcgen05_mma) product(op);
      for (const ir::Region& inner : op.regions) region(inner);
    }
  }

  void refuse(const ir::Op& op, std::string message, std::string hint) {
    report(m_, out_, "PS-MGPU-004", std::move(message), op.loc, std::move(hint));
  }

  // A member of a union says itself how it lies, where it does.
  TensorLayout layout(const ir::Op& op, const char* key) const {
    const ir::Viewed* v = op.viewed(key);
    if (!v || std::any_of(v->transforms.begin(), v->transforms.end(),
                          [](const ir::View& t) { return std::holds_alternative<ir::view::Extract>(t); }))
      return {};
    const auto it = layouts_.find(op.operands[static_cast<size_t>(v->operand)]);
    return it == layouts_.end() ? TensorLayout{} : it->second;
  }

  struct Product {
    Operand sum, a, b;
    bool pair = false, scaled = false, sparse = false;
    int64_t m = 0, n = 0, k = 0;  // n: columns of the right operand of one CTA
  };

  void product(const ir::Op& op) {
    Product x{operand_of(*graph_, op, "acc"), operand_of(*graph_, op, "a"), operand_of(*graph_, op, "b")};
    if (!x.sum.type || !x.a.type || !x.b.type) return;
    if (!p_.compute_capability.starts_with("10."))
      return refuse(op, "tcgen05_mma on " + p_.name, "tensor memory and its products came with Blackwell");
    // PTX ISA, tcgen05.mma: .kind::i8 is of sm_100a and sm_110a.
    if (p_.compute_capability == "10.3" && (x.a.dtype == DType::I8 || x.a.dtype == DType::U8))
      return refuse(op, fmt::format("tcgen05_mma of {} on {}", ir::name(x.a.dtype), p_.name),
                    "Blackwell Ultra has no products of i8 on its tensor pipe: multiply f8 or bf16");
    x.pair = op.attr("collective_axis") != nullptr;
    x.scaled = op.viewed("a_scale") != nullptr;
    x.sparse = op.viewed("a_sparse_metadata") != nullptr;
    if (!types(op, x)) return;
    if (!x.sum.shape || !x.b.shape || x.sum.shape->size() != 2 || x.b.shape->size() != 2) return;
    x.m = (*x.sum.shape)[0], x.k = (*x.b.shape)[0], x.n = (*x.b.shape)[1];
    if (rows(op, x) && columns(op, x) && tags(op, x)) layouts(op, x);
  }

  bool types(const ir::Op& op, const Product& x) {
    const std::string in(ir::name(x.a.dtype)), other(ir::name(x.b.dtype)), sum(ir::name(x.sum.dtype));
    const auto is_f8 = [](DType t) { return t == DType::F8E5M2 || t == DType::F8E4M3FN; };
    if (x.a.dtype != x.b.dtype && !(is_f8(x.a.dtype) && is_f8(x.b.dtype))) {
      refuse(op, "tcgen05_mma of " + in + " and " + other,
             "both operands have one type, or are of f8: convert one of them before it is stored");
      return false;
    }
    if (fits(x)) return true;
    refuse(op, fmt::format("tcgen05_mma of {} into {}{}", in, sum, x.scaled ? " with scales" : ""),
           "f32 and bf16 are summed in f32, f16 and f8 in f16 or f32, i8 in i32; with scales f8 and f4 in f32");
    return false;
  }

  static bool fits(const Product& x) {
    const DType in = x.a.dtype, sum = x.sum.dtype;
    switch (in) {
      case DType::F32:
      case DType::BF16: return sum == DType::F32 && !x.scaled && !(x.sparse && in == DType::F32);
      case DType::F16: return (sum == DType::F16 || sum == DType::F32) && !x.scaled;
      case DType::F8E5M2:
      case DType::F8E4M3FN: return sum == DType::F32 || (sum == DType::F16 && !x.scaled);
      case DType::F4E2M1FN: return sum == DType::F32 && x.scaled;
      case DType::I8:
      case DType::U8: return sum == DType::I32 && !x.scaled;
      default: return false;
    }
  }

  bool rows(const ir::Op& op, const Product& x) {
    const bool tensor = x.a.type->space == ir::Space::Tmem;
    if (x.m != 64 && x.m != kLanes) refuse(op, fmt::format("tcgen05_mma of {} rows", x.m), "a CTA has 64 rows or 128");
    else if (tensor && x.m != kLanes)
      refuse(op, "tcgen05_mma of 64 rows that lie in tensor memory", "a left operand in tensor memory has 128 rows");
    else if (tensor && x.scaled)
      refuse(op, "tcgen05_mma of a scaled left operand in tensor memory", "it lies in shared memory");
    else if (x.m == 64 && (x.sparse || (x.scaled && !x.pair)))
      refuse(op, fmt::format("tcgen05_mma of 64 rows {}", x.sparse ? "of a sparse operand" : "with scales"),
             "it has 128 rows, or with scales a pair of CTAs has them together");
    else return true;
    return false;
  }

  bool columns(const ir::Op& op, const Product& x) {
    const int64_t groups = x.m == 64 && !x.pair ? 2 : 1;  // of lanes
    int64_t multiple = (x.pair ? 16 : 8) * (x.sum.dtype == DType::I32 ? 2 : 1) * groups;
    if (x.sparse) multiple = std::max<int64_t>(multiple, x.pair && ir::bit_width(x.a.dtype) == 8 ? 32 : 16);
    if (x.scaled) multiple = std::max<int64_t>(multiple, 32);
    const int64_t most = x.pair ? 128 : 512;
    const bool even = x.n <= 256 || x.n == 512;
    if (x.n >= 1 && x.n % multiple == 0 && x.n <= most && even) return true;
    refuse(op, fmt::format("tcgen05_mma of {} columns{}", x.n, x.pair ? " of each CTA" : ""),
           fmt::format("here they come in {}s, and at most {}", multiple, x.pair ? "128" : "256, or 512"));
    return false;
  }

  bool tags(const ir::Op& op, const Product& x) {
    const Tags a = tags_of(op, "a", x.a), b = tags_of(op, "b", x.b);
    const char* const hint =
        "plgpu.TilingTransform((8, 8 * swizzle // bits)) and plgpu.SwizzleTransform(swizzle) of both operands' SMEM";
    int64_t bytes = 0;
    for (const Tags* t : {&a, &b}) {
      const std::string which = t == &a ? "left" : "right";
      if (!t->shared || (!by_lanes(m_) && t->swizzle == 0 && t->tiling.empty())) continue;
      if (t->swizzle == 0 || t->tiling.empty()) {
        refuse(op, fmt::format("tcgen05_mma of a {} operand that is not tiled and swizzled", which), hint);
        return false;
      }
      if (!t->fits(x.a.dtype)) {
        refuse(op,
               fmt::format("tcgen05_mma of a {} operand of {} in tiles of ({}) that is swizzled by {} bytes", which,
                           ir::name(x.a.dtype), fmt::join(t->tiling, ", "), t->swizzle),
               hint);
        return false;
      }
      bytes = std::max(bytes, t->swizzle * (t == &a && x.sparse ? 2 : 1));
    }
    if (a.shared && a.swizzle != b.swizzle && a.swizzle != 0 && b.swizzle != 0) {
      refuse(op, fmt::format("tcgen05_mma of operands that are swizzled by {} and by {} bytes", a.swizzle, b.swizzle),
             hint);
      return false;
    }
    const int64_t group = bytes * 8 / ir::bit_width(x.a.dtype);
    if (group == 0 || x.k % group == 0) return true;
    refuse(op, fmt::format("tcgen05_mma along {} elements of {}", x.k, ir::name(x.a.dtype)),
           fmt::format("they come in {}s, as the swizzle has them", group));
    return false;
  }

  // What is known of how operands in tensor memory lie is what the product takes.
  void layouts(const ir::Op& op, const Product& x) {
    const Order rows = x.m == kLanes ? Order::Lanes : x.pair ? Order::PairedHalves : Order::HalfLanes;
    const Order right = x.m == kLanes ? Order::Scales : Order::PairedScales;
    const int packed = 32 / ir::bit_width(x.a.dtype);
    const auto wrong = [&](const char* key, const char* what, Order order, int64_t each, const char* hint) {
      const TensorLayout l = layout(op, key);
      const bool other =
          (l.order != Order::Unknown && l.order != order) || (each > 0 && l.packed > 0 && l.packed != each);
      if (other || (x.pair && l.order != Order::Unknown && !l.pair))
        refuse(op, fmt::format("tcgen05_mma with {} that lies otherwise in tensor memory than it takes it", what),
               hint);
      return other;
    };
    if (wrong("acc", "an accumulator", rows, 1,
              "plgpu.TMEM(shape, dtype) with packed=False, and collective=True where a pair of CTAs has it"))
      return;
    if (x.a.type->space == ir::Space::Tmem &&
        wrong("a", "a left operand", rows, packed, "plgpu.TMEM(shape, dtype, packed=True)"))
      return;
    if (x.scaled &&
        (wrong("a_scale", "scales of the left operand", Order::Scales, 0, "layout=plgpu.TMEMLayout.SCALES_LAYOUT") ||
         wrong("b_scale", "scales of the right operand", right, 0,
               "layout=plgpu.TMEMLayout.SCALES_LAYOUT, or SCALES_M64_COLLECTIVE_LAYOUT for 64 rows")))
      return;
    if (x.sparse)
      wrong("a_sparse_metadata", "metadata", Order::Metadata, 0, "layout=plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT");
  }

  const ir::Module& m_;
  const Profile& p_;
  std::vector<ir::Diagnostic>* out_;
  const ir::Graph* graph_ = nullptr;
  std::map<ir::ValueId, TensorLayout> layouts_;
  std::optional<bool> pairs_;  // whether what was allocated is a pair's
  bool told_ = false;
};

}  // namespace

void check_tensor_memory(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  TensorMemoryRules(m, p, out).check();
}

}  // namespace pallasim::hw
