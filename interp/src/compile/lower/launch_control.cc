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
