#include "race_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "../plan/kinds.h"
#include "../plan/payload/arithmetic.h"
#include "checked.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;

RaceWatch::RaceWatch(const Plan& plan, size_t devices, const Options& o, Instances& instances)
    : plan_(plan),
      active_(static_cast<size_t>(plan.threads.count) * devices > 1),
      instances_(instances),
      races_({o.max_memory, false}) {
  for (const auto& b : plan.bodies)
    if (b->max_children > 0) active_ = reached_ = true;  // they use their parent's memory
  alone_ = !active_;
  for (const Step& s : plan.steps) {
    // A thread alone may forget a fence, and trips of its loops may meet.
    if (has_trait(s, kProxy | kTrips)) active_ = reached_ = true;
    reached_ = reached_ || has_trait(s, kReaches);
    has_trips_ = has_trips_ || has_trait(s, kTrips);
    for (const SyncUse& u : sync_uses(s)) reached_ = reached_ || (u.role == SyncUse::Role::Written && u.elsewhere);
  }
}

// What semaphores hold from the start orders nobody.
void RaceWatch::on_start(Execution& ex) {
  for (size_t i = 0; i < ex.semaphores.size(); ++i)
    if (const int64_t n = ex.semaphores.count(static_cast<int64_t>(i)); n != 0)
      order_.preset(static_cast<int64_t>(i), n);
}

void RaceWatch::see(Execution& ex, Seen& seen) {
  const Access& a = seen.access;
  if (starts_operation(*a.step)) return;  // the sides of a copy are actors of their own
  if (plan_.memory.is_private(a.buffer) && !reached_) return;
  const Where w{a.thread, a.owner < 0 ? a.thread : a.owner, a.buffer, a.offset};
  // A product's operands in shared memory and its accumulator are its own business until it is awaited; operands in
  // registers are the compiler's, whatever had a name there before.
  const bool accumulator = has_trait(*a.step, kProxy) && plan_.memory.allocations.at(a.buffer, a.offset) &&
                           products_[a.thread].accumulator == std::pair(a.buffer, a.offset);
  if (has_trait(*a.step, kProxy) && (accumulator || in_shared_memory(a.buffer, a.offset))) {
    shadow::Access of = seen.shadow();
    of.who = products_[a.thread].issued.writes;
    of.proxy = in_shared_memory(a.buffer, a.offset);
    return look(ex, of, w);
  }
  look(ex, seen.shadow(), w);
}

bool RaceWatch::in_shared_memory(uint32_t buffer, int64_t offset) const {
  const memory::Allocation* a = plan_.memory.allocations.at(buffer, offset);
  return a && a->space == ir::Space::GpuSmem;
}

void RaceWatch::on_trips(Execution&, const Thread& t, Trips what) {
  switch (what) {
    case Trips::Begin: return order_.begin_trips(t.index);
    case Trips::Next: return order_.next_trip(t.index);
    case Trips::End: return order_.end_trips(t.index);
  }
}

// Each is a group of its own, and awaits all before it (JAX, pallas/gpu/reference: all but the last one).
void RaceWatch::on_product(Execution&, const Thread& t, const Step& s) {
  const Addr& to = payload<Kind::wgmma>(s).dst;
  products_[t.index] = {order_.issue(t.index, products_of(t), true),
                        {to.buffer, to.offset + (to.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(to.dyn))}};
  order_.commit(products_of(t));
  order_.wait_group(t.index, products_of(t), 1, false);
}

