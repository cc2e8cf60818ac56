// What a body knows of other bodies' threads, and may do with what these have for themselves.
#include <fmt/format.h>

#include <algorithm>

#include "emitter.h"

namespace pallasim::interp {

// The body whose threads have what the ref shows for themselves, where it is another one; else -1.
int Emitter::far_body(const Val& v) const {
  if (v.is_choice()) {
    for (const Val& r : v.ref().choice->refs)
      if (const int b = far_body(r); b >= 0) return b;
    return -1;
  }
  const auto of = [](const auto& map, auto key) {
    const auto it = map.find(key);
    return it == map.end() ? -1 : it->second;
  };
  return v.is_semaphore() ? of(far_semaphores_, is_barrier(v.dtype) ? ~v.ref().semaphore : v.ref().semaphore)
                          : of(far_memory_, v.memory().addr.buffer);
}

// Whether a thread of the other body is at the own coordinates: its mesh has no axis that the own one lacks.
static bool has_counterpart(const Plan& plan, const Body& own_body, int other) {
  const auto axes = [&](const Body& b) {
    return b.mesh < 0 ? std::vector<ir::MeshAxis>() : plan.module.meshes[static_cast<size_t>(b.mesh)].axes;
  };
  const std::vector<ir::MeshAxis> own = axes(own_body), there = axes(*plan.bodies[static_cast<size_t>(other)]);
  return !there.empty() && std::all_of(there.begin(), there.end(), [&](const ir::MeshAxis& a) {
    return std::any_of(own.begin(), own.end(), [&](const ir::MeshAxis& o) { return o.name == a.name; });
  });
}

// What threads of another mesh have for themselves is reached by copies and signals that name one of them, or mean the
// one at the own coordinates.
void Emitter::check_reach(const Op& op) {
  using C = ir::OpCode;
  if (op.code == C::view || op.code == C::call || op.code == C::select_ref) return;
  const ir::Attr* core = op.attr("core_index");
  const bool named = core && !(core->is(Attr::Kind::Symbol) && core->s == "none");
  const bool sends = op.code == C::sem_signal || op.code == C::dma_start;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const auto it = values_.find(op.operands[i]);
    const int far = it == values_.end() || !it->second.val.is_ref() ? -1 : far_body(it->second.val);
    if (far < 0) continue;
    const bool source = op.code == C::dma_start && op.viewed("src")->operand == static_cast<int>(i);
    if (sends && !source && (named || has_counterpart(plan_, body_, far))) continue;
    // A wait says by a ref of its size how much it waits for; the semaphore is the thread's own.
    if (op.code == C::dma_wait && op.viewed("dst_sem")->operand != static_cast<int>(i)) continue;
    const auto& home = m_.bodies[static_cast<size_t>(far)].mesh;
    unsupported(op,
                fmt::format("{} of {}, which threads of mesh \"{}\" have for themselves, by a thread of mesh \"{}\"",
                            ir::name(op.code), it->second.val.memory().name, home, ir_body_.mesh));
  }
}

// Whose core `core_index` names: that of the mesh which has the destination, or the semaphore, for itself.
int Emitter::target_body(const Op& op) {
  for (const char* key : {"dst", "dst_sem"})
    if (const ir::Viewed* v = op.viewed(key))
      if (const int b = far_body(operand(op, static_cast<size_t>(v->operand))); b >= 0) return b;
  const int b = op.code == ir::OpCode::sem_signal ? far_body(operand(op, 0)) : -1;
  return b >= 0 ? b : body_.index;
}

}  // namespace pallasim::interp
