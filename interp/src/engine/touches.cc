#include "touches.h"

#include <algorithm>

#include "../ops/bodies.h"
#include "../ops/footprint.h"
#include "../plan/payload/barriers.h"

namespace pallasim::interp {

bool depend(const Touch& a, const Touch& b) {
  using What = Touch::What;
  if (a.what == What::Everything || b.what == What::Everything) return true;
  if (a.what != b.what || a.object != b.object) return false;
  using How = Touch::How;
  if (a.how == b.how && (a.how == How::Look || a.how == How::Add)) return false;
  if ((a.how == How::Add && b.how == How::Take) || (a.how == How::Take && b.how == How::Add)) return false;
  return a.what != What::Memory || memory::shadow::overlap(a.box, b.box);
}

bool depend(std::span<const Touch> a, std::span<const Touch> b) {
  return std::any_of(a.begin(), a.end(), [&](const Touch& x) {
    return std::any_of(b.begin(), b.end(), [&](const Touch& y) { return depend(x, y); });
  });
}

namespace {

// The boxes of an operation's sides, as accesses.
class Sides : public ops::Boxes {
 public:
  Sides(const Thread& t, const Step& s, std::vector<Access>* to) : Boxes(t, s), to_(to) {}

 private:
  void box(const Access& a) override {
    to_->push_back(a);
    // What `a` points to goes with the call.
    dims_.emplace_back(a.dims, a.dims + a.rank);
    dims_.emplace_back(a.strides, a.strides + a.rank);
    to_->back().dims = dims_[dims_.size() - 2].data();
    to_->back().strides = dims_.back().data();
  }
  std::vector<Access>* to_;
  std::deque<std::vector<int64_t>> dims_;
};

bool counts_alone(const Plan& p) {
  if (std::any_of(p.memory.barriers.begin(), p.memory.barriers.end(), [](const auto& b) { return b.named; }))
    return false;
  return std::none_of(p.steps.begin(), p.steps.end(), [](const Step& s) {
    if (s.kind == Kind::bulk_load || s.kind == Kind::peer_store || s.kind == Kind::named_arrive) return true;
    if (s.kind != Kind::barrier_arrive) return false;
    const BarrierPayload& b = payload<Kind::barrier_arrive>(s);
    const auto any = [](const BarrierPayload::Bytes& n) { return n.fixed != 0 || n.slot != Addr::kNoSlot; };
    return any(b.expects) || any(b.brings);
  });
}

}  // namespace

Touches::Touches(const Execution& ex) : ex_(ex), bytes_at_barriers_(!counts_alone(*ex.plan)) {
  const memory::Allocations& all = ex.plan->memory.allocations;
  allocation_.assign(ex.plan->memory.num_buffers, -1);
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].private_to_thread()) allocation_[all[i].buffer] = static_cast<int32_t>(i);
}

void Touches::begin_turn(const Choice& who) {
  who_ = who;
  step_ = -1;
  all_.clear();
}

// The same for the same memory in every run: memory of programs may lie elsewhere each time.
uint64_t Touches::object_of(const Access& a) const {
  const auto owner = static_cast<size_t>(a.owner < 0 ? a.thread : a.owner);
  const Thread& t = ex_.threads[owner];
  if (ex_.plan->memory.is_private(a.buffer)) return uint64_t{1} << 61 | owner << 32 | a.buffer;
  if (const int32_t shared = allocation_[a.buffer]; shared >= 0) {
    const memory::Allocation& of = ex_.plan->memory.allocations[static_cast<size_t>(shared)];
    return uint64_t{1} << 62 | static_cast<uint64_t>(shared) << 32 |
           static_cast<uint64_t>(ex_.units.unit_of(of.owner, t.unit));
  }
  return reinterpret_cast<uint64_t>(t.bases ? t.bases[a.buffer] : nullptr);
}

void Touches::add_memory(const Access& a, std::optional<Choice> forced) {
  if (a.buffer == kConstBuffer) return;
  Touch t{Touch::What::Memory, a.write ? Touch::How::Change : Touch::How::Look, object_of(a),
          memory::shadow::Box(a.offset, a.dims, a.strides, a.rank, a.element_bytes), std::move(forced)};
  all_.push_back(std::move(t));
}

void Touches::on_step(const StepEvent& e) {
  of_body_ = all_.size();
  if (step_ < 0) step_ = e.step;
  const Step& s = ex_.plan->steps[static_cast<size_t>(e.step)];
  const Thread& t = ex_.threads[static_cast<size_t>(e.thread)];
  if (t.parent >= 0) add(sync(Touch::What::Thread, Touch::How::Add, t.index));
  if (s.kind == Kind::barrier_test)
    add(sync(Touch::What::Barrier, Touch::How::Look, ops::barrier_id(t, payload<Kind::barrier_test>(s))));
}

