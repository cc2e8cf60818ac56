// Rules of JAX's TPU lowering (jax _src/pallas/mosaic/lowering.py, 0.10.2) on loads, stores, views of refs and copies.
#include <fmt/format.h>

#include <algorithm>

#include "tpu_rules.h"
#include "tpu_types.h"

namespace pallasim::hw {

using ir::Space;

void TpuRules::note_blocks(const ir::Graph& g) {
  for (size_t i = 0; i < m_.operands.size() && i < g.region.args.size(); ++i) {
    if (!m_.operands[i].has_block) continue;
    std::vector<bool>& flags = squeezed_[g.region.args[i]];
    for (const ir::BlockDim& d : m_.operands[i].block) flags.push_back(d.kind == ir::BlockDim::Kind::Squeezed);
  }
}

std::string TpuRules::name_of(ir::ValueId v) const {
  const std::string& name = graph_->names[static_cast<size_t>(v)];
  return name.empty() ? "the ref" : name;
}

namespace {

bool has_stride(const ir::view::Entry& e) { return e.is_slice() && e.stride != ir::ViewInt(1); }

}  // namespace

// What one transform after the other does to the dimensions of the block that the ref lacks, and what is refused.
class TpuRules::Transforms {
 public:
  Transforms(std::vector<bool> squeezed, int bits) : squeezed_(std::move(squeezed)), bits_(bits) {}
  bool last_is_access = false;  // of the transform that is visited: strides belong to the access itself
  std::string what, hint;       // of what is refused

  void operator()(const ir::view::Index& t) {
    if (t.has_arrays())
      return refuse("an array as index", "TensorCores read slices; jnp.take_along_axis rearranges a value");
    for (const ir::view::Entry& e : t.entries)
      if (!last_is_access && has_stride(e))
        return refuse("a strided view", "strides belong to the access itself: ref[::2], not ref.at[::2]");
    squeezed_.assign(static_cast<size_t>(std::count_if(t.entries.begin(), t.entries.end(),
                                                       [](const ir::view::Entry& e) { return e.is_slice(); })),
                     false);
  }
  void operator()(const ir::view::Reshape& t) {
    const size_t rank = squeezed_.size();
    if (rank < 2) return refuse("a reshape of the one-dimensional view", "reshape the value, or keep two dimensions");
    if (squeezed_[rank - 1] || squeezed_[rank - 2])
      return refuse("a reshape, while one of the two minor dimensions of the block is squeezed,",
                    "keep both in the block");
    squeezed_.assign(t.dims.size(), false);
  }
  void operator()(const ir::view::Bitcast& t) {
    const size_t rank = squeezed_.size();
    const int to = ir::bit_width(t.dtype);
    if (to != bits_ && (rank < 2 || squeezed_[rank - 2]))
      return refuse("a bitcast to another width, without a second minor dimension,",
                    "widths change along the second minor dimension");
    bits_ = to;
  }
  void operator()(const ir::view::Squeeze& t) {
    squeezed_.resize(squeezed_.size() - std::min(squeezed_.size(), t.axes.size()));
  }
  template <typename T>
  void operator()(const T& t) {
    refuse(fmt::format("a {}", ir::name(ir::View(t))),
           "TensorCores view refs by slices, reshapes and bitcasts; transpose the value");
  }

 private:
  void refuse(std::string w, std::string h) { what = std::move(w), hint = std::move(h); }

