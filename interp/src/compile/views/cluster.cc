#include "cluster.h"
#include "../../plan/payload/cluster.h"

#include <algorithm>

namespace pallasim::interp {
namespace {

int64_t count(const ir::Mesh& mesh, const char* key) {
  const Attr* a = ir::find(mesh.attrs, key);
  return a && a->is_int() ? a->i : 0;
}

}  // namespace

// Axes of a mesh: those of the grid of clusters, those of a cluster, that of a block's threads.
std::optional<ClusterAxis> cluster_axis(Emitter& e, const std::string& name) {
  const Body& b = e.body();
  if (b.mesh < 0) return std::nullopt;
  const ir::Mesh& mesh = e.module().meshes[static_cast<size_t>(b.mesh)];
  const int64_t grid = count(mesh, "grid"), last = static_cast<int64_t>(mesh.axes.size()) - count(mesh, "threads");
  ClusterAxis r;
  r.stride = b.per_core;
  for (int64_t i = last - 1; i >= grid; --i) {
    const ir::MeshAxis& a = mesh.axes[static_cast<size_t>(i)];
    r.size = std::max<int64_t>(a.size, 1);
    r.place_slot = b.axis_slots[static_cast<size_t>(i)];
    if (a.name == name) return r;
    r.stride *= r.size;
  }
  return std::nullopt;
}

std::optional<ClusterSet> cluster_set(Emitter& e, const Attr& axes, bool joint) {
  ClusterSet r;
  std::vector<ClusterAxis> all;
  for (const Attr& entry : axes.items) {
    std::vector<ClusterAxis> group;
    const std::vector<Attr> one{entry};
    for (const Attr& a : entry.is(Attr::Kind::List) ? entry.items : one) {
      const std::optional<ClusterAxis> axis = a.is(Attr::Kind::String) ? cluster_axis(e, a.s) : std::nullopt;
      if (!axis) return std::nullopt;
      group.push_back(*axis);
    }
    if (joint) all.insert(all.end(), group.begin(), group.end());
    else r.groups.push_back(std::move(group));
  }
  if (joint && !all.empty()) r.groups.push_back(std::move(all));
  return r;
}

ClusterPeer peer_at(Emitter& e, const Op& op, const std::string& axis, uint32_t slot) {
  const std::optional<ClusterAxis> a = cluster_axis(e, axis);
  if (!a) e.unsupported(op, std::string(ir::name(op.code)) + " along \"" + axis + "\", which is no axis of a cluster");
  ClusterPeer r;
  r.places.push_back({*a, slot, axis});
  return r;
}

std::optional<Elsewhere> elsewhere(Emitter& e, const Op& op, std::span<const ir::View> transforms) {
  Elsewhere r;
  bool named = false;
  for (const ir::View& t : transforms) {
    const auto* cluster = std::get_if<ir::view::Cluster>(&t);
    if (!cluster) {
      r.rest.push_back(t);
      continue;
    }
    if (named) e.unsupported(op, "a ref of another CTA of another CTA");
    named = true;
    for (const ir::view::AxisIndex& a : cluster->axes) {
      const Val i = a.index.is_operand() ? e.operand(op, static_cast<size_t>(a.index.operand))
                                         : e.const_int(ir::DType::I32, a.index.value());
      const ClusterPeer one = peer_at(e, op, a.axis, scalar_slot(e, scalar_convert(e, i, ir::DType::I32)));
      r.peer.places.push_back(one.places.front());
    }
  }
  if (!named) return std::nullopt;
  return r;
}

}  // namespace pallasim::interp
