// Rules of JAX's TPU lowering (jax _src/pallas/mosaic/lowering.py, 0.10.2) on what a launch declares: blocks, grid,
// meshes.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "rules.h"

namespace pallasim::hw {

bool is_trivial_window(const ir::Operand& o) {
  if (!o.has_block) return true;
  for (size_t d = 0; d < o.block.size(); ++d)
    if ((o.block[d].kind == ir::BlockDim::Kind::Squeezed ? 1 : o.block[d].size) != o.array->dims[d].size) return false;
  const ir::Region& map = o.index_map->region;
  for (ir::ValueId v : map.ops.back().operands) {
    const auto zero = std::find_if(map.ops.begin(), map.ops.end(), [&](const ir::Op& op) {
      return op.code == ir::OpCode::constant && op.results[0] == v && op.attr("value")->is(ir::Attr::Kind::Bits) &&
             op.attr("value")->i == 0;
    });
    if (zero == map.ops.end()) return false;
  }
  return true;
}

namespace {

using ir::Space;
using Kind = ir::BlockDim::Kind;

class Launch {
 public:
  Launch(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) : m_(m), p_(p), out_(out) {}

  void check() {
    grid();
    meshes();
    for (const ir::Operand& o : m_.operands) {
      // Kernels on a mesh get whole arrays; prefetched scalars are no blocks.
      if (!m_.meshes.empty() || o.kind == ir::Operand::Kind::Prefetch || ir::is_sync(o.array->dtype)) continue;
      if (o.space == Space::Semaphore || (o.space == Space::Smem && is_trivial_window(o))) continue;
      if (ir::info(o.array->dtype).cls == ir::DTypeClass::Key) continue;  // lies in memory as words of its own shape
      block(o);
    }
  }

 private:
  static std::string sizes(const std::vector<int64_t>& v) {
    return fmt::format("({}{})", fmt::join(v, ", "), v.size() == 1 ? "," : "");
  }

  void refuse_block(const ir::Operand& o, std::string what, std::string hint) {
    const ir::LocId loc = o.has_block && !o.index_map->region.ops.empty() ? o.index_map->region.ops.back().loc : -1;
    ir::LocId at = loc;
    if (o.has_block)
      for (const ir::Op& op : o.index_map->region.ops)
        if (at < 0) at = op.loc;
    ir::Diagnostic& d = report(m_, out_, "PS-TPU-001", std::move(what), at, std::move(hint));
    std::vector<int64_t> array;
    for (const ir::Dim& dim : o.array->dims) array.push_back(dim.size);
    d.numbers.push_back(
        fmt::format("{} has shape {} of {}, in {}", o.name, sizes(array), ir::name(o.array->dtype), ir::name(o.space)));
    if (!o.has_block) return;
    std::string block;
    for (const ir::BlockDim& b : o.block) {
      block += block.empty() ? "" : ", ";
      block += b.kind == Kind::Squeezed       ? "squeezed"
               : b.kind == Kind::Element      ? fmt::format("Element({})", b.size)
               : b.kind == Kind::BoundedSlice ? fmt::format("BoundedSlice({})", b.size)
                                              : std::to_string(b.size);
    }
    d.numbers.push_back(fmt::format("its blocks have shape ({}{})", block, o.block.size() == 1 ? "," : ""));
  }

  void block(const ir::Operand& o) {
    const size_t rank = o.array->dims.size();
    if (rank < 1)
      return refuse_block(
          o, fmt::format("{} is a scalar in {}: blocks have one dimension or more", o.name, ir::name(o.space)),
          "scalars live in SMEM: pl.BlockSpec(memory_space=pltpu.SMEM)");
    if (!o.has_block) return;
    const bool trivial = is_trivial_window(o);
    if ((o.space == Space::Any || o.space == Space::Hbm) && !trivial)
      return refuse_block(o, fmt::format("{} is blocked, but lives in {}", o.name, ir::name(o.space)),
                          "only arrays in VMEM and SMEM are given block by block; arrays in HBM are given whole, and "
                          "the kernel copies parts of them");
    tiles(o);
    if (trivial && m_.grid.empty()) return;
    if (m_.grid.empty())
      return refuse_block(o, fmt::format("a window into {} without a grid", o.name),
                          "pass grid=(1,), or the whole array");
    kinds(o);
    if (!(trivial && o.space == Space::Vmem)) pipeline(o);
  }

  // The least legal size of a block's dimension that is no smaller.
  static int64_t legal(int64_t size, int64_t unit, int64_t whole) {
    return std::min((size + unit - 1) / unit * unit, whole);
  }

