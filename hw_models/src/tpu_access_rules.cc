// Rules of JAX's TPU lowering (jax _src/pallas/mosaic/lowering.py, 0.10.2) on loads, stores, views of refs and copies.
#include <fmt/format.h>

#include <algorithm>

#include "tpu_rules.h"

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

void TpuRules::transforms(const ir::Op& op, ir::ValueId ref, const ir::Attr* view, bool access) {
  if (!view) return;
  std::vector<bool> squeezed(graph_->type(ref)->dims.size(), false);
  if (const auto it = squeezed_.find(ref); it != squeezed_.end()) squeezed = it->second;
  int bits = ir::bit_width(graph_->type(ref)->dtype);
  auto refuse = [&](const std::string& what, std::string hint) {
    add("PS-TPU-005", fmt::format("{} of {}", what, name_of(ref)), op.loc, std::move(hint));
  };
  for (size_t n = 0; n < view->items.size(); ++n) {
    const ir::Attr& t = view->items[n];
    const size_t rank = squeezed.size();
    if (t.is_call("index")) {
      size_t kept = 0;
      for (const ir::Attr& d : t.items) {
        if (d.is_call("array") || d.is_call("ref"))
          return refuse("an array as index", "TensorCores read slices; jnp.take_along_axis rearranges a value");
        if (!d.is_call("slice")) continue;
        ++kept;
        const bool last = access && n + 1 == view->items.size();
        if (!last && d.items.size() > 2 && d.items[2].i != 1)
          return refuse("a strided view", "strides belong to the access itself: ref[::2], not ref.at[::2]");
      }
      squeezed.assign(kept, false);
    } else if (t.is_call("reshape")) {
      if (rank < 2) return refuse("a reshape of the one-dimensional view", "reshape the value, or keep two dimensions");
      if (squeezed[rank - 1] || squeezed[rank - 2])
        return refuse("a reshape, while one of the two minor dimensions of the block is squeezed,",
                      "keep both in the block");
      squeezed.assign(t.items.size(), false);
    } else if (t.is_call("bitcast") && !t.items.empty() && t.items[0].is(ir::Attr::Kind::TypeOf)) {
      const int to = ir::bit_width(t.items[0].type->dtype);
      if (to != bits && (rank < 2 || squeezed[rank - 2]))
        return refuse("a bitcast to another width, without a second minor dimension,",
                      "widths change along the second minor dimension");
      bits = to;
    } else if (t.is_call("squeeze")) {
      squeezed.resize(rank - std::min(rank, t.items.size()));
    } else {
      return refuse(fmt::format("a {}", t.s),
                    "TensorCores view refs by slices, reshapes and bitcasts; transpose the value");
    }
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

void TpuRules::load(const ir::Op& op) {
  const ir::Type& ref = in(op, 0);
  if (op.attr("mask"))
    return add("PS-TPU-005", fmt::format("a load from {} under a mask", name_of(op.operands[0])), op.loc,
               "load all of it and select: jnp.where"),
           void();
  transforms(op, op.operands[0], op.attr("view"), true);
  if (!is_loadable(op, ref, "a load from")) return;
  alignment(op, op.operands[0], op.attr("view"));
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
  transforms(op, op.operands[0], op.attr("view"), true);
  if (mask && ir::bit_width(value.dtype) != 32)
    return add("PS-TPU-005", fmt::format("a store of {} to {} under a mask", ir::to_string(value), name), op.loc,
               "masks go with elements of 32 bits"),
           void();
  if (!is_loadable(op, ref, "a store to")) return;
  alignment(op, op.operands[0], op.attr("view"));
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
  const ir::Attr* view = op.attr("view");
  if (!mask || !view || view->items.empty()) return;
  for (const ir::Attr& d : view->items.back().items)
    if (d.is_call("slice") && d.items.size() > 2 && d.items[2].i != 1)
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
  auto side = [&](const char* key) -> const ir::Attr& { return *op.attr(key); };
  const auto ref = [&](const ir::Attr& v) { return op.operands[static_cast<size_t>(v.items[0].i)]; };
  if (jax_ < 11 && graph_->type(ref(side("src")))->dtype == ir::DType::Bool)
    return refuse("a copy of bool", "copy integers");
  for (const char* key : {"src", "dst"}) {
    transforms(op, ref(side(key)), &side(key).items[1], false);
    alignment(op, ref(side(key)), &side(key).items[1]);
  }
  for (const char* key : {"dst_sem", "src_sem"}) {
    if (!op.attr(key)) continue;
    const ir::DType t = graph_->type(ref(side(key)))->dtype;
    if (t == ir::DType::Sem && p_.generation < 6)
      refuse(fmt::format("a copy that signals the regular semaphore {} on {}", name_of(ref(side(key))), p_.name),
             "before generation 6 copies signal DMA semaphores only: pltpu.SemaphoreType.DMA");
  }
}

}  // namespace pallasim::hw