void Touches::on_access(const Access& a) { add_memory(a, std::nullopt); }

void Touches::on_operation(const OperationEvent& e) {
  const memory::AsyncOperation& op = e.operation;
  const Step& s = ex_.plan->steps[static_cast<size_t>(op.step)];
  if (e.what == OperationEvent::What::Issued) {
    // What it will touch when its bytes move is told now.
    if (row(s).footprint == Footprint::Operations)
      std::erase_if(all_, [&, i = size_t{0}](const Touch& t) mutable {
        return i++ >= of_body_ && t.what == Touch::What::Memory && !t.forced;
      });
    return;
  }
  if (e.what != OperationEvent::What::Moved) return;
  const Choice moved{Choice::What::Operation, op.thread, op.number};
  std::optional<Choice> forced;
  if (step_ < 0) step_ = op.step;
  if (who_ != moved) forced = moved;
  std::vector<Access> boxes;
  Sides sides(ex_.threads[static_cast<size_t>(op.thread)], s, &boxes);
  for (const memory::Side& side : op.reads)
    if (side.held < 0) ops::side_boxes(op, side, false, side.dims, sides);
  for (const memory::Side& side : op.writes) ops::side_boxes(op, side, true, side.dims, sides);
  for (const Access& a : boxes) add_memory(a, forced);
  const auto tells = [&](const memory::Completion& c) {
    Touch t;
    if (c.kind == memory::Completion::Kind::Semaphore) t = sync(Touch::What::Semaphore, Touch::How::Add, c.object);
    else if (c.kind == memory::Completion::Kind::Barrier) t = sync(Touch::What::Barrier, Touch::How::Change, c.object);
    else return;
    t.forced = forced;
    add(std::move(t));
  };
  if (op.kind == memory::AsyncKind::cluster_request) {
    Touch t = sync(Touch::What::Programs, Touch::How::Change, -1);  // it takes the next cluster
    t.forced = forced;
    add(std::move(t));
  }
  for (const memory::Completion& c : op.after_read) tells(c);
  for (const memory::Completion& c : op.after_write) tells(c);
  if (op.stream < 0) return;
  Touch t = sync(Touch::What::Stream, op.in_order() ? Touch::How::Change : Touch::How::Add, op.stream);
  t.forced = forced;
  add(std::move(t));
}

Touch Touches::sync(Touch::What what, Touch::How how, int64_t object) const {
  return {what, how, static_cast<uint64_t>(object), {}, std::nullopt};
}

void Touches::on_sync(const SyncEvent& e) {
  using What = SyncEvent::What;
  switch (e.what) {
    case What::Signal: return add(sync(Touch::What::Semaphore, Touch::How::Add, e.object));
    case What::Taken: return add(sync(Touch::What::Semaphore, Touch::How::Take, e.object));
    case What::Looked: return add(sync(Touch::What::Semaphore, Touch::How::Look, e.object));
    case What::Arrive:
      return add(sync(Touch::What::Barrier, bytes_at_barriers_ ? Touch::How::Change : Touch::How::Add, e.object));
    case What::Passed: return add(sync(Touch::What::Barrier, Touch::How::Look, e.object));
    case What::Groups: return add(sync(Touch::What::Stream, Touch::How::Change, e.object));
    case What::Spawn:
    case What::Join: return add(sync(Touch::What::Thread, Touch::How::Change, e.object));
    default: return;
  }
}

// A program's place goes to the next one when all of its threads have ended.
void Touches::on_thread(const ThreadEvent& e) {
  if (ex_.points == 0) return;
  const Thread& t = ex_.threads[static_cast<size_t>(e.thread)];
  if (t.parent >= 0 || (e.what != ThreadEvent::What::Begins && e.what != ThreadEvent::What::Ends)) return;
  const int64_t place = t.index / ex_.population.crew;
  add(sync(Touch::What::Programs, Touch::How::Change, place));
  if (e.what != ThreadEvent::What::Ends) return;
  // It takes the next one, or sees that there is none.
  const bool more = ex_.next_points[static_cast<size_t>(ex_.device_of(t))] < ex_.points;
  add(sync(Touch::What::Programs, more ? Touch::How::Change : Touch::How::Look, -1));
}

}  // namespace pallasim::interp
