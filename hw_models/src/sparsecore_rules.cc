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

// Vectors of other sizes than the registers' are laid out by passes of the compiler, which a kernel may do without.
bool lays_out(const ir::Module& m) {
  const Attr* params = ir::find(m.attrs, "params");
  for (size_t i = 0; params && i < params->keys.size(); ++i)
    if (params->keys[i] == "needs_layout_passes") return params->items[i].is_true();
  return true;
}

class SparseCoreRules {
 public:
  SparseCoreRules(const ir::Module& m, const Profile& p, bool vectors, const ir::Graph& g,
                  std::vector<ir::Diagnostic>* out)
      : m_(m), lanes_(vectors && jax_minor(m) == 10 ? p.subcore_lanes : kUnknown), g_(g), out_(out) {}

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
      case OpCode::iota: return shape_of_lanes(op, *g_.type(op.results[0]));
      case OpCode::sort: return sort(op);
      case OpCode::rev:
        if (axes(op, "axes") != std::vector<int64_t>{0})
          refuse("PS-TPU-004", op, "a reversal of other dimensions than the first, on a SparseCore",
                 "subcores reverse vectors");
        return;
      case OpCode::cumsum:
        if (in(op, 0).rank() != 1 || op.attr("axis")->i != 0)
          refuse("PS-TPU-004", op, fmt::format("a cumulative sum of {}, on a SparseCore", ir::to_string(in(op, 0))),
                 "subcores sum vectors up");
        else if (op.attr("reverse")->is_true())
          refuse("PS-TPU-004", op, "a cumulative sum from the end, on a SparseCore",
                 "reverse the vector, and the sums");
        return;
      case OpCode::reduce_sum:
      case OpCode::reduce_max:
      case OpCode::reduce_min: return reduction(op);
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
      return refuse("PS-TPU-005", op, fmt::format("{} {}, which is in SMEM, of {}", what, ref, ir::to_string(value)),
                    "SMEM holds scalars: go through them one by one, or use VMEM");
    if (value.is_scalar() && op.attr("mask"))
      return refuse("PS-TPU-005", op, fmt::format("{} {} of a scalar under a mask", what, ref), "use pl.when");
    if (value.is_scalar() && op.code == OpCode::addupdate)
      return refuse("PS-TPU-005", op, fmt::format("{} {} that adds a scalar", what, ref),
                    "load the scalar, add, and store it");
    parts(op, what, ref);
    if (!value.is_scalar()) vector(op, value, what, ref);
  }

  // Of the part of a ref that is loaded or stored.
  void parts(const Op& op, const char* what, const std::string& ref) {
    const ir::Attr* view = op.attr("view");
    if (!view || op.view().empty()) return;
    const auto* index = std::get_if<ir::view::Index>(&op.view().back());
    if (!index || index->has_arrays()) return;
    bool wide = false;
    for (const ir::view::Entry& d : index->entries) {
      const bool one = !d.is_slice() || (d.size.is_static() && d.size.value() == 1);
      if (!d.is_slice() && wide)
        return refuse("PS-TPU-005", op, fmt::format("{} {} with a number behind a slice", what, ref),
                      "slices come last: of a column load the rows, and take elements of them by plsc.load_gather");
      if (d.is_slice() && d.has_stride && !(d.stride.is_static() && d.stride.value() == 1))
        return refuse(
            "PS-TPU-005", op, fmt::format("{} {} with a stride", what, ref),
            "subcores load and store neighbours; plsc.load_gather and plsc.store_scatter take other elements");
      wide = wide || !one;
    }
  }

  // Vectors have as many elements as the registers hold.
  void vector(const Op& op, const ir::Type& value, const char* what, const std::string& ref) {
    const int64_t bits = ir::bit_width(value.dtype);
    if (lanes_ == kUnknown || bits == 0 || lays_out(m_)) return;
    if (bits > 32)
      return refuse("PS-TPU-005", op, fmt::format("{} {} of {}", what, ref, ir::to_string(value)),
                    "subcores have vectors of 8, 16 and 32 bits");
    const int64_t packed = 32 / std::max<int64_t>(bits, 8), n = value.num_elements();
    const bool row = value.rank() == 1 && n == lanes_ * packed;
    const bool pair = value.rank() == 2 && packed > 1 && value.dims[0].size == packed && n == lanes_ * packed;
    if (row || pair) return;
    refuse("PS-TPU-005", op, fmt::format("{} {} of {}", what, ref, ir::to_string(value)),
           packed == 1 ? fmt::format("vectors of this type have {} elements: go through them in a loop", lanes_)
                       : fmt::format("vectors of this type have {} elements, or shape ({}, {})", lanes_ * packed,
                                     packed, lanes_));
  }

  static std::vector<int64_t> axes(const Op& op, const char* key) {
    std::vector<int64_t> r;
    for (const Attr& a : op.attr(key)->items) r.push_back(a.i);
    return r;
  }

  // Counting an element's equals (plsc.scan_count) compares all with all: such squares are none of the kernel's own.
  static bool is_square(const ir::Type& t) { return t.rank() == 2 && t.dims[0].size == t.dims[1].size; }

  void shape_of_lanes(const Op& op, const ir::Type& t) {
    if (lanes_ == kUnknown || is_square(t)) return;
    const int64_t n = t.num_elements();
    if (t.rank() != 1 || (n != lanes_ && n != 2 * lanes_ && n != 4 * lanes_))
      refuse("PS-TPU-004", op, fmt::format("an iota of {}, on a SparseCore", ir::to_string(t)),
             fmt::format("vectors have {} lanes", lanes_));
  }

  // A sort under a mask has the mask for its first key.
  void sort(const Op& op) {
    const ir::Type& t = in(op, 0);
    if (lanes_ != kUnknown && (t.rank() != 1 || t.num_elements() != lanes_))
      return refuse("PS-TPU-004", op, fmt::format("a sort of {}, on a SparseCore", ir::to_string(t)),
                    fmt::format("subcores sort vectors of {} elements", lanes_));
    if (const int64_t keys = op.attr("num_keys")->i; keys > 1 && !(keys == 2 && op.operands.size() == 4))
      refuse("PS-TPU-004", op, "a sort by several keys, on a SparseCore",
             "sort by the last key first: sorts are stable");
  }

  void reduction(const Op& op) {
    if (axes(op, "axes") == std::vector<int64_t>{0} || is_square(in(op, 0))) return;
    refuse("PS-TPU-004", op,
           fmt::format("'{}' along other dimensions than the first, on a SparseCore", ir::name(op.code)),
           "subcores reduce vectors");
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
        const bool of_the_run = indices.is_ref && std::any_of(indices.dims.begin(), indices.dims.end(),
                                                              [](const ir::Dim& x) { return !x.is_static(); });
        if (of_the_run && indices.dtype != ir::DType::I32)
          return refuse("PS-TPU-006", op,
                        fmt::format("as many rows as are known at run time, by indices of {}", ir::name(indices.dtype)),
                        "such indices are int32");
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
  const int64_t lanes_;  // of a vector of 32 bits; kUnknown: not a vector subcore, or another JAX
  const ir::Graph& g_;
  std::vector<ir::Diagnostic>* out_;
};

}  // namespace

void check_sparsecore(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  for (const ir::Body& b : m.bodies)
    for (const ir::Mesh& mesh : m.meshes) {
      const CoreKind kind = mesh.name == b.mesh ? core_kind(mesh.kind) : CoreKind::Default;
      if (kind == CoreKind::ScalarSubcore || kind == CoreKind::VectorSubcore)
        SparseCoreRules(m, p, kind == CoreKind::VectorSubcore, b.graph, out).region(b.graph.region);
    }
}

}  // namespace pallasim::hw