void RaceWatch::on_copy(Execution& ex, const memory::AsyncCopy& c, const Step& s) {
  const shadow::Issued who =
      order_.issue(c.thread, c.stream, false, c.after_read.kind != memory::Completion::Kind::Nothing);
  issued_[c.id] = who;
  check_begun(ex, c, who.writes);
  for (bool dst : {false, true}) {
    const memory::Place& p = dst ? c.dst : c.src;
    if (plan_.memory.is_private(p.buffer) && !reached_) continue;
    const int64_t* dims = dst ? c.dst_dims() : c.dims;
    if (std::any_of(dims, dims + c.rank, [](int64_t n) { return n <= 0; })) continue;
    shadow::Access side = instances_.side(ex, c, dst, dst ? who.writes : who.reads);
    side.proxy = has_trait(s, kProxy) && in_shared_memory(p.buffer, p.offset);
    look(ex, side, {c.thread, p.thread, p.buffer, p.offset});
  }
}

void RaceWatch::on_complete(Execution&, const memory::AsyncCopy& c) {
  const auto it = issued_.find(c.id);
  // Copies of a pipeline are the thread's own business.
  const shadow::Issued who = it == issued_.end() ? shadow::Issued{c.thread, c.thread} : it->second;
  const auto release = [&](shadow::Actor side, const memory::Completion& d) {
    if (d.kind == memory::Completion::Kind::Semaphore) order_.signal(side, d.object, d.count, it != issued_.end());
    if (d.kind == memory::Completion::Kind::Barrier) order_.arrive(side, d.object);
  };
  release(who.reads, c.after_read);
  release(who.writes, c.after_write);
  if (it != issued_.end()) issued_.erase(it);
}

void RaceWatch::on_signal(Execution&, const Thread& t, int64_t semaphore, int64_t amount) {
  order_.signal(t.index, semaphore, amount);
}
void RaceWatch::on_taken(Execution&, const Thread& t, int64_t semaphore, int64_t amount) {
  order_.take(t.index, semaphore, amount);
}
void RaceWatch::on_looked(Execution&, const Thread& t, int64_t semaphore, int64_t value) {
  order_.look(t.index, semaphore, value);
}

// Memory is given out again: what was done to it before is another buffer's story.
void RaceWatch::forget(Execution& ex, const Thread& t, int64_t offset, int64_t bytes) {
  races_.fresh(instances_.of(ex, t.index, t.temps), offset, offset + bytes);
}

void RaceWatch::on_scope(Execution& ex, const Thread& t, int64_t offset, int64_t bytes) {
  if (!has_trips_) return;
  scopes_[{t.index, offset}] = offset + bytes;
  forget(ex, t, offset, bytes);
}

void RaceWatch::on_freed(Execution& ex, const Thread& t, int64_t offset, int64_t bytes) {
  scopes_.erase({t.index, offset});
  forget(ex, t, offset, bytes);
}

void RaceWatch::look(Execution& ex, const shadow::Access& a, const Where& w) {
  if (races_.limit()) return;
  const size_t before = races_.found().size();
  const bool fits = races_.access(order_, a);
  for (size_t i = before; i < races_.found().size(); ++i) report(ex, races_.found()[i], w);
  if (!fits) too_much_remembered(ex, "accesses of several threads", races_.limit()->bytes);
}

void RaceWatch::check_begun(Execution& ex, const memory::AsyncCopy& c, shadow::Actor writes) {
  const auto thread = [&](int32_t i) -> const Thread& { return ex.threads[static_cast<size_t>(i)]; };
  const int32_t from = ex.device_of(thread(c.thread)), to = ex.device_of(thread(c.dst.thread));
  // Devices of no chip in particular begin together.
  if (from == to || ex.options->chip->family == hw::Family::Generic || too_early_.count(c.step)) return;
  for (int32_t i = 0; i < ex.device_threads; ++i)
    if (order_.ordered({to * ex.device_threads + i, 1}, writes)) return;
  too_early_.insert(c.step);
  const Step& step = plan_.steps[static_cast<size_t>(c.step)];
  std::string name = allocation_name(plan_, c.dst.buffer, c.dst.offset);
  ir::Diagnostic d = diagnostic_at(
      thread(c.thread), &step, "PS-RACE-002",
      fmt::format("{} of device {} is written by device {}, which does not know that device {} began the kernel",
                  name.empty() ? "memory" : name, to, from, to));
  d.numbers.push_back(
      fmt::format("device {} may still run what comes before, and use the memory for something else", to));
  d.hint =
      "before the first copy to a device wait for a signal of it: on pltpu.get_barrier_semaphore(), with a "
      "collective_id";
  findings_.push_back(std::move(d));
}

