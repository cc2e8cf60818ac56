#include "reach.h"

#include <fmt/format.h>

#include <algorithm>

#include "emitter.h"

namespace pallasim::interp {
namespace {

int block_of(const Val& v) { return is_barrier(v.dtype) ? ~v.ref().semaphore : v.ref().semaphore; }

// Whether a thread of the other body is at the own coordinates: its mesh has no axis that the own one lacks.
bool has_counterpart(const Plan& plan, const Body& own_body, int other) {
  const auto axes = [&](const Body& b) {
    return b.mesh < 0 ? std::vector<ir::MeshAxis>() : plan.module.meshes[static_cast<size_t>(b.mesh)].axes;
  };
  const std::vector<ir::MeshAxis> own = axes(own_body), there = axes(*plan.bodies[static_cast<size_t>(other)]);
  return !there.empty() && std::all_of(there.begin(), there.end(), [&](const ir::MeshAxis& a) {
    return std::any_of(own.begin(), own.end(), [&](const ir::MeshAxis& o) { return o.name == a.name; });
  });
}

}  // namespace

void Reach::note(const Val& v, int body) {
  if (v.is_semaphore()) semaphores_[block_of(v)] = body;
  else memory_[v.memory().addr.buffer] = body;
}

int Reach::far_body(const Val& v) const {
  if (v.is_choice()) {
    for (const Val& r : v.ref().choice->refs)
      if (const int b = far_body(r); b >= 0) return b;
    return -1;
  }
  const auto of = [](const auto& map, auto key) {
    const auto it = map.find(key);
    return it == map.end() ? -1 : it->second;
  };
  return v.is_semaphore() ? of(semaphores_, block_of(v)) : of(memory_, v.memory().addr.buffer);
}

void check_reach(const Emitter& e, const Op& op) {
  using C = ir::OpCode;
  if (op.code == C::view || op.code == C::call || op.code == C::select_ref) return;
  const ir::Attr* core = op.attr("core_index");
  const bool named = core && !(core->is(Attr::Kind::Symbol) && core->s == "none");
  const bool sends = op.code == C::sem_signal || op.code == C::dma_start;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Val* v = e.live().find(op.operands[i]);
    const int far = v && v->is_ref() ? e.reach().far_body(*v) : -1;
    if (far < 0) continue;
    const bool source = op.code == C::dma_start && op.viewed("src")->operand == static_cast<int>(i);
    if (sends && !source && (named || has_counterpart(e.plan(), e.body(), far))) continue;
    // A wait says by a ref of its size how much it waits for; the semaphore is the thread's own.
    if (op.code == C::dma_wait && op.viewed("dst_sem")->operand != static_cast<int>(i)) continue;
    const auto mesh = [&](int body) { return e.module().bodies[static_cast<size_t>(body)].mesh; };
    e.unsupported(op,
                  fmt::format("{} of {}, which threads of mesh \"{}\" have for themselves, by a thread of mesh \"{}\"",
                              ir::name(op.code), v->memory().name, mesh(far), mesh(e.body().index)));
  }
}

int target_body(Emitter& e, const Op& op) {
  const auto far = [&](int operand) { return e.reach().far_body(e.operand(op, static_cast<size_t>(operand))); };
  for (const char* key : {"dst", "dst_sem"})
    if (const ir::Viewed* v = op.viewed(key))
      if (const int b = far(v->operand); b >= 0) return b;
  const int b = op.code == ir::OpCode::sem_signal ? far(0) : -1;
  return b >= 0 ? b : e.body().index;
}

}  // namespace pallasim::interp
