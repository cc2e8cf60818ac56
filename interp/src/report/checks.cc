#include "checks.h"

#include <algorithm>
#include <memory>

#include "pallasim/hw/machine.h"

namespace pallasim::interp {

namespace {
constexpr size_t kQuiet = 128;
}

Checks::Detectors::Detectors(const Plan& plan, const Options& o, size_t devices, Instances& instances)
    : traffic(plan),
      claims(plan, o, instances),
      flights(plan, instances),
      pipeline(plan, flights),
      definedness(plan, instances),
      writes(plan, instances, !claims.empty() && devices == 1 ? &claims : nullptr, definedness),
      aliases(plan),
      lanes(plan),
      races(plan, devices, o, instances),
      neighbours(),
      running(plan) {}

Checks::Checks(const Plan& plan, const Options& o, size_t devices)
    : all_(plan, o, devices, instances_), detectors_{&all_.traffic} {
  const hw::Checks& machine = plan.first().model->checks;
  if (machine.copies_in_flight) detectors_.push_back(&all_.flights);
  if (machine.copies_in_flight && !all_.pipeline.empty()) detectors_.push_back(&all_.pipeline);
  if (machine.written_before_read || machine.unwritten_outputs)
    detectors_.push_back(&all_.writes);  // at its end it may tell claims of something
  detectors_.push_back(&all_.definedness);
  if (!all_.claims.empty() && devices == 1) detectors_.push_back(&all_.claims);
  if (!all_.aliases.empty()) detectors_.push_back(&all_.aliases);
  if (!all_.lanes.empty()) detectors_.push_back(&all_.lanes);
  if (!all_.races.empty()) detectors_.push_back(&all_.races);
  if (devices > 1 || plan.threads.count > 1) detectors_.push_back(&all_.neighbours);
  if (!all_.running.empty()) detectors_.push_back(&all_.running);
  const auto remembers = [&](const Detector* d) {
    return d == &all_.claims || d == &all_.aliases || d == &all_.lanes || d == &all_.races || d == &all_.running;
  };
  if (std::none_of(detectors_.begin(), detectors_.end(), remembers)) quiet_.resize(kQuiet);
}

std::shared_ptr<const void> Checks::state() const { return std::make_shared<const Detectors>(all_); }

// They are where they were: what refers to one of them refers to the restored one.
void Checks::restore(const std::shared_ptr<const void>& state) {
  std::destroy_at(&all_);
  std::construct_at(&all_, *static_cast<const Detectors*>(state.get()));
  quiet_.assign(quiet_.size(), {});
}

void Checks::attach(Execution& ex, std::vector<Observer*>* observers) {
  ex_ = &ex;
  observers->push_back(this);
  for (Detector* d : detectors_) {
    d->attach(ex);
    observers->push_back(d);
  }
}

bool Checks::is_quiet(const Access& a) {
  const Quiet& q = quiet(a.step, a.buffer, a.write);
  if (q.step != a.step || q.thread != a.thread || q.buffer != a.buffer || q.write != a.write || a.owner >= 0 ||
      a.internal || a.unwritten)
    return false;
  int64_t begin = a.offset, end = a.offset + a.element_bytes;
  for (int d = 0; d < a.rank; ++d) {
    const int64_t more = (a.dims[d] - 1) * a.strides[d] * a.element_bytes;
    (more < 0 ? begin : end) += more;
  }
  if (a.places) {
    const auto [first, last] = std::minmax_element(a.places, a.places + a.boxes);
    begin += *first - a.offset, end += *last - a.offset;
  }
  if (begin < q.settled.bytes.begin || end > q.settled.bytes.end || !all_.writes.holds(q.settled) ||
      !all_.flights.idle() || !all_.definedness.all_defined(q.instance, q.buffer))
    return false;
  all_.traffic.count(a);
  if (a.write) all_.writes.wrote(q.settled, a.thread, a.loc);
  return true;
}

// The same of an element, before anybody asks for more than its place; and such a write to what was not written.
bool Checks::knows(const ElementAccess& a) {
  if (quiet_.empty()) return false;
  const Quiet& q = quiet(a.step, a.buffer, a.write);
  if (q.step != a.step || q.thread != a.thread || !all_.writes.holds(q.settled) || !all_.flights.idle() ||
      all_.definedness.is_visited(q.buffer))
    return false;
  const int64_t begin = a.offset, end = begin + a.element_bytes;
  const auto lies_in = [&](const memory::shadow::Range& r) { return begin >= r.begin && end <= r.end; };
  if (a.write) {
    if (!lies_in(q.settled.place)) return false;
    if (!lies_in(q.settled.bytes)) all_.writes.write(q.settled, begin, end);
    all_.definedness.define(q.instance, begin, end);
    all_.writes.wrote(q.settled, a.thread, q.loc);
  } else if (!lies_in(q.settled.bytes) || !all_.definedness.is_defined(q.instance, begin, end)) {
    return false;
  }
  all_.traffic.count(a.buffer, begin, a.write, a.element_bytes, 1);
  return true;
}

// Ever more rarely: a step may come to another place each time.
void Checks::learn(Seen& seen) {
  const Access& a = seen.access;
  Quiet& q = quiet(a.step, a.buffer, a.write);
  if (const int64_t n = ++q.looks; (n & (n - 1)) != 0) return;
  if (a.owner >= 0 || a.internal || ex_->threads[static_cast<size_t>(a.thread)].parent >= 0)
    return;  // others get parents anew
  q.step = a.step, q.thread = a.thread, q.instance = seen.instance(), q.buffer = a.buffer, q.write = a.write;
  q.loc = a.loc;
  q.settled = all_.writes.settled(q.instance, a);
}

void Checks::see_each(Detector& d, const Access& a) {
  Access one = a;
  one.places = nullptr, one.boxes = 1;
  for (int64_t i = 0; i < a.boxes; ++i) {
    one.offset = a.places[i];
    Seen seen(*ex_, one, instances_);
    d.see(seen);
  }
}

// What the compiler made for itself is for those who ask for it.
void Checks::on_access(const Access& a) {
  const bool learns = !quiet_.empty();
  if (learns && is_quiet(a)) return;
  Seen seen(*ex_, a, instances_);
  for (Detector* d : detectors_) {
    if (a.internal && !(d->wants() & kInternal)) continue;
    if (!a.places || d->sees_places()) d->see(seen);
    else see_each(*d, a);
  }
  if (learns) learn(seen);
}

std::vector<ir::Diagnostic> Checks::news(std::vector<size_t>* seen) const {
  std::vector<ir::Diagnostic> r;
  seen->resize(detectors_.size());
  for (size_t i = 0; i < detectors_.size(); ++i) {
    for (size_t n = (*seen)[i]; n < detectors_[i]->found(); ++n) r.push_back(detectors_[i]->found(n));
    (*seen)[i] = detectors_[i]->found();
  }
  return r;
}

void Checks::finish(std::vector<ir::Diagnostic>& findings) {
  all_.definedness.settle();
  for (Detector* d : detectors_)
    if (d != &all_.definedness) d->finish(findings);
  all_.definedness.leave_out(all_.writes.told());
  all_.definedness.finish(findings);
}

}  // namespace pallasim::interp