  // The two minor dimensions of a block are multiples of 8 and 128, or the array's own.
  void tiles(const ir::Operand& o) {
    const size_t rank = o.block.size();
    auto size = [&](size_t d) { return o.block[d].kind == Kind::Squeezed ? 1 : o.block[d].size; };
    auto whole = [&](size_t d) { return size(d) == o.array->dims[d].size; };
    const int64_t minor = size(rank - 1);
    if (rank >= 2) {
      if ((whole(rank - 1) || minor % 128 == 0) && (whole(rank - 2) || size(rank - 2) % 8 == 0))
        return large_tiles(o, size(rank - 2));
      return refuse_block(
          o,
          fmt::format("the last two dimensions of the blocks of {} are {} and {}, which are not multiples of 8 and 128",
                      o.name, size(rank - 2), minor),
          fmt::format(
              "a block's last two dimensions are multiples of 8 and 128, or the whole of the array's: {} and {}, "
              "say",
              legal(size(rank - 2), 8, o.array->dims[rank - 2].size), legal(minor, 128, o.array->dims[rank - 1].size)));
    }
    const int bits = o.array->dtype == ir::DType::Bool ? 32 : ir::bit_width(o.array->dtype);
    const int64_t least = p_.lanes * (32 / std::max(bits, 1));
    if (whole(0) || minor % (p_.lanes * p_.sublanes) == 0 || (minor >= least && (minor & (minor - 1)) == 0)) return;
    refuse_block(o, fmt::format("blocks of {} elements of the one-dimensional {}", minor, o.name),
                 fmt::format("such blocks are the whole array, a multiple of {}, or a power of two from {} on",
                             p_.lanes * p_.sublanes, least));
  }

  // Blocks are whole tiles (libtpu's error E2002): libtpu 0.0.42, of JAX 0.10.2, says so for elements of less than 16
  // bits; 0.0.52 no longer does.
  void large_tiles(const ir::Operand& o, int64_t rows) {
    const ir::DType t = o.array->dtype;
    const int64_t all = o.array->dims[o.block.size() - 2].size;
    const int bits = ir::bit_width(t);
    if (jax_minor(m_) >= 11 || t == ir::DType::Bool || bits >= 16 || rows == all) return;
    const int64_t unit = tile_rows(t, all);
    if (rows % unit == 0) return;
    refuse_block(o,
                 fmt::format("blocks of {} rows of {}, whose elements of {} bits lie in tiles of {} rows", rows, o.name,
                             bits, unit),
                 fmt::format("whole tiles: {} rows, say", legal(rows, unit, all)));
  }

  void kinds(const ir::Operand& o) {
    const auto is = [&](Kind k) { return [k](const ir::BlockDim& b) { return b.kind == k; }; };
    if (std::any_of(o.block.begin(), o.block.end(), is(Kind::BoundedSlice)))
      return refuse_block(o,
                          fmt::format("Unsupported block dimension type: a bounded slice in the blocks of {}", o.name),
                          "pallas_call's own pipeline has no slices of changing size; pltpu.emit_pipeline does");
    if (std::any_of(o.block.begin(), o.block.end(), is(Kind::Element)) &&
        std::any_of(o.block.begin(), o.block.end(), is(Kind::Blocked)))
      refuse_block(o, fmt::format("some dimensions of the blocks of {} are Elements and others are not", o.name),
                   "make every dimension pl.Element(n), or squeezed");
  }

  void pipeline(const ir::Operand& o) {
    const ir::Attr* mode = ir::find(o.attrs, "pipeline");
    if (!mode || mode->items.empty()) return;
    const int64_t count = mode->items[0].i;
    for (const ir::Attr& a : mode->items)
      if (a.s == "lookahead")
        return refuse_block(o, fmt::format("lookahead for the blocks of {}", o.name),
                            "pallas_call's own pipeline does not look ahead; pltpu.emit_pipeline does");
    if (count < 1 || count > 2)
      return refuse_block(o, fmt::format("{} buffers for the blocks of {}", count, o.name),
                          "pallas_call's own pipeline has one or two; pltpu.emit_pipeline takes more");
    for (const ir::Attr& a : mode->items)
      if (a.s == "revisit_any" && count > 1)
        refuse_block(o, fmt::format("two buffers for the blocks of {}, which may be revisited at any time", o.name),
                     "RevisitMode.ANY goes with pl.Buffered(1)");
  }

  void grid() {
    const ir::Attr* params = ir::find(m_.attrs, "params");
    const auto axes = static_cast<size_t>(
        std::count_if(m_.grid.begin(), m_.grid.end(), [](const ir::GridAxis& a) { return !a.vmapped; }));
    for (size_t i = 0; m_.meshes.empty() && params && i < params->keys.size(); ++i)
      if (params->keys[i] == "dimension_semantics" && params->items[i].items.size() != axes)
        report(m_, out_, "PS-TPU-002",
               fmt::format("dimension_semantics has {} entries for a grid of {} {}", params->items[i].items.size(),
                           axes, axes == 1 ? "axis" : "axes"),
               -1, "give one of parallel, arbitrary, core_parallel, subcore_parallel per axis of the grid");
  }

  void meshes() {
    for (const ir::Mesh& mesh : m_.meshes) {
      if (mesh.kind == "tensorcore" && mesh.axes.size() > 1)
        report(m_, out_, "PS-TPU-002", fmt::format("a mesh of TensorCores with {} axes", mesh.axes.size()), -1,
               "TensorCores form one axis");
      if ((mesh.kind == "scalar_subcore" || mesh.kind == "vector_subcore") && p_.sparsecores == 0)
        report(m_, out_, "PS-TPU-002",
               fmt::format("a kernel for SparseCores, but {} has none that Pallas can use", p_.name), -1,
               "`pallasim chips` shows which chips have them");
    }
  }

  const ir::Module& m_;
  const Profile& p_;
  std::vector<ir::Diagnostic>* out_;
};

}  // namespace

void check_tpu_launch(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  Launch(m, p, out).check();
}

}  // namespace pallasim::hw
