// Cluster launch control. A request takes the next cluster that has not begun, which then never begins; its answer
// comes to the shared memory of all CTAs of the cluster that asks, and its bytes to their barriers.
#include "../plan/payload/launch_control.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "copies.h"
#include "findings.h"
#include "footprint.h"
#include "units.h"

namespace pallasim::interp::ops {

using memory::AsyncOperation, memory::Completion, memory::Side;

namespace {

int64_t cta_of(const Execution& ex, int64_t unit) { return ex.units.unit_of(memory::Level::Core, unit); }

bool first_along(const Thread& t, const std::vector<uint32_t>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](uint32_t own) { return t.slot<int64_t>(own) == 0; });
}

}  // namespace

const Step* cluster_request(Thread& t, const Step* s) {
  const auto& p = payload<Kind::cluster_request>(s);
  Execution& ex = *t.exec;
  const bool leads = first_along(t, p.threads);
  const std::vector<int32_t> receivers = units_of(t, s, p.receivers, "a request for a cluster");
  arrive_expecting(t, barrier_id(t, p.barrier), leads ? kClusterAnswerBytes : 0);
  if (leads && first_along(t, p.ctas)) {
    if (ex.answers.refused.count(cta_of(ex, t.unit))) diagnose(t).vain_request(t, s);
    AsyncOperation op;
    op.kind = memory::AsyncKind::cluster_request;
    op.step = s->id;
    op.thread = t.index;
    Side answer;
    answer.dtype = ir::DType::I8;
    answer.rank = 1;
    answer.dims[0] = kClusterAnswerBytes;
    answer.strides[0] = 1;
    answer.place = ex.place(t, p.answer.addr.buffer, t.resolve(p.answer.addr) - t.bases[p.answer.addr.buffer]);
    for (const int32_t unit : receivers) {
      answer.place.thread = begun(t, unit);
      op.writes.add(answer);
      op.after_write.add({Completion::Kind::Barrier, barrier_id(t, p.barrier, unit), 0, kClusterAnswerBytes});
    }
    // An answer takes longer than the threads of a cluster do until all have asked: who counts on one of several finds
    // it so on hardware.
    issue(t, s, op, p.several ? Moves::Late : Moves::AsOthers);
  }
  ex.progressed = true;
  tell_of_barriers(t, s);
  return s + 1;
}

void move_cluster(Execution& ex, const AsyncOperation& op) {
  const int32_t device = ex.device_of(ex.threads[static_cast<size_t>(op.thread)]);
  ClusterAnswer answer;
  if (ex.points > 0) {
    int64_t& next = ex.next_points[static_cast<size_t>(device)];
    if (next < ex.points) answer = {static_cast<int32_t>(next++), 1};
  }
  const auto claim = answer.given ? static_cast<int64_t>(ex.claims.size()) : -1;
  if (answer.given) ex.claims.push_back({device, answer.cluster, op.step, op.thread, false});
  const int32_t elidable = payload<Kind::cluster_request>(ex.plan->steps[static_cast<size_t>(op.step)]).answer.elidable;
  for (const Side& to : op.writes) {
    arrives_there(ex, to, elidable);
    std::byte* at = ex.address(to.place);
    std::memset(at, 0, kClusterAnswerBytes);
    std::memcpy(at, &answer, sizeof(answer));
    const int64_t cta = cta_of(ex, ex.threads[static_cast<size_t>(to.place.thread)].unit);
    ClusterAnswers::At& known = ex.answers.at[{cta, to.place.buffer, to.place.offset}];
    if (known.unread >= 0) known.covered = known.unread;
    known.unread = claim;
  }
}

const Step* cluster_answer(Thread& t, const Step* s) {
  const auto& p = payload<Kind::cluster_answer>(s);
  Execution& ex = *t.exec;
  ClusterAnswer answer;
  const std::byte* at = t.resolve(p.answer);
  std::memcpy(&answer, at, sizeof(answer));
  t.slot<uint8_t>(s->dst) = answer.given == 1;
  // Of nothing there is no place: an index that nobody can use.
  for (const ClusterAnswerPayload::Axis& a : p.axes)
    t.slot<int32_t>(a.slot) = answer.given == 1 ? static_cast<int32_t>(answer.cluster / a.stride % a.size) : -1;
  for (ClusterClaim& c : ex.claims)
    c.seen |= answer.given == 1 && c.device == ex.device_of(t) && c.cluster == answer.cluster;
  const int64_t cta = cta_of(ex, t.unit);
  const auto known = ex.answers.at.find({cta, p.answer.buffer, at - t.bases[p.answer.buffer]});
  if (known == ex.answers.at.end()) return s + 1;
  if (answer.given == 0) ex.answers.refused.insert(cta);
  known->second.unread = -1;
  if (const int64_t lost = std::exchange(known->second.covered, -1); lost >= 0) {
    ClusterClaim& c = ex.claims[static_cast<size_t>(lost)];
    c.missed = t.index;
    c.missed_at = t.point;
  }
  return s + 1;
}

void cluster_answer_footprint(Thread&, const Step& s, Boxes& out) {
  static constexpr int64_t kBytes[] = {kClusterAnswerBytes}, kOne[] = {1};
  out.read(payload<Kind::cluster_answer>(s).answer, kBytes, kOne, 1);
}

}  // namespace pallasim::interp::ops