namespace {
// What brings the two together.
std::string remedy(const Execution& ex, const Thread& a, const Thread& b) {
  const auto is_subcore = [&](const Thread& t) {
    return t.body->mesh >= 0 && ex.plan->module.meshes[static_cast<size_t>(t.body->mesh)].kind == "vector_subcore";
  };
  const memory::Level core = memory::Level::Core;
  if (ex.device_of(a) != ex.device_of(b)) return "signals on pltpu.get_barrier_semaphore() bring devices together";
  if (is_subcore(a) && is_subcore(b) && ex.units.unit_of(core, a.unit) == ex.units.unit_of(core, b.unit))
    return "plsc.subcore_barrier() brings the subcores of a SparseCore together";
  return "pltpu.core_barrier brings cores together";
}
}  // namespace

void RaceWatch::report(Execution& ex, const shadow::Race& r, const Where& w) {
  const auto thread = [&](int32_t i) -> const Thread& { return ex.threads[static_cast<size_t>(i)]; };
  const auto step_of = [&](const shadow::Party& p) { return instances_.line(plan_, p.site).step; };
  const Step* step = step_of(r.later);
  const auto product = [](const Step* s) { return s->kind == Kind::wgmma; };
  const bool products = product(step) || product(step_of(r.earlier));
  const bool unordered = r.kind == shadow::Race::Kind::Unordered;
  const bool trips = unordered && !r.earlier.asynchronous && !r.later.asynchronous && r.earlier.thread == w.thread;
  if (alone_ && unordered && !products && !trips) return;
  std::string name = allocation_name(plan_, w.buffer, w.offset);
  if (name.empty()) name = plan_.memory.is_private(w.buffer) ? "memory" : "an allocation";
  if (plan_.memory.is_private(w.buffer)) name = fmt::format("{} of {}", name, name_of(thread(w.owner)));
  if (r.kind == shadow::Race::Kind::Unfenced) return unfenced(thread(w.thread), r, name);
  if (trips && !products) {
    const std::optional<std::string> ref = ref_of(thread(w.owner), w, name);
    return ref ? between_trips(thread(w.thread), r, *ref) : void();
  }
  const auto who = [&](const shadow::Party& p, int32_t index) {
    return (product(step_of(p)) ? "a wgmma of " : "") + name_of(thread(index));
  };
  ir::Diagnostic d = diagnostic_at(
      thread(w.thread), instances_.line(plan_, r.later.site).loc, "PS-RACE-002",
      fmt::format("{} is {} by {} while {} may {} it", name, r.later.write ? "written" : "read", who(r.later, w.thread),
                  who(r.earlier, r.earlier.thread), r.earlier.write ? "write" : "read"));
  ir::Site side = ir::site_of(plan_.module, instances_.line(plan_, r.earlier.site).loc);
  side.what = fmt::format("{} {} it here", who(r.earlier, r.earlier.thread), r.earlier.write ? "writes" : "reads");
  d.also.push_back(std::move(side));
  d.numbers.push_back("no signal and no wait lies between the two; in another schedule they come in the other order");
  if (products)
    d.hint =
        "a wgmma reads its operands and writes its accumulator until it is awaited: plgpu.wgmma_wait(0) before that";
  else if (!plan_.memory.barriers.empty())
    d.hint = "let one arrive at a barrier behind its access, and the other wait for it";
  else
    d.hint = "let one signal a semaphore of the other behind its access, and the other wait: " +
             remedy(ex, thread(w.thread), thread(r.earlier.thread));
  findings_.push_back(std::move(d));
}

