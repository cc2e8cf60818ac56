#include "flight_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../plan/kinds.h"
#include "causes.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;

void FlightDetector::see(Seen& seen) {
  if (flights_.empty() || starts_operation(step(seen.access.step))) return;
  look(ex(), seen.shadow(), seen.access.thread);
}

// Of products and of all that uses tensor memory RaceDetector tells; blocks of a pipeline are the thread's own
// business.
void FlightDetector::on_operation(const OperationEvent& e) {
  if (memory::is_tensor(memory::row(e.operation.kind).engine)) return;
  if (e.what == OperationEvent::What::Moved) moved(e.operation);
  if (e.what == OperationEvent::What::Issued && starts_operation(step(e.operation.step))) issued(e.operation);
}

namespace {
constexpr size_t kMostReceivers = 1 << 16;
// In ascending order, as they are issued; several of one operation are its receivers, or parts of it.
int64_t flight_of(const memory::AsyncOperation& op, size_t receiver) {
  return op.id * static_cast<int64_t>(kMostReceivers) + static_cast<int64_t>(receiver);
}
}  // namespace

// The phase in which its bytes count is the one that waits for them.
void FlightDetector::moved(const memory::AsyncOperation& op) {
  for (size_t i = 0; i < op.after_write.size(); ++i)
    if (const memory::Completion& c = op.after_write[i]; c.kind == memory::Completion::Kind::Barrier)
      flights_.counted(flight_of(op, i), c.object, ex().barriers[c.object].phase);
}

void FlightDetector::issued(const memory::AsyncOperation& op) {
  if (flights_.empty()) issues_.clear();
  if (op.combine != memory::Combine::Replace) adding_.insert(op.step);
  if (rows_meet(op)) {
    const std::vector<memory::AsyncOperation> parts = op.runs(kMostReceivers);
    for (size_t i = 0; i < parts.size(); ++i) start(parts[i], 0, flight_of(op, i));
    return;
  }
  for (size_t i = 0; i < op.writes.size(); ++i) start(op, i, flight_of(op, i));
}

// Rows of one copy arrive in any order: what one writes none of the others may write or read.
bool FlightDetector::rows_meet(const memory::AsyncOperation& op) {
  if (op.rows.empty()) return false;
  const memory::Side &from = op.reads.front(), &to = op.writes.front();
  if (to.row_dim >= 0 && op.combine == memory::Combine::Replace) {
    std::vector<int64_t> rows = op.rows;
    std::sort(rows.begin(), rows.end());
    const auto first = std::lower_bound(rows.begin(), rows.end(), 0);
    if (std::adjacent_find(first, rows.end()) != rows.end()) return true;
  }
  if (ex().thread_of(from.place) != ex().thread_of(to.place) || from.place.buffer != to.place.buffer) return false;
  const memory::Span a = op.span(from), b = op.span(to);
  return from.place.offset + a.begin < to.place.offset + b.end && to.place.offset + b.begin < from.place.offset + a.end;
}

void FlightDetector::start(const memory::AsyncOperation& op, size_t receiver, int64_t id) {
  Execution& ex = this->ex();
  Issue issue{
      op.thread, CopyWay(ex, op, op.writes[receiver]), moment(ex.threads[static_cast<size_t>(op.thread)], op.step), {}};
  if (!op.rows.empty()) issue.rows = std::make_shared<memory::AsyncOperation>(op);
  issues_.insert_or_assign(id, std::move(issue));
  flights_.start(id, flight(op, receiver, Looks::yes));
}

// Which rows a wait was for matters now.
void FlightDetector::fall_apart(int64_t id) {
  const Issue issue = issues_.at(id);
  std::vector<shadow::Flight> parts;
  for (const memory::AsyncOperation& op : issue.rows->runs(kMostReceivers - 1))
    parts.push_back(flight(op, 0, Looks::no));
  if (parts.size() < 2) return;
  for (size_t i = 0; i < parts.size(); ++i)
    issues_.insert_or_assign(id + 1 + static_cast<int64_t>(i), Issue{issue.thread, issue.way, issue.when, {}});
  flights_.fall_apart(id, std::move(parts));
}

