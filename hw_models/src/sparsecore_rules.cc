// Rules of JAX's SparseCore lowering (jax _src/pallas/mosaic/sc_lowering.py, 0.10.2): loads, stores, copies, prints.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "rules.h"

namespace pallasim::hw {
namespace {

using ir::Attr, ir::Op, ir::OpCode, ir::Space;

// Mosaic lowers none of them for subcores.
constexpr std::array kNotOfSparseCore = {OpCode::log,
                                         OpCode::log2,
                                         OpCode::log1p,
                                         OpCode::logistic,
                                         OpCode::sin,
                                         OpCode::cos,
                                         OpCode::tan,
                                         OpCode::tanh,
                                         OpCode::pow,
                                         OpCode::sqrt,
                                         OpCode::rsqrt,
                                         OpCode::argmax,
                                         OpCode::argmin,
                                         OpCode::pad,
                                         OpCode::tile,
                                         OpCode::roll,
                                         OpCode::transpose,
                                         OpCode::dot_general,
                                         OpCode::conv_general_dilated};

// "VMEM_SHARED"
std::string name_of(Space s) {
  std::string r(ir::name(s));
  std::transform(r.begin(), r.end(), r.begin(), [](unsigned char c) { return std::toupper(c); });
  return r;
}

class SparseCoreRules {
 public:
  SparseCoreRules(const ir::Module& m, const ir::Graph& g, std::vector<ir::Diagnostic>* out)
      : m_(m), g_(g), out_(out) {}

  void region(const ir::Region& r) {
    for (const Op& op : r.ops) {
      operation(op);
      for (const ir::Region& inner : op.regions) region(inner);
    }
  }

 private:
  const ir::Type& in(const Op& op, size_t i) const { return *g_.type(op.operands[i]); }
  std::string ref_name(const Op& op, size_t i) const {
    const std::string& n = g_.names[static_cast<size_t>(op.operands[i])];
    return n.empty() ? "the ref" : n;
  }
  void refuse(ir::Code code, const Op& op, std::string what, std::string hint) {
    report(m_, out_, code, std::move(what), op.loc, std::move(hint));
  }

  void operation(const Op& op) {
    switch (op.code) {
      case OpCode::get:
      case OpCode::masked_load: return access(op, *g_.type(op.results[0]), "a load from");
      case OpCode::store:
      case OpCode::swap:
      case OpCode::addupdate:
      case OpCode::masked_store:
      case OpCode::masked_swap:
      case OpCode::atomic_rmw: return access(op, in(op, 1), "a store to");
      case OpCode::dma_start: return copy(op);
      case OpCode::debug_print: return print(op);
      default: break;
    }
    if (std::find(kNotOfSparseCore.begin(), kNotOfSparseCore.end(), op.code) != kNotOfSparseCore.end())
      refuse("PS-TPU-004", op, fmt::format("operation '{}' on a SparseCore", ir::name(op.code)),
             "SparseCores add, multiply, compare, select, sort and scan; of transcendental functions they have exp");
  }

  // Scalars live in SMEM, vectors in VMEM; other memory is reached by copies.
  void access(const Op& op, const ir::Type& value, const char* what) {
    const Space space = in(op, 0).space;
    const std::string ref = ref_name(op, 0);
    if (space == Space::Hbm || space == Space::VmemShared)
      return refuse("PS-TPU-005", op, fmt::format("{} {}, which is in {}", what, ref, name_of(space)),
                    "subcores load and store their own memory: copy from and to it with pltpu.sync_copy");
    if (value.is_scalar() && space == Space::Vmem)
      return refuse("PS-TPU-005", op, fmt::format("{} {}, which is in VMEM, of a scalar", what, ref),
                    "load a vector and take an element of it: ref[pl.ds(i, lanes)][0]; scalars are stored in SMEM");
    if (!value.is_scalar() && space == Space::Smem)
      refuse("PS-TPU-005", op, fmt::format("{} {}, which is in SMEM, of {}", what, ref, ir::to_string(value)),
             "SMEM holds scalars: go through them one by one, or use VMEM");
  }

  bool chooses(const Op& op, const char* key) const {
    const auto& transforms = op.viewed(key)->transforms;
    return std::any_of(transforms.begin(), transforms.end(), [](const ir::View& t) {
      const auto* index = std::get_if<ir::view::Index>(&t);
      return index && index->has_arrays();
    });
  }

