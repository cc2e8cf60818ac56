// Trips of loops, and steps along axes of a grid: which one it is, and what is left out of them (Folds).
#include "../ops/bodies.h"
#include "clocks.h"

namespace pallasim::interp {

static bool is_wide(const Plan& p, const StepForm* f) {
  const auto& of = *p.functions;
  return f == &of.loop_begin(true, false) || f == &of.loop_begin(true, true) || f == &of.loop_next(true, false) ||
         f == &of.loop_next(true, true);
}

// A loop begins that has so many trips.
void Clocks::leave_out(Clock& c, const ir::Op* loop, int64_t all) {
  Clock::Trips& trips = c.trips[loop];
  trips = {all};
  if (!settings_.folds) return;
  trips.left = settings_.folds->begins(loop, all);
  if (trips.left.trips == 0) return;
  (trips.left.inner ? c.inner : c.outer) = static_cast<double>(all) / static_cast<double>(all - trips.left.trips);
}

// A step of the grid begins. Where it is the first one of a trip along the axis: behind the first trips others follow
// that are left out.
void Clocks::leave_out_points(Thread& t, bool inner, int axis) {
  const GridBox& box = ex_.part(t).box;
  const auto at = [&](size_t g) { return t.slot<int64_t>(t.body->pid_slots[g]) - box.lo[g]; };
  const auto g = static_cast<size_t>(axis);
  for (size_t within = g + 1; within < box.lo.size(); ++within)
    if (at(within) != 0) return;
  Clock& c = of(t.index);
  Folds::Left& left = c.axes[inner ? 0 : 1];
  if (at(g) == 0) {
    const int64_t all = box.hi[g] - box.lo[g];
    left = settings_.folds->begins_axis(axis, inner, all);
    (inner ? c.inner : c.outer) = static_cast<double>(all) / static_cast<double>(all - left.trips);
  }
  if (left.trips == 0 || at(g) != left.head) return;
  ops::skip_points(t, g, left.trips);
  if (picture_) picture_->points_left_out(t.index, this->at(t.index), left.trips, axis);
}

// What counts trips goes on behind those that are left out; what goes round is the same there (Folds::quantum).
void Clocks::watch_carried(const Thread& t, const ir::Op* loop, Clock::Trips* trips) const {
  const auto& carried = costs_.carried(loop);
  std::vector<int64_t> now;
  for (const StepCosts::Carried& x : carried)
    now.push_back(x.wide ? t.slot<int64_t>(x.slot) : int64_t{t.slot<int32_t>(x.slot)});
  const bool first = trips->carried.empty(), second = trips->step.empty();
  trips->step.resize(now.size());
  trips->steady.resize(now.size(), true);
  for (size_t i = 0; i < now.size() && !first; ++i) {
    int64_t step = 0;
    if (__builtin_sub_overflow(now[i], trips->carried[i], &step) || (!second && step != trips->step[i]))
      trips->steady[i] = false;
    trips->step[i] = step;
  }
  if (first) trips->step.clear();
  trips->carried = std::move(now);
}

void Clocks::move_carried(Thread& t, const ir::Op* loop, const Clock::Trips& trips) {
  if (picture_) picture_->left_out(t.index, at(t.index), trips.left.trips, loop->loc);
  const auto& carried = costs_.carried(loop);
  for (size_t i = 0; i < carried.size() && i < trips.step.size(); ++i) {
    if (!trips.steady[i]) continue;
    const auto over = static_cast<uint64_t>(trips.step[i]) * static_cast<uint64_t>(trips.left.trips);
    if (carried[i].wide) t.slot<uint64_t>(carried[i].slot) += over;
    else t.slot<uint32_t>(carried[i].slot) += static_cast<uint32_t>(over);
  }
}

void Clocks::end_loop(Clock& c, const Folds::Left& left) {
  if (left.trips > 0) (left.inner ? c.inner : c.outer) = 1;
}

void Clocks::begin_loop(const Thread& t, const Step& s, const ir::Op* loop) {
  const bool wide = is_wide(*ex_.plan, s.form);
  const auto slot = [&](uint32_t at) { return wide ? t.slot<int64_t>(at) : int64_t{t.slot<int32_t>(at)}; };
  const int64_t by = slot(s.c);
  Clock& c = of(t.index);
  leave_out(c, loop, by == 0 ? 0 : std::max<int64_t>(0, (slot(s.b) - slot(s.a) + by - 1) / by));
  if (Clock::Trips& trips = c.trips[loop]; trips.left.trips > 0) watch_carried(t, loop, &trips);
}

// The step has moved the index on, if there is a next trip.
void Clocks::next_trip(Thread& t, const Step& s, const ir::Op* loop) {
  Clock& c = of(t.index);
  Clock::Trips& trips = c.trips[loop];
  ++trips.now;
  if (trips.now >= trips.all) end_loop(c, trips.left);
  if (trips.left.trips == 0 || trips.now > trips.left.head) return;
  watch_carried(t, loop, &trips);
  if (trips.now < trips.left.head) return;
  move_carried(t, loop, trips);
  const bool wide = is_wide(*ex_.plan, s.form);
  const int64_t by = wide ? t.slot<int64_t>(s.c) : t.slot<int32_t>(s.c);
  const auto& of = *ex_.plan->functions;
  const bool down = s.form == &of.loop_next(true, true) || s.form == &of.loop_next(false, true);
  const int64_t over = (down ? -by : by) * trips.left.trips;
  if (wide) t.slot<int64_t>(s.dst) += over;
  else t.slot<int32_t>(s.dst) += static_cast<int32_t>(over);
  trips.now += trips.left.trips;
}

// The step has compared the index with its end: a trip begins, or the loop is over.
void Clocks::count_trip(Thread& t, const Step& s, const ir::Op* loop) {
  const ir::Op& test = *ex_.plan->ops_of(s).back();
  const bool wide =
      ir::byte_size(ex_.plan->module.bodies[static_cast<size_t>(t.body->index)].graph.type(test.operands[0])->dtype) ==
      8;
  const auto slot = [&](uint32_t at) { return wide ? t.slot<int64_t>(at) : int64_t{t.slot<int32_t>(at)}; };
  Clock& c = of(t.index);
  const int64_t rest = slot(s.b) - slot(s.a);
  const auto it = c.trips.find(loop);
  if (it == c.trips.end()) {
    if (rest <= 0) return;
    leave_out(c, loop, rest);
    watch_carried(t, loop, &c.trips[loop]);
    return;
  }
  Clock::Trips& trips = it->second;
  if (rest <= 0) {
    end_loop(c, trips.left);
    c.trips.erase(it);
  } else if (++trips.now <= trips.left.head && trips.left.trips > 0) {
    watch_carried(t, loop, &trips);
    if (trips.now == trips.left.head) move_carried(t, loop, trips);
  }
}

}  // namespace pallasim::interp