shadow::Flight FlightDetector::flight(const memory::AsyncOperation& op, size_t receiver, Looks looks) {
  Execution& ex = this->ex();
  shadow::Flight f;
  f.site = op.step;
  f.of_rows = !op.rows.empty();
  f.sides.reserve(op.reads.size() + 1);
  const auto note_side = [&](const memory::Side& side, bool write) {
    Instances::OfSide of(op, side);
    if (of.empty()) return;
    const shadow::Access& a = instances_.side(ex, op, of, write, op.thread);
    if (looks == Looks::yes && !flights_.empty()) look(ex, a, op.thread);
    f.sides.push_back({a.instance, a.box(), write, {a.places.begin(), a.places.end()}});
    std::sort(f.sides.back().places.begin(), f.sides.back().places.end());
  };
  if (receiver == 0)
    for (const memory::Side& side : op.reads) note_side(side, false);
  note_side(op.writes[receiver], true);
  const auto note = [&](const memory::Completion& d, std::vector<shadow::Owed>* owed) {
    const bool units = d.kind == memory::Completion::Kind::Semaphore, group = d.kind == memory::Completion::Kind::Group;
    owed->push_back({d.kind, d.object, units ? d.count : 1, group ? op.group : INT64_MAX});
  };
  for (const memory::Completion& c : op.after_read) note(c, &f.after_read);
  // Of several receivers each has its own, or one tells of all.
  const size_t own = op.after_write.size() == op.writes.size() ? receiver : 0;
  if (own < op.after_write.size()) note(op.after_write[own], &f.after_write);
  return f;
}

FlightDetector::Moment FlightDetector::moment(const Thread& t, int32_t step) {
  Moment r;
  for (const uint32_t slot : t.body->pid_slots) r.point.push_back(t.slot<int64_t>(slot));
  const auto [it, fresh] = loops_of_.try_emplace(step);
  if (fresh) it->second = loops_around(plan_, plan_.steps[static_cast<size_t>(step)]);
  for (const Step* next : it->second) r.trips.push_back(t.slot<int32_t>(next->dst));
  return r;
}

// "grid point (1,), trip 0 of the loop at k.py:12", the outermost first.
std::string FlightDetector::moment_text(const Moment& m, int32_t step) {
  std::string r;
  if (!m.point.empty()) r = fmt::format("grid point ({}{})", fmt::join(m.point, ", "), m.point.size() == 1 ? "," : "");
  const std::vector<const Step*>& loops = loops_of_[step];
  for (size_t i = loops.size(); i-- > 0;)
    r += fmt::format("{}trip {} of the loop at {}", r.empty() ? "" : ", ", m.trips[i],
                     where(ex(), plan_.loc_of(*loops[i])));
  return r;
}

void FlightDetector::on_sync(const SyncEvent& e) {
  if (e.what == SyncEvent::What::Taken) {
    for (const int64_t id : flights_.taken_apart(e.object, e.value)) fall_apart(id);
    flights_.taken(e.object, e.value);
  }
  if (e.what == SyncEvent::What::Passed) flights_.saw_phase(e.object, e.value);
  // Operations of a program are complete when another one begins in its place.
  constexpr auto all = std::numeric_limits<int64_t>::max();
  if (e.what == SyncEvent::What::Emptied) flights_.taken(e.object, all);
  if (e.what == SyncEvent::What::Renewed) flights_.saw_phase(e.object, all);
  if (e.what == SyncEvent::What::Groups) flights_.saw_groups(e.object, e.last, e.reads);
}

void FlightDetector::on_memory(const MemoryEvent& e) {
  if (e.what != MemoryEvent::What::Freed || flights_.empty()) return;
  const size_t before = flights_.found().size();
  flights_.freed(instances_.of(ex(), e.thread, e.buffer), e.offset, e.offset + e.bytes, e.thread);
  for (size_t i = before; i < flights_.found().size(); ++i) report(ex(), flights_.found()[i]);
}

// Of several blocks of threads each has shared memory of its own, which goes with it and is no scope's to give back.
void FlightDetector::on_thread(const ThreadEvent& e) {
  if (e.what != ThreadEvent::What::Ends || flights_.empty() || thread(e.thread).parent >= 0) return;
  const size_t before = flights_.found().size();
  for (const auto& [id, issue] : issues_)
    if (issue.thread == e.thread) flights_.abandoned(id, e.thread);
  for (size_t i = before; i < flights_.found().size(); ++i) report(ex(), flights_.found()[i]);
}