// The name of the ref that the memory is of; between scopes and blocks a thread's memory holds values of the
// compiler's.
std::optional<std::string> RaceWatch::ref_of(const Thread& owner, const Where& w, const std::string& name) const {
  if (!plan_.memory.is_private(w.buffer)) return name;
  if (w.buffer == owner.temps)
    for (const Window& window : owner.body->windows) {
      const Window::Stage* s = window.stage();
      const int64_t slots = window.modelled() ? window.modelled()->slots : 1;
      if (s && w.offset >= s->offset && w.offset < s->offset + slots * s->elements * ir::byte_size(window.dtype))
        return plan_.module.operands[static_cast<size_t>(window.operand)].name;
    }
  const memory::Allocation* a = plan_.memory.allocations.at(w.buffer, w.offset);
  if (!a) return {};
  if (a->lifetime == memory::Allocation::Lifetime::Launch) return name;
  const auto behind = scopes_.upper_bound({w.owner, w.offset});
  if (behind == scopes_.begin() || std::prev(behind)->first.first != w.owner) return {};
  return w.offset < std::prev(behind)->second ? std::optional(name) : std::nullopt;
}

// Of one thread, in two trips of a parallel_loop. What is no ref is the compiler's.
void RaceWatch::between_trips(const Thread& t, const shadow::Race& r, const std::string& name) {
  ir::Diagnostic d =
      diagnostic_at(t, instances_.line(plan_, r.later.site).loc, "PS-RACE-002",
                    fmt::format("{} is {} in a trip of a parallel_loop while another trip may {} it", name,
                                r.later.write ? "written" : "read", r.earlier.write ? "write" : "read"));
  ir::Site side = ir::site_of(plan_.module, instances_.line(plan_, r.earlier.site).loc);
  side.what = fmt::format("another trip {} it here", r.earlier.write ? "writes" : "reads");
  d.also.push_back(std::move(side));
  d.numbers.push_back("trips of a parallel_loop have no order among each other: a chip overlaps them as it likes");
  d.hint = "give every trip memory of its own, carry the value, or write the loop as pl.loop";
  findings_.push_back(std::move(d));
}

// Ordered, but written by ordinary stores, which copies and products see behind a fence alone.
void RaceWatch::unfenced(const Thread& t, const shadow::Race& r, const std::string& name) {
  const auto [step, loc] = instances_.line(plan_, r.later.site);
  const bool product = !starts_operation(*step);
  ir::Diagnostic d =
      diagnostic_at(t, loc, "PS-RACE-003",
                    fmt::format("{} is {} by a {} of {} that need not see what was stored there", name,
                                r.later.write ? "written" : "read", product ? "wgmma" : "bulk copy", name_of(t)));
  ir::Site side = ir::site_of(plan_.module, instances_.line(plan_, r.earlier.site).loc);
  side.what = "stored here";
  d.also.push_back(std::move(side));
  d.numbers.push_back(
      "no fence lies between the two: copies and products reach shared memory by the asynchronous proxy");
  d.hint = "plgpu.commit_smem() behind the stores makes them visible to what is issued then";
  findings_.push_back(std::move(d));
}