  std::vector<bool> squeezed_;
  int bits_;
};

void TpuRules::transforms(const ir::Op& op, ir::ValueId ref, std::span<const ir::View> view, bool access) {
  std::vector<bool> squeezed(graph_->type(ref)->dims.size(), false);
  if (const auto it = squeezed_.find(ref); it != squeezed_.end()) squeezed = it->second;
  Transforms visit(std::move(squeezed), ir::bit_width(graph_->type(ref)->dtype));
  for (size_t n = 0; n < view.size(); ++n) {
    visit.last_is_access = access && n + 1 == view.size();
    std::visit(visit, view[n]);
    if (visit.what.empty()) continue;
    add("PS-TPU-005", fmt::format("{} of {}", visit.what, name_of(ref)), op.loc, visit.hint);
    return;
  }
}

bool TpuRules::is_loadable(const ir::Op& op, const ir::Type& ref, const char* what) {
  switch (ref.space) {
    case Space::Vmem:
    case Space::Smem:
    case Space::Default:
    case Space::Key:
    case Space::Index:
    case Space::Error: return true;
    default: break;
  }
  add("PS-TPU-005", fmt::format("{} {}, which is in {}", what, name_of(op.operands[0]), ir::name(ref.space)), op.loc,
      "loads and stores reach VMEM and SMEM; copy from and to other memory: pltpu.sync_copy, pltpu.make_async_copy");
  return false;
}

// Elements that are loaded and stored at all.
bool TpuRules::is_element(const ir::Op& op, const ir::Type& t) {
  if (!tpu_lacks("load", t.is_scalar() ? "scalar" : "vector", ir::name(t.dtype), p_.generation, jax_)) return true;
  add("PS-TPU-004",
      fmt::format("{} {}{}, which the compiler of {} does not take", is_load(op) ? "a load of" : "a store of",
                  ir::name(t.dtype), t.is_scalar() ? " scalars" : "", p_.name),
      op.loc, "keep them in another type: as integers of their width, say (jax.lax.bitcast_convert_type)");
  return false;
}

void TpuRules::load(const ir::Op& op) {
  const ir::Type& ref = in(op, 0);
  if (op.attr("mask"))
    return add("PS-TPU-005", fmt::format("a load from {} under a mask", name_of(op.operands[0])), op.loc,
               "load all of it and select: jnp.where"),
           void();
  transforms(op, op.operands[0], op.view(), true);
  if (!is_loadable(op, ref, "a load from") || !is_element(op, out(op))) return;
  alignment(op, op.operands[0], op.view());
  strides(op, op.operands[0], op.view());
  const bool key = ir::info(ref.dtype).cls == ir::DTypeClass::Key, hardware_key = ref.dtype == ir::DType::KeyTpu;
  if (ref.space == Space::Smem) {
    if (!out(op).is_scalar() && !key)
      add("PS-TPU-005",
          fmt::format("a load of {} from {}, which is in smem", ir::to_string(out(op)), name_of(op.operands[0])),
          op.loc, "SMEM holds scalars: load them one by one, or copy to VMEM");
  } else if (hardware_key && ref.space == Space::Vmem) {
    add("PS-TPU-005", fmt::format("a load of a random key from {}, which is in vmem", name_of(op.operands[0])), op.loc,
        "keys are given in SMEM: pl.BlockSpec(memory_space=pltpu.SMEM)");
  } else if (!key && ref.dims.empty() && squeezed_.find(op.operands[0]) == squeezed_.end() &&
             ref.space == Space::Vmem) {
    add("PS-TPU-005", fmt::format("a load from the scalar {} in vmem", name_of(op.operands[0])), op.loc,
        "scalars live in SMEM");
  }
}

void TpuRules::store(const ir::Op& op) {
  const ir::Type &ref = in(op, 0), &value = in(op, 1);
  const std::string name = name_of(op.operands[0]);
  const ir::Attr* mask = op.attr("mask");
  transforms(op, op.operands[0], op.view(), true);
  if (mask && ir::bit_width(value.dtype) != 32)
    return add("PS-TPU-005", fmt::format("a store of {} to {} under a mask", ir::to_string(value), name), op.loc,
               "masks go with elements of 32 bits"),
           void();
  if (!is_loadable(op, ref, "a store to") || !is_element(op, value)) return;
  alignment(op, op.operands[0], op.view());
  strides(op, op.operands[0], op.view());
  if (ref.space == Space::Smem) {
    if (mask)
      add("PS-TPU-005", fmt::format("a store to {}, which is in smem, under a mask", name), op.loc,
          "store under pl.when");
    else if (!value.is_scalar())
      add("PS-TPU-005", fmt::format("a store of {} to {}, which is in smem", ir::to_string(value), name), op.loc,
          "SMEM holds scalars: store them one by one, or copy from VMEM");
    return;
  }
  if (ref.space != Space::Vmem) return;
  if (value.is_scalar())
    return add("PS-TPU-005", fmt::format("a store of a scalar to {}, which is in vmem", name), op.loc,
               "scalars live in SMEM; store an array: jnp.full(...)"),
           void();
  const auto* index = op.view().empty() ? nullptr : std::get_if<ir::view::Index>(&op.view().back());
  if (!mask || !index) return;
  for (const ir::view::Entry& e : index->entries)
    if (has_stride(e))
      return add("PS-TPU-005", fmt::format("a store to {} under a mask, with a stride", name), op.loc, ""), void();
}

// A device id by axes names axes of the devices or of the kernel's mesh.
void TpuRules::receiver(const ir::Op& op) {
  const ir::Attr* core = op.attr("core_index");
  if (!core || !core->is(ir::Attr::Kind::List)) return;
  for (const ir::Attr& a : core->items) {
    if (!a.is_call("axis")) {
      add("PS-TPU-006", "a core_index, and a device id that names the core, too", op.loc, "leave one of them out");
      continue;
    }
    const bool known = std::any_of(m_.meshes.begin(), m_.meshes.end(), [&](const ir::Mesh& mesh) {
      return std::any_of(mesh.axes.begin(), mesh.axes.end(),
                         [&](const ir::MeshAxis& axis) { return axis.name == a.items[0].s; });
    });
    if (!known)
      add("PS-TPU-006",
          fmt::format("a device id on axis \"{}\", which neither the devices nor the kernel's mesh have", a.items[0].s),
          op.loc, "");
  }
}

void TpuRules::copy(const ir::Op& op) {
  receiver(op);
  auto refuse = [&](std::string what, std::string hint) {
    add("PS-TPU-006", std::move(what), op.loc, std::move(hint));
  };
  if (const ir::Attr* a = op.attr("add"); a && a->is_true())
    return refuse("a copy that adds", "TensorCores copy; add in the kernel, or on a SparseCore");
  const auto ref = [&](const char* key) { return op.operands[static_cast<size_t>(op.viewed(key)->operand)]; };
  if (jax_ < 11 && graph_->type(ref("src"))->dtype == ir::DType::Bool) return refuse("a copy of bool", "copy integers");
  for (const char* key : {"src", "dst"}) {
    transforms(op, ref(key), op.viewed(key)->transforms, false);
    copied(op, ref(key), op.viewed(key)->transforms);
  }
  for (const char* key : {"dst_sem", "src_sem"}) {
    if (!op.viewed(key)) continue;
    const ir::DType t = graph_->type(ref(key))->dtype;
    if (t == ir::DType::Sem && p_.generation < 6)
      refuse(fmt::format("a copy that signals the regular semaphore {} on {}", name_of(ref(key)), p_.name),
             "before generation 6 copies signal DMA semaphores only: pltpu.SemaphoreType.DMA");
  }
}

}  // namespace pallasim::hw