void FlightDetector::look(Execution& ex, const shadow::Access& a, int32_t thread) {
  const size_t before = flights_.found().size();
  flights_.access(a, thread);
  for (size_t i = before; i < flights_.found().size(); ++i) report(ex, flights_.found()[i]);
}

namespace {
std::string not_awaited(const shadow::InFlightUse& u) {
  switch (u.awaits) {
    case memory::Completion::Kind::Barrier: return "; the phase of the barrier that its bytes count in is not awaited";
    case memory::Completion::Kind::Group: return "; its group is not awaited";
    case memory::Completion::Kind::Nothing: return "; nothing tells when it is over";
    case memory::Completion::Kind::Semaphore: break;
  }
  return fmt::format(", {} bytes of it are not awaited", u.owed);
}
}  // namespace

// A semaphore counts bytes, not copies: the wait for this one may have been ended by another one's.
void FlightDetector::in_doubt(const Thread& t, const shadow::InFlightUse& u) {
  const auto issue = issues_.find(u.operation), other = issues_.find(u.instead);
  if (issue == issues_.end() || other == issues_.end()) return;
  const Step &issued = plan_.steps[static_cast<size_t>(u.issued)],
             &instead = plan_.steps[static_cast<size_t>(other->second.way.step)];
  const SideNames copy = row(issued).sides(issued);
  const std::string& name = u.writes ? copy.writes : copy.reads;
  const auto side = [&](const Step& s, const char* what) {
    ir::Site r = ir::site_of(*ex().locs, plan_.loc_of(s));
    r.what = what;
    return r;
  };
  ir::Diagnostic d = diagnostic_at(t, instances_.line(plan_, u.access.site).loc, "PS-DMA-002",
                                   fmt::format("{} is {} behind a wait that the bytes of another copy may have ended",
                                               name.empty() ? "memory" : name, u.access.write ? "written" : "read"));
  d.severity = ir::Severity::Note;
  d.also.push_back(side(issued, "the copy that was awaited was started here"));
  d.also.push_back(side(instead, "the other one, with the same semaphore, was started here"));
  d.numbers.push_back(fmt::format("the copy that was awaited goes {}", issue->second.way.text(ex())));
  d.numbers.push_back(fmt::format("the other one, which is not awaited yet, goes {}", other->second.way.text(ex())));
  d.numbers.push_back("a semaphore counts bytes, not copies: as many of either one end the wait");
  d.hint = "give each copy a semaphore of its own, or wait for all of them before one is used";
  add(std::move(d), issued, name, false);
}

void FlightDetector::report(Execution& ex, const shadow::InFlightUse& u) {
  if (u.instead >= 0) return in_doubt(ex.threads[static_cast<size_t>(u.access.thread)], u);
  // Of two copies that add to a place both count, in any order.
  if (!u.freed && u.writes && u.access.write && adding_.count(u.issued) &&
      adding_.count(instances_.line(plan_, u.access.site).step->id))
    return;
  const Step& issued = plan_.steps[static_cast<size_t>(u.issued)];
  const auto [used, loc] = instances_.line(plan_, u.access.site);
  // Copies of two threads are races of these, whether or not this schedule has both in flight at a time.
  const auto issue = issues_.find(u.operation);
  if (!u.freed && starts_operation(*used) && issue != issues_.end() && issue->second.thread != u.access.thread) return;
  // Who changes what another one writes to needs no wait but an order with that one: a race.
  if (!u.freed && u.access.write && u.writes && issue != issues_.end() && issue->second.thread != u.access.thread)
    return;
  const SideNames copy = row(issued).sides(issued);
  const std::string& name = u.writes ? copy.writes : copy.reads;
  const std::string what = name.empty() ? "memory" : name, does = u.writes ? "writes" : "reads",
                    did = fmt::format("{}{}", u.access.write ? "written" : "read",
                                      starts_operation(*used) ? " by another copy" : "");
  ir::Diagnostic d =
      diagnostic_at(ex.threads[static_cast<size_t>(u.access.thread)], loc, "PS-RACE-001",
                    u.freed ? fmt::format("the scope of {} ends while a copy that nobody awaited yet {} it", what, does)
                            : fmt::format("{} is {} while a copy that nobody awaited yet {} it", what, did, does));
  if (!u.freed) {
    ir::Site side = ir::site_of(*ex.locs, plan_.loc_of(issued));
    side.what = "the copy was started here";
    d.also.push_back(std::move(side));
  }
  if (issue != issues_.end()) {
    const CopyWay& way = issue->second.way;
    d.numbers.push_back(fmt::format("the copy goes {}{}", way.text(ex), not_awaited(u)));
    const memory::Place& met = u.writes ? way.dst : way.src;
    if (const std::string at = elements_text(plan_, met.buffer, u.bytes); !at.empty() && !u.freed)
      d.numbers.push_back(fmt::format("{} {} of {}", u.access.write ? "written are" : "read are", at, what));
  }
  if (const std::string trip = trip_of(ex.threads[static_cast<size_t>(u.access.thread)], *used); !trip.empty())
    d.numbers.push_back("in " + trip);
  // Where the copy was started at another time of the same line, its time tells the two apart.
  if (issue != issues_.end() && !u.freed) {
    const Moment now = moment(ex.threads[static_cast<size_t>(u.access.thread)], issued.id);
    if (const Moment& then = issue->second.when; !(then == now))
      if (const std::string at = moment_text(then, issued.id); !at.empty())
        d.numbers.push_back(fmt::format("the copy was started {} {}", then.point.empty() ? "in" : "at", at));
  }
  d.hint = u.freed    ? "wait for the copy before the scope ends: what is allocated next may lie in the same memory"
           : u.writes ? "wait for the copy before its destination is used; another slot of the buffer may be meant"
                      : "wait for the copy before its source is changed; another slot of the buffer may be meant";
  add(std::move(d), issued, name, u.awaits == memory::Completion::Kind::Nothing);
}