void RaceWatch::finish(Execution&, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

void FlightWatch::see(Execution& ex, Seen& seen) {
  if (flights_.empty() || starts_operation(*seen.access.step)) return;
  look(ex, seen.shadow(), seen.access.thread);
}

void FlightWatch::on_copy(Execution& ex, const memory::AsyncCopy& c, const Step& s) {
  shadow::Flight f;
  f.site = s.id;
  if (flights_.empty()) issuers_.clear();
  issuers_[c.id] = c.thread;
  if (c.combine != memory::Combine::Replace) adding_.insert(s.id);
  for (bool dst : {false, true}) {
    const shadow::Access side = instances_.side(ex, c, dst, c.thread);
    const bool none = std::any_of(side.dims, side.dims + side.rank, [](int64_t n) { return n <= 0; });
    if (none) continue;
    if (!flights_.empty()) look(ex, side, c.thread);
    f.sides.push_back({side.instance, side.box(), dst});
  }
  const auto note = [&c](const memory::Completion& d, auto* to) {
    if (d.kind == memory::Completion::Kind::Nothing) return;
    const bool units = d.kind == memory::Completion::Kind::Semaphore, group = d.kind == memory::Completion::Kind::Group;
    to->push_back({d.kind, d.object, units ? d.count : 1, group ? c.group : INT64_MAX});
  };
  note(c.after_read, &f.after_read);
  note(c.after_write, &f.after_write);
  flights_.start(c.id, std::move(f));
}

// The phase in which its bytes count is the one that waits for them.
void FlightWatch::on_complete(Execution& ex, const memory::AsyncCopy& c) {
  if (c.after_write.kind == memory::Completion::Kind::Barrier)
    flights_.counted(c.id, c.after_write.object, ex.barriers[c.after_write.object].phase);
}

void FlightWatch::on_taken(Execution&, const Thread&, int64_t semaphore, int64_t amount) {
  flights_.taken(semaphore, amount);
}

void FlightWatch::on_freed(Execution& ex, const Thread& t, int64_t offset, int64_t bytes) {
  if (flights_.empty()) return;
  const size_t before = flights_.found().size();
  flights_.freed(instances_.of(ex, t.index, t.temps), offset, offset + bytes, t.index);
  for (size_t i = before; i < flights_.found().size(); ++i) report(ex, flights_.found()[i]);
}

void FlightWatch::look(Execution& ex, const shadow::Access& a, int32_t thread) {
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

void FlightWatch::report(Execution& ex, const shadow::InFlightUse& u) {
  // Of two copies that add to a place both count, in any order.
  if (!u.freed && u.writes && u.access.write && adding_.count(u.issued) &&
      adding_.count(instances_.line(plan_, u.access.site).step->id))
    return;
  const Step& issued = plan_.steps[static_cast<size_t>(u.issued)];
  const auto [used, loc] = instances_.line(plan_, u.access.site);
  // Copies of two threads are races of these, whether or not this schedule has both in flight at a time.
  const auto issuer = issuers_.find(u.operation);
  if (!u.freed && starts_operation(*used) && issuer != issuers_.end() && issuer->second != u.access.thread) return;
  const SideNames copy = row(issued).sides(issued);
  const std::string& name = u.writes ? copy.writes : copy.reads;
  const std::string what = name.empty() ? "memory" : name, does = u.writes ? "writes" : "reads",
                    did = fmt::format("{}{}", u.access.write ? "written" : "read",
                                      starts_operation(*used) ? " by a copy" : "");
  ir::Diagnostic d =
      diagnostic_at(ex.threads[static_cast<size_t>(u.access.thread)], loc, "PS-RACE-001",
                    u.freed ? fmt::format("the scope of {} ends while a copy that nobody awaited yet {} it", what, does)
                            : fmt::format("{} is {} while a copy that nobody awaited yet {} it", what, did, does));
  if (!u.freed) {
    ir::Site side = ir::site_of(plan_.module, plan_.loc_of(issued));
    side.what = "the copy was started here";
    d.also.push_back(std::move(side));
  }
  d.numbers.push_back(fmt::format("the copy moves {} to {}{}", copy.reads.empty() ? "a ref" : copy.reads,
                                  copy.writes.empty() ? "a ref" : copy.writes, not_awaited(u)));
  d.hint = u.freed    ? "wait for the copy before the scope ends: what is allocated next may lie in the same memory"
           : u.writes ? "wait for the copy before its destination is used; another slot of the buffer may be meant"
                      : "wait for the copy before its source is changed; another slot of the buffer may be meant";
  findings_.push_back(std::move(d));
}

void FlightWatch::finish(Execution&, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
