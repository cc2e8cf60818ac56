// Cluster launch control: requests for clusters that have not begun, and their answers.
#include "../../plan/payload/launch_control.h"

#include <algorithm>

#include "access.h"
#include "barriers.h"
#include "copy_forwarding.h"
#include "units.h"

namespace pallasim::interp {
namespace {

// The 16 bytes of an answer.
Val answer(Emitter& e, const Op& op, ViewUse use) {
  const Val ref = viewed_operand(e, op, "result", use);
  if (ref.is_choice() || ref.is_semaphore() || ref.bytes() != kClusterAnswerBytes || !is_dense(ref))
    e.unsupported(op, std::string(ir::name(op.code)) + " with an answer that is not 16 bytes side by side");
  return ref;
}

// Along which axes the threads and CTAs of a cluster ask together: those that `collective_axes` names, or all.
void who_ask(Emitter& e, const Op& op, ClusterRequestPayload* p) {
  const Body& b = e.body();
  if (b.mesh < 0) return;
  const ir::Mesh& mesh = e.module().meshes[static_cast<size_t>(b.mesh)];
  const auto count = [&](const char* key) {
    const Attr* a = ir::find(mesh.attrs, key);
    return static_cast<size_t>(a && a->is_int() ? a->i : 0);
  };
  const Attr* named = op.attr("collective_axes");
  const auto together = [&](const std::string& axis) {
    return !named || std::any_of(named->items.begin(), named->items.end(), [&](const Attr& a) {
      return a.is(Attr::Kind::List)
                 ? std::any_of(a.items.begin(), a.items.end(), [&](const Attr& of) { return of.s == axis; })
                 : a.s == axis;
    });
  };
  for (size_t i = count("grid"); i < mesh.axes.size(); ++i) {
    const bool of_threads = i + count("threads") >= mesh.axes.size();
    if (together(mesh.axes[i].name)) (of_threads ? p->threads : p->ctas).push_back(b.axis_slots[i]);
    else p->several |= mesh.axes[i].size > 1;
  }
}

void lower_request(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  if (e.frame().in_spawn()) e.unsupported(op, "a request for a cluster by a single warp");
  ClusterRequestPayload p;
  const Val to = answer(e, op, ViewUse::CopyTo);
  check_writable(e, op, to);
  p.answer.addr = to.memory().addr;
  p.answer.name = to.memory().name;
  p.answer.elidable = elidable_of(e, to);
  p.barrier = barrier_of(e, op);
  p.receivers = cluster_of(e);
  who_ask(e, op, &p);
  e.emit<Kind::cluster_request>(std::move(p));
}

void lower_answer(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  ClusterAnswerPayload p;
  const Val from = answer(e, op, ViewUse::Access);
  materialise_elided(e, from);
  p.answer = from.memory().addr;
  std::vector<Val> places;
  for (const Attr& name : op.attr("grid_names")->items) {
    const std::optional<GridAxis> axis = grid_axis(e, name.s);
    if (!axis) e.unsupported(op, "query_cluster_cancel of axis \"" + name.s + "\", which is none of the grid");
    places.push_back(scalar_in(e.new_slot(), ir::DType::I32));
    p.axes.push_back({axis->size, axis->stride, places.back().scalar().slot});
  }
  const Val given = scalar_in(e.new_slot(), ir::DType::Bool);
  e.emit<Kind::cluster_answer>(std::move(p)).dst = given.scalar().slot;
  for (size_t i = 0; i < places.size(); ++i) e.define(op.results[i], places[i]);
  e.define(op.results.back(), given);
}

}  // namespace

Rows launch_control_rows() {
  static constexpr Row kRows[] = {{OpCode::try_cluster_cancel, lower_request},
                                  {OpCode::query_cluster_cancel, lower_answer}};
  return kRows;
}

}  // namespace pallasim::interp