void FlightDetector::refilled(const Window& w, const shadow::Box& box, int32_t thread) {
  constexpr int32_t kNoStep = INT32_MIN;
  if (flights_.empty()) return;
  shadow::Access a;
  a.who = thread;
  a.instance = instances_.of(ex(), thread, w.buffer);
  a.write = true;
  a.site = kNoStep + w.operand;
  a.known = &box;
  const size_t before = flights_.found().size();
  flights_.access(a, thread);
  for (size_t i = before; i < flights_.found().size(); ++i) report(w, flights_.found()[i], thread);
}

// The window is a place of its own: a copy that names the array does not use it.
void FlightDetector::report(const Window& w, const shadow::InFlightUse& u, int32_t thread) {
  const auto issue = issues_.find(u.operation);
  if (issue == issues_.end() || (u.writes ? issue->second.way.dst : issue->second.way.src).buffer != w.buffer) return;
  const Step& issued = plan_.steps[static_cast<size_t>(u.issued)];
  const std::string& name = plan_.module.operands[static_cast<size_t>(w.operand)].name;
  ir::Diagnostic d =
      diagnostic_at(this->thread(thread), plan_.loc_of(issued), "PS-RACE-001",
                    fmt::format("the window of {} is used for another block while a copy that nobody awaited yet {} it",
                                name, u.writes ? "writes" : "reads"));
  d.numbers.push_back(fmt::format("the copy goes {}{}", issue->second.way.text(ex()), not_awaited(u)));
  if (const std::string at = moment_text(issue->second.when, issued.id); !at.empty())
    d.numbers.push_back(fmt::format("it was started at {}", at));
  d.numbers.push_back(
      "a core holds few blocks of an operand: the pipeline of the grid fetches a later one into the same "
      "memory, or the kernel writes one there");
  d.hint = fmt::format("wait for the copy in the step that starts it, or copy {} to scratch memory first", name);
  add(std::move(d), issued, name, u.awaits == memory::Completion::Kind::Nothing);
}

// Uses of copies that one wait would make right are one report.
void FlightDetector::add(ir::Diagnostic d, const Step& issued, const std::string& ref, bool by_itself) {
  std::vector<std::string> keys;
  if (!by_itself) keys = about_sync(issued);
  if (keys.empty()) keys.push_back(fmt::format("started at {}", plan_.loc_of(issued)));
  d.about = keys;
  if (!ref.empty()) d.about.push_back(about_ref(ref));
  findings_.push_back({std::move(d), std::move(keys)});
}

ir::Diagnostic FlightDetector::found(size_t n) const { return joined({findings_[n]}).front(); }

void FlightDetector::finish(std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : joined(std::move(findings_))) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