  void copy(const Op& op) {
    const auto operand = [&](const char* key) { return static_cast<size_t>(op.viewed(key)->operand); };
    const Space src = in(op, operand("src")).space, dst = in(op, operand("dst")).space;
    const auto far = [](Space s) { return s == Space::Hbm || s == Space::VmemShared || s == Space::Any; };
    const bool gathers = far(src) && dst == Space::Vmem, scatters = src == Space::Vmem && far(dst);
    const bool of_src = chooses(op, "src"), of_dst = chooses(op, "dst");
    const Attr* add = op.attr("add");
    if (!of_src && !of_dst) {
      if (add && add->is_true())
        refuse("PS-TPU-006", op, "a copy that adds, without indices of the rows that it adds to",
               "name them: ref.at[jnp.arange(rows)], or a ref of indices");
      return;
    }
    if (!gathers && !scatters)
      return refuse("PS-TPU-006", op,
                    fmt::format("a copy of chosen rows from {} to {} is not supported", name_of(src), name_of(dst)),
                    "rows are gathered from HBM or VMEM_SHARED into VMEM, and scattered from VMEM to these");
    if (gathers && of_dst)
      return refuse("PS-TPU-006", op, "of a copy into VMEM the source ref can be indexed by a list, and no other",
                    "copy into a plain part of VMEM");
    if (scatters && of_src)
      return refuse("PS-TPU-006", op, "of a copy from VMEM the destination ref can be indexed by a list, and no other",
                    "copy from a plain part of VMEM");
    if (const Attr* device = op.attr("device_id"); device && !(device->is(Attr::Kind::Symbol) && device->s == "none"))
      return refuse("PS-TPU-006", op, "a copy of chosen rows to another device", "copy them within the device first");
    list(op, of_src ? "src" : "dst");
  }

  void list(const Op& op, const char* key) {
    const auto& transforms = op.viewed(key)->transforms;
    for (size_t n = 0; n < transforms.size(); ++n) {
      const auto* index = std::get_if<ir::view::Index>(&transforms[n]);
      if (!index) continue;
      for (size_t i = 0; i < index->entries.size(); ++i) {
        const ir::view::Entry& d = index->entries[i];
        if (!d.is_array()) continue;
        const ir::Type& indices = in(op, static_cast<size_t>(d.operand));
        if (n + 1 != transforms.size())
          return refuse("PS-TPU-006", op, fmt::format("a {} behind the indices of a copy", ir::name(transforms[n + 1])),
                        "the indices come last: reshape the other side, or the ref before it is indexed");
        if (i != 0)
          return refuse("PS-TPU-006", op, "a copy of chosen columns", "indices choose along the first dimension");
        if (indices.is_ref && indices.space != Space::Vmem)
          return refuse("PS-TPU-006", op,
                        fmt::format("indices of a copy must be in VMEM, got {}", name_of(indices.space)),
                        "copy them there first");
        if (indices.rank() != 1)
          return refuse("PS-TPU-006", op, fmt::format("a copy by indices of rank {}", indices.rank()),
                        "one list of rows: indices_ref.at[i], or a reshape");
      }
    }
  }

  void print(const Op& op) {
    const Attr *ordered = op.attr("ordered"), *placeholders = op.attr("placeholders");
    const bool formatted = placeholders ? placeholders->is_true() : op.attr("format")->s.find('{') != std::string::npos;
    if (ordered && ordered->is_true()) refuse("PS-TPU-004", op, "a print in order, on a SparseCore", "");
    else if (formatted && !op.operands.empty())
      refuse("PS-TPU-004", op, "a print with placeholders, on a SparseCore", "the value follows the text by itself");
    else if (op.operands.size() > 1)
      refuse("PS-TPU-004", op, "a print of several values, on a SparseCore", "print them one by one");
  }

  const ir::Module& m_;
  const ir::Graph& g_;
  std::vector<ir::Diagnostic>* out_;
};

}  // namespace

void check_sparsecore(const ir::Module& m, std::vector<ir::Diagnostic>* out) {
  for (const ir::Body& b : m.bodies)
    for (const ir::Mesh& mesh : m.meshes) {
      const CoreKind kind = mesh.name == b.mesh ? core_kind(mesh.kind) : CoreKind::Default;
      if (kind == CoreKind::ScalarSubcore || kind == CoreKind::VectorSubcore)
        SparseCoreRules(m, b.graph, out).region(b.graph.region);
    }
}

}  // namespace pallasim::hw
