// A region that runs once per thread of an inner mesh.
#include <algorithm>

#include "../../plan/payload/control.h"
#include "lowering.h"

namespace pallasim::interp {

// mesh = {kind = warp, axes = [axis("warp", 4)]}.
static const Attr* axes_of(Emitter& e, const Op& op) {
  const Attr& mesh = *op.attr("mesh");
  const auto at = std::find(mesh.keys.begin(), mesh.keys.end(), "axes");
  if (at == mesh.keys.end()) e.unsupported(op, "spawn of a mesh without axes");
  return &mesh.items[static_cast<size_t>(at - mesh.keys.begin())];
}

static bool is_of_warps(const Op& op) {
  const Attr& mesh = *op.attr("mesh");
  const auto at = std::find(mesh.keys.begin(), mesh.keys.end(), "kind");
  return at != mesh.keys.end() && mesh.items[static_cast<size_t>(at - mesh.keys.begin())].s == "warp";
}

static void lower_spawn(Emitter& e, const Op& op) {
  if (e.frame().in_spawn()) e.unsupported(op, "spawn inside spawn");
  if (!op.results.empty() || !op.operands.empty()) e.unsupported(op, "spawn with values");
  e.before_regions(op);
  e.about_to_write(everything());
  SpawnPayload p;
  std::vector<Frame::InnerAxis> axes;
  for (const Attr& a : axes_of(e, op)->items) {
    if (!a.is_call("axis") || a.items.size() != 2 || !a.items[1].is_int() || a.items[1].i < 1)
      e.unsupported(op, "spawn of such a mesh");
    p.extents.push_back(a.items[1].i);
    p.axis_slots.push_back(e.new_slot());
    axes.push_back({a.items[0].s, a.items[1].i, p.axis_slots.back()});
  }
  p.warps =
      is_of_warps(op) && p.count() == e.plan().threads.units.meshes()[static_cast<size_t>(e.body().units_mesh)].warps;
  require_memory(e, memory::mul(p.count(), 1024), "spawned threads");
  p.temps = e.plan().memory.num_buffers++;
  e.plan().memory.private_buffers.push_back(p.temps);
  SpawnPayload* own = e.own(std::move(p));
  const int begin = e.here();
  e.emit<Kind::spawn>(own);
  {
    const LiveValues::Conditional again(e.live());
    const Frame::Spawned inside(e.frame(), own->temps, std::move(axes), &own->temp_bytes);
    compile_region(e, op.regions[0]);
    e.at(op);
    e.emit<Kind::finish>();
    e.live().forget(op.regions[0]);
  }
  Body& b = e.body();
  b.max_children = std::max(b.max_children, own->count());
  b.child_bytes = std::max(b.child_bytes, own->temp_bytes);
  e.jump_to(begin, e.here());
  e.emit<Kind::join>();
}

Rows spawn_rows() {
  static constexpr Row kRows[] = {{OpCode::spawn, lower_spawn}};
  return kRows;
}

}  // namespace pallasim::interp
