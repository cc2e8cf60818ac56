#include "units.h"

#include <algorithm>
#include <functional>

#include "../views/devices.h"
#include "lowering.h"

namespace pallasim::interp {
namespace {

int64_t count(const ir::Mesh& mesh, const char* key) {
  const Attr* a = ir::find(mesh.attrs, key);
  return a && a->is_int() ? a->i : 0;
}

// Axes of a mesh: those of the grid of clusters, those of a cluster, that of a block's threads.
std::optional<UnitSet::Axis> cluster_axis(Emitter& e, const std::string& name) {
  const Body& b = e.body();
  if (b.mesh < 0) return std::nullopt;
  const ir::Mesh& mesh = e.module().meshes[static_cast<size_t>(b.mesh)];
  const int64_t grid = count(mesh, "grid"), last = static_cast<int64_t>(mesh.axes.size()) - count(mesh, "threads");
  UnitSet::Axis r;
  r.stride = b.per_core;
  for (int64_t i = last - 1; i >= grid; --i) {
    const ir::MeshAxis& a = mesh.axes[static_cast<size_t>(i)];
    r.size = std::max<int64_t>(a.size, 1);
    r.own_slot = b.axis_slots[static_cast<size_t>(i)];
    r.name = "CTA " + a.name + " =";
    if (a.name == name) return r;
    r.stride *= r.size;
  }
  return std::nullopt;
}

// The core of the body's mesh that coordinates on its axes name; where an axis is not named, the own coordinate on an
// axis of that name. -1, which no core is, where a coordinate lies outside of its axis.
Val core_of_axes(Emitter& e, const Op& op, int body, const Attr& named, const std::function<Val(const Attr&)>& scalar) {
  const std::vector<ir::Mesh>& meshes = e.module().meshes;
  const int there = e.plan().bodies[static_cast<size_t>(body)]->mesh, here = e.body().mesh;
  if (there < 0) e.unsupported(op, "a core by axes, in a kernel without a mesh");
  const ir::Mesh& mesh = meshes[static_cast<size_t>(there)];
  const auto is_named = [&](const Attr& a, const std::string& name) {
    return a.is_call("axis") && a.items.size() == 2 && a.items[0].s == name;
  };
  for (const Attr& a : named.items)
    if (std::none_of(mesh.axes.begin(), mesh.axes.end(), [&](const ir::MeshAxis& x) { return is_named(a, x.name); }))
      e.unsupported(op, "a core by an axis that mesh \"" + mesh.name + "\" does not have");
  constexpr ir::DType kI32 = ir::DType::I32, kBool = ir::DType::Bool;
  const auto compute = [&](OpCode code, ir::DType result, const Val& a, const Val& b) {
    StripParams params;
    params.dtype = a.dtype;
    params.semantics = e.semantics();
    return scalar_result(e, code, a.dtype, result, {a, b}, params);
  };
  const auto coordinate = [&](const std::string& axis) {
    for (const Attr& a : named.items)
      if (is_named(a, axis)) return scalar(a.items[1]);
    for (size_t i = 0; i < e.body().axis_slots.size(); ++i)
      if (meshes[static_cast<size_t>(here)].axes[i].name == axis) return scalar_in(e.body().axis_slots[i], kI32);
    ir::Diagnostic("PS-TPU-006",
                   "a core of mesh \"" + mesh.name + "\" without a coordinate on its axis \"" + axis + "\"")
        .of(e.module().name)
        .at(ir::site_of(e.module(), op.loc))
        .with({"the kernel's own mesh has no axis of that name"})
        .hinted("from a mesh without the axis every core has to be named by all of its coordinates")
        .raise();
  };
  Val core = e.const_int(kI32, 0), outside = e.const_int(kI32, 0);
  for (const ir::MeshAxis& axis : mesh.axes) {
    const Val size = e.const_int(kI32, axis.size), at = coordinate(axis.name);
    core = compute(OpCode::add, kI32, compute(OpCode::mul, kI32, core, size), at);
    for (const Val& wrong :
         {compute(OpCode::lt, kBool, at, e.const_int(kI32, 0)), compute(OpCode::ge, kBool, at, size)})
      outside = compute(OpCode::add, kI32, outside, scalar_convert(e, wrong, kI32));
  }
  const Val mask = compute(OpCode::sub, kI32, e.const_int(kI32, 0), outside);
  return compute(OpCode::or_, kI32, core, mask);
}

}  // namespace

UnitSet named_unit(Emitter& e, const Op& op) {
  UnitSet r;
  r.body = target_body(e, op);
  auto named = [&](const char* key) {  // null: nobody is named
    const Attr* a = op.attr(key);
    return a && a->is(Attr::Kind::Symbol) && a->s == "none" ? nullptr : a;
  };
  auto slot = [&](const char* key) {
    const Attr* a = named(key);
    if (!a) return Addr::kNoSlot;
    if (a->is(Attr::Kind::List))
      return scalar_slot(e,
                         core_of_axes(e, op, r.body, *a, [&](const Attr& c) { return device_number(e, op, c, key); }));
    return scalar_slot(e, device_number(e, op, *a, key));
  };
  r.core_slot = slot("core_index");
  if (r.core_slot == Addr::kNoSlot && r.body != e.body().index)  // the one at the own coordinates
    r.core_slot = scalar_slot(e, core_of_axes(e, op, r.body, Attr::list({}), {}));
  e.plan().threads.reach_cores |= r.core_slot != Addr::kNoSlot;
  const Attr *device = named("device_id"), *kind = op.attr("device_id_type");
  if (device) r.device = device_named(e, op, *device, kind ? kind->s : "logical").device;
  return r;
}

UnitSet all_devices(Emitter& e, const Op& op, const Attr& axes) {
  const std::vector<PlanThreads::DeviceAxis>& all = e.plan().threads.device_axes;
  const auto named = [&](const PlanThreads::DeviceAxis& d) {
    return std::any_of(axes.items.begin(), axes.items.end(), [&](const Attr& a) { return a.s == d.name; });
  };
  if (!std::all_of(all.begin(), all.end(), named))
    e.unsupported(op, std::string(ir::name(op.code)) + " along some axes of the devices, not all of them");
  UnitSet r;
  r.device.all = true;
  return r;
}

UnitSet cluster_of(Emitter& e) {
  UnitSet r;
  const Body& b = e.body();
  if (b.mesh < 0) return r;
  const ir::Mesh& mesh = e.module().meshes[static_cast<size_t>(b.mesh)];
  std::vector<Attr> names;
  for (size_t i = static_cast<size_t>(count(mesh, "grid"));
       i + static_cast<size_t>(count(mesh, "threads")) < mesh.axes.size(); ++i)
    names.push_back(Attr::string(mesh.axes[i].name));
  if (!names.empty()) r = *units_along(e, Attr::list(std::move(names)), true);
  return r;
}

std::optional<GridAxis> grid_axis(Emitter& e, const std::string& name) {
  if (e.body().mesh < 0) return std::nullopt;
  const ir::Mesh& mesh = e.module().meshes[static_cast<size_t>(e.body().mesh)];
  GridAxis r{1, 1};
  for (int64_t i = count(mesh, "grid"); i-- > 0; r.stride *= r.size) {
    const ir::MeshAxis& a = mesh.axes[static_cast<size_t>(i)];
    r.size = std::max<int64_t>(a.size, 1);
    if (a.name == name) return r;
  }
  return std::nullopt;
}

bool drop_multicast(Emitter& e, const Op& op, std::vector<ir::View>* view, UnitSet* devices) {
  const auto at = std::find_if(view->begin(), view->end(),
                               [](const ir::View& v) { return std::holds_alternative<ir::view::Multicast>(v); });
  if (at == view->end()) return false;
  std::vector<Attr> names;
  for (const std::string& axis : std::get<ir::view::Multicast>(*at).axes) names.push_back(Attr::string(axis));
  *devices = all_devices(e, op, Attr::list(std::move(names)));
  view->erase(at);
  return true;
}

std::optional<UnitSet> units_along(Emitter& e, const Attr& axes, bool joint) {
  UnitSet r;
  std::vector<UnitSet::Axis> all;
  for (const Attr& entry : axes.items) {
    std::vector<UnitSet::Axis> group;
    const std::vector<Attr> one{entry};
    for (const Attr& a : entry.is(Attr::Kind::List) ? entry.items : one) {
      std::optional<UnitSet::Axis> axis = a.is(Attr::Kind::String) ? cluster_axis(e, a.s) : std::nullopt;
      if (!axis) return std::nullopt;
      axis->at.all = true;
      group.push_back(std::move(*axis));
    }
    if (joint) all.insert(all.end(), group.begin(), group.end());
    else r.groups.push_back(std::move(group));
  }
  if (joint && !all.empty()) r.groups.push_back(std::move(all));
  return r;
}

UnitSet cta_at(Emitter& e, const Op& op, const std::string& axis, uint32_t slot) {
  std::optional<UnitSet::Axis> a = cluster_axis(e, axis);
  if (!a) e.unsupported(op, std::string(ir::name(op.code)) + " along \"" + axis + "\", which is no axis of a cluster");
  a->at.slot = slot;
  UnitSet r;
  r.groups.push_back({std::move(*a)});
  return r;
}

UnitSet subcore_at(Emitter& e, uint32_t slot) {
  const Body& b = e.body();
  const bool counted = b.per_core > 1;  // the last axis of the mesh does
  UnitSet r;
  r.groups.push_back({{counted ? b.axis_slots.back() : scalar_slot(e, e.const_int(ir::DType::I64, 0)),
                       b.per_core,
                       1,
                       {.slot = slot},
                       "subcore"}});
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
    r.peer.groups.emplace_back();
    for (const ir::view::AxisIndex& a : cluster->axes) {
      const Val i = a.index.is_operand() ? e.operand(op, static_cast<size_t>(a.index.operand))
                                         : e.const_int(ir::DType::I32, a.index.value());
      UnitSet one = cta_at(e, op, a.axis, scalar_slot(e, scalar_convert(e, i, ir::DType::I32)));
      r.peer.groups.front().push_back(std::move(one.groups.front().front()));
    }
  }
  if (!named) return std::nullopt;
  return r;
}

}  // namespace pallasim::interp
