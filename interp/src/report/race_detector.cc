#include "race_detector.h"

#include <fmt/format.h>

#include <algorithm>

#include "../analysis/refs.h"
#include "../plan/kinds.h"
#include "../plan/payload/arithmetic.h"
#include "causes.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;
namespace {

// Steps whose operations use tensor memory: one thread can be early by itself.
bool uses_tensor_memory(Kind k) {
  return k == Kind::tcgen05_mma || k == Kind::tmem_copy || k == Kind::tmem_load || k == Kind::tmem_store;
}
bool multiplies(const Step& s) { return s.kind == Kind::wgmma || uses_tensor_memory(s.kind); }

// What a thread leaves out that uses the memory of an operation before that is complete.
const char* remedy_of(const Step& earlier, const Step& later, bool one_thread) {
  if (earlier.kind == Kind::wgmma || later.kind == Kind::wgmma)
    return "a wgmma reads its operands and writes its accumulator until it is awaited: plgpu.wgmma_wait(0) before that";
  if (earlier.kind == Kind::tmem_store)
    return "plgpu.commit_tmem() behind a store to tensor memory, before somebody uses what it writes";
  if (earlier.kind == Kind::tmem_load && one_thread)
    return "plgpu.wait_load_tmem() behind a load of tensor memory, before somebody writes what it reads";
  if (!one_thread)
    return "let the two meet at a barrier that orders_tensor_core, the CTAs of a pair at one of the cluster; a product "
           "is known by its commit's arrival";
  return "the tensor pipe reads its operands and writes its result until a barrier says so: wait for the one that "
         "tcgen05_mma is given, or that plgpu.tcgen05_commit_arrive() arrives at behind it";
}

}  // namespace

RaceDetector::RaceDetector(const Plan& plan, size_t devices, const Options& o, Instances& instances)
    : plan_(plan),
      active_(static_cast<size_t>(plan.threads.count) * devices > 1),
      instances_(instances),
      races_({o.max_memory, false, true}) {
  for (const auto& b : plan.bodies)
    if (b->max_children > 0) active_ = reached_ = true;  // they use their parent's memory
  programs_ = plan.programs_meet();
  active_ = active_ || programs_;
  alone_ = !active_;
  for (const Step& s : plan.steps) {
    // A thread alone may forget a fence or a wait, and trips of its loops may meet.
    if (has_trait(s, kProxy | kTrips) || uses_tensor_memory(s.kind)) active_ = reached_ = true;
    reached_ = reached_ || has_trait(s, kReaches);
    has_trips_ = has_trips_ || has_trait(s, kTrips);
    for (const SyncUse& u : sync_uses(s)) reached_ = reached_ || (u.role == SyncUse::Role::Written && u.elsewhere);
  }
}

namespace {
bool may_be_written(const Plan& plan, size_t operand) {
  const ir::Operand& o = plan.module.operands[operand];
  return o.kind == ir::Operand::Kind::Output || ir::is_sync(o.array->dtype) || plan.module.is_aliased_input(operand) ||
         std::any_of(plan.module.bodies.begin(), plan.module.bodies.end(), [&](const ir::Body& b) {
           return analysis::may_write(b.graph.region, b.graph.region.args[operand]);
         });
}

// Buffers of operands that nobody writes, under their own name or as another operand that lies at the same place.
std::vector<bool> only_read(const Execution& ex) {
  const size_t operands = ex.plan->module.operands.size();
  std::vector<bool> r(kFirstOperandBuffer + operands, false);
  std::set<const std::byte*> written;
  for (size_t i = 0; i < operands; ++i) {
    r[kFirstOperandBuffer + i] = !may_be_written(*ex.plan, i);
    if (r[kFirstOperandBuffer + i]) continue;
    for (const std::vector<std::byte*>& device : ex.operands) written.insert(device[i]);
  }
  for (size_t i = 0; i < operands; ++i)
    for (const std::vector<std::byte*>& device : ex.operands)
      if (written.contains(device[i])) r[kFirstOperandBuffer + i] = false;
  return r;
}
}  // namespace

// What semaphores hold from the start orders nobody.
void RaceDetector::on_launch(const LaunchEvent&) {
  const Execution& ex = this->ex();
  only_read_ = interp::only_read(ex);
  for (size_t i = 0; i < ex.semaphores.size(); ++i)
    if (const int64_t n = ex.semaphores.count(static_cast<int64_t>(i)); n != 0)
      order_.preset(static_cast<int64_t>(i), n);
}

void RaceDetector::see(Seen& seen) {
  const Access& a = seen.access;
  const Step& step = this->step(a.step);
  if (is_operations(step, a.thread, a.buffer, a.offset)) return;  // its sides are actors of their own
  if (plan_.memory.is_private(a.buffer) && !reached_) return;
  look(ex(), seen.shadow(), {a.thread, a.owner < 0 ? a.thread : a.owner, a.buffer, a.offset}, -1);
  if (programs_ && a.atomic && a.write) meet_at(seen, step);
}

// Whether what a step accesses there is a side of the operation that it starts. A product's operands in shared memory
// and its accumulator are its own business until it is awaited; operands in registers are the compiler's, whatever had
// a name there before.
bool RaceDetector::is_operations(const Step& s, int32_t by, uint32_t buffer, int64_t offset) const {
  if (s.kind != Kind::wgmma) return starts_operation(s);
  const Addr& to = payload<Kind::wgmma>(s).dst;
  const int64_t at = to.offset + (to.dyn == Addr::kNoSlot ? 0 : thread(by).slot<int64_t>(to.dyn));
  return in_shared_memory(buffer, offset) ||
         (buffer == to.buffer && offset == at && plan_.memory.allocations.at(buffer, offset));
}

bool RaceDetector::in_shared_memory(uint32_t buffer, int64_t offset) const {
  const memory::Allocation* a = plan_.memory.allocations.at(buffer, offset);
  return a && a->space == ir::Space::GpuSmem;
}

void RaceDetector::on_sync(const SyncEvent& e) {
  using What = SyncEvent::What;
  switch (e.what) {
    case What::Signal: return order_.signal(e.thread, e.object, e.value), note_barrier_semaphore(e);
    case What::Taken: return order_.take(e.thread, e.object, e.value), note_barrier_semaphore(e);
    case What::Looked: return order_.look(e.thread, e.object, e.value);
    case What::Arrive: return order_.arrive(e.thread, e.object, ex().barriers[e.object].tensor);
    case What::Phase: return check_phase(e.object), order_.end_phase(e.object);
    case What::Passed: return order_.passed(e.thread, e.object, e.value);
    case What::Commit: return order_.commit(e.object);
    case What::Groups: return order_.wait_group(e.thread, e.object, e.value, e.reads);
    case What::Fence: return order_.fence(e.thread);
    case What::Emptied: return order_.clear(e.object);
    case What::Renewed: return order_.renew(e.object);
    case What::Spawn: return order_.spawn(e.thread, static_cast<int32_t>(e.object));
    case What::Join: return order_.join(e.thread, static_cast<int32_t>(e.object));
    case What::TripsBegin: return order_.begin_trips(e.thread);
    case What::TripsNext: return order_.next_trip(e.thread);
    case What::TripsEnd: return order_.end_trips(e.thread);
  }
}

// Copies of a pipeline are the thread's own business.
void RaceDetector::on_operation(const OperationEvent& e) {
  if (e.operation.kind == memory::AsyncKind::block && e.what == OperationEvent::What::Issued) return;
  if (e.what == OperationEvent::What::Issued) issued(e.operation);
  if (e.what == OperationEvent::What::Moved) moved(e.operation);
}

namespace {
// Products into the same sums: of the same CTAs, bytes and shape.
shadow::Order::Sums sums_of(const Execution& ex, Instances& instances, const memory::AsyncOperation& op) {
  shadow::Order::Sums r;
  if (memory::row(op.kind).order != memory::StreamOrder::piped) return r;
  for (const memory::Side& s : op.writes) {
    r.insert(r.end(), {instances.of(ex, ex.thread_of(s.place), s.place.buffer), s.place.offset});
    r.insert(r.end(), s.dims, s.dims + s.rank);
    r.insert(r.end(), s.strides, s.strides + s.rank);
  }
  return r;
}
}  // namespace

void RaceDetector::issued(const memory::AsyncOperation& op) {
  Execution& ex = this->ex();
  const Step& s = step(op.step);
  const shadow::Issued who = order_.issue(op.thread, op.stream, memory::row(op.kind).order, !op.after_read.empty(),
                                          sums_of(ex, instances_, op));
  issued_[op.id] = who;
  kinds_[s.id] = op.kind;
  if (starts_operation(s) && s.kind != Kind::tcgen05_mma && !op.reads.empty() && !op.writes.empty())
    copies_.insert_or_assign(s.id, CopyWay(ex, op, op.writes.back()));
  const auto tell = [&](const memory::Side& side, bool write) {
    const memory::Place& p = side.place;
    if (plan_.memory.is_private(p.buffer) && !reached_) return;
    if (side.empty() || !is_operations(s, op.thread, p.buffer, p.offset)) return;
    Instances::OfSide of(op, side);
    if (of.empty()) return;
    instances_.side(ex, op, of, write, write ? who.writes : who.reads);
    of.access.proxy = memory::row(op.kind).asynchronous_proxy && in_shared_memory(p.buffer, p.offset);
    look(ex, of.access, {op.thread, ex.thread_of(p), p.buffer, of.access.offset}, op.id);
  };
  for (const memory::Side& side : op.writes) check_begun(ex, op, side, who.writes);
  for (const memory::Side& side : op.reads) tell(side, false);
  for (const memory::Side& side : op.writes) tell(side, true);
}

void RaceDetector::moved(const memory::AsyncOperation& op) {
  const auto it = issued_.find(op.id);
  const shadow::Issued who = it == issued_.end() ? shadow::Issued{op.thread, op.thread} : it->second;
  const auto release = [&](shadow::Actor side, const memory::Completion& d) {
    if (d.kind == memory::Completion::Kind::Semaphore) order_.signal(side, d.object, d.count, it != issued_.end());
    if (d.kind == memory::Completion::Kind::Barrier) order_.arrive(side, d.object, ex().barriers[d.object].tensor);
  };
  for (const memory::Completion& c : op.after_read) release(who.reads, c);
  for (const memory::Completion& c : op.after_write) release(who.writes, c);
  if (it != issued_.end()) issued_.erase(it);
  operation_moved(op.id);
}

// Memory is given out again: what was done to it before is another buffer's story.
void RaceDetector::on_memory(const MemoryEvent& e) {
  if (e.what == MemoryEvent::What::Freed) scopes_.erase({e.thread, e.offset});
  if (e.what == MemoryEvent::What::Scope) {
    if (!has_trips_) return;
    scopes_[{e.thread, e.offset}] = e.offset + e.bytes;
  }
  if (e.what == MemoryEvent::What::Given) check_ends();  // a program begins where another one ended
  races_.fresh(instances_.of(ex(), e.thread, e.buffer), e.offset, e.offset + e.bytes);
}

void RaceDetector::look(Execution& ex, const shadow::Access& a, const Where& w, int64_t operation) {
  if (races_.limit()) return;
  if (!a.write && only_read(w.buffer)) return note_remote(a, w);
  const size_t before = races_.found().size();
  const bool fits = races_.access(order_, a);
  for (size_t i = before; i < races_.found().size(); ++i)
    if (std::optional<Meeting> m = report(ex, races_.found()[i], w)) findings_.push_back(std::move(*m));
  for (const auto& [race, earlier] : races_.writes()) compare(race, earlier, a, w, operation);
  if (!fits) too_much_remembered(ex, "accesses of several threads", races_.limit()->bytes);
  note_visit(a, w);
  note_remote(a, w);
}

void RaceDetector::check_begun(Execution& ex, const memory::AsyncOperation& op, const memory::Side& side,
                               shadow::Actor writes) {
  const auto thread = [&](int32_t i) -> const Thread& { return ex.threads[static_cast<size_t>(i)]; };
  const int32_t from = ex.device_of(thread(op.thread)), to = ex.device_of(thread(ex.thread_of(side.place)));
  // Devices of no chip in particular begin together, and so do GPUs that reach into each other.
  if (from == to || ex.options->chip->family == hw::Family::Generic || !plan_.first().model->in_order() ||
      too_early_.count(op.step))
    return;
  for (int32_t i = 0; i < ex.device_threads; ++i)
    if (order_.ordered({to * ex.device_threads + i, 1}, writes)) return;
  too_early_.insert(op.step);
  const Step& step = plan_.steps[static_cast<size_t>(op.step)];
  std::string name = allocation_name(plan_, side.place.buffer, side.place.offset);
  ir::Diagnostic d = diagnostic_at(
      thread(op.thread), &step, "PS-RACE-002",
      fmt::format("{} of device {} is written by a copy of device {}, which does not know that device {} began the "
                  "kernel",
                  name.empty() ? "memory" : name, to, from, to));
  d.numbers.push_back(
      fmt::format("device {} may still run what comes before, and use the memory for something else", to));
  d.hint =
      "before the first copy to a device wait for a signal of it: on pltpu.get_barrier_semaphore(), with a "
      "collective_id";
  findings_.push_back({std::move(d), {"devices begin"}});
}

namespace {
// What brings the two together.
std::string remedy(const Execution& ex, const Thread& a, const Thread& b) {
  const auto is_subcore = [&](const Thread& t) {
    return t.body->mesh >= 0 && ex.plan->module.meshes[static_cast<size_t>(t.body->mesh)].kind == "vector_subcore";
  };
  const memory::Level core = memory::Level::Core;
  if (ex.options->chip->family == hw::Family::Gpu) return "or give each of them elements of its own, or use atomics";
  if (ex.device_of(a) != ex.device_of(b)) return "signals on pltpu.get_barrier_semaphore() bring devices together";
  if (is_subcore(a) && is_subcore(b) && ex.units.unit_of(core, a.unit) == ex.units.unit_of(core, b.unit))
    return "plsc.subcore_barrier() brings the subcores of a SparseCore together";
  return "pltpu.core_barrier brings cores together";
}
}  // namespace

// "core 1 reads it", "a copy of device 0 writes it".
std::string RaceDetector::deed(const Execution& ex, const shadow::Party& p) const {
  const Step* s = instances_.line(plan_, p.site).step;
  const std::string who = alone_ ? "" : " of " + name_of(ex.threads[static_cast<size_t>(p.thread)]);
  const std::string_view does = p.write ? "writes" : "reads";
  if (s->kind == Kind::wgmma) return fmt::format("a wgmma{} {}", who, does);  // its registers, too
  if (const auto kind = kinds_.find(s->id); p.asynchronous && kind != kinds_.end())
    return fmt::format("a {}{} {}", memory::row(kind->second).word, who, does);
  return fmt::format("{} {}", alone_ ? "the kernel" : name_of(ex.threads[static_cast<size_t>(p.thread)]), does);
}

std::optional<Meeting> RaceDetector::report(Execution& ex, shadow::Race r, const Where& w) const {
  const auto thread = [&](int32_t i) -> const Thread& { return ex.threads[static_cast<size_t>(i)]; };
  const auto step_of = [&](const shadow::Party& p) { return instances_.line(plan_, p.site).step; };
  r.later.thread = w.thread;
  const bool products = multiplies(*step_of(r.later)) || multiplies(*step_of(r.earlier));
  const bool unordered = r.kind == shadow::Race::Kind::Unordered;
  const bool trips = unordered && !r.earlier.asynchronous && !r.later.asynchronous && r.earlier.thread == w.thread;
  if (alone_ && unordered && !products && !trips) return {};
  std::string name = allocation_name(plan_, w.buffer, w.offset);
  if (name.empty()) name = plan_.memory.is_private(w.buffer) ? "memory" : "an allocation";
  const std::string ref = name;
  if (plan_.memory.is_private(w.buffer)) name = fmt::format("{} of {}", name, name_of(thread(w.owner)));
  if (r.kind == shadow::Race::Kind::Unfenced) return unfenced(thread(w.thread), r, name, ref);
  if (trips && !products) {
    const std::optional<std::string> of = ref_of(thread(w.owner), w, name);
    return of ? std::optional(between_trips(thread(w.thread), r, *of)) : std::nullopt;
  }
  const ir::Site now = ir::site_of(*ex.locs, instances_.line(plan_, r.later.site).loc);
  ir::Site side = ir::site_of(*ex.locs, instances_.line(plan_, r.earlier.site).loc);
  const ir::Code code = programs_ ? ir::Code("PS-PAR-002") : ir::Code("PS-RACE-002");
  ir::Diagnostic d = diagnostic_at(thread(w.thread), instances_.line(plan_, r.later.site).loc, code,
                                   fmt::format("race on {}: {} it ({}) and {} it ({}), in either order", name,
                                               deed(ex, r.earlier), where(side), deed(ex, r.later), where(now)));
  d.site.what = deed(ex, r.later) + " it here";
  side.what = deed(ex, r.earlier) + " it here";
  d.also.push_back(std::move(side));
  if (const std::string at = elements_text(plan_, w.buffer, r.bytes); !at.empty())
    d.numbers.push_back(fmt::format("they meet at {} of {}", at, ref));
  const bool both = r.earlier.asynchronous && r.later.asynchronous,
             of_one_line = both && r.earlier.site == r.later.site;
  for (const shadow::Party* p : {&r.earlier, &r.later}) {
    if (of_one_line && p == &r.later) continue;
    if (const auto copy = copies_.find(p->site); p->asynchronous && copy != copies_.end())
      d.numbers.push_back(fmt::format(
          "{} {} {}",
          of_one_line
              ? "both copies"
              : fmt::format("the copy{}", both ? fmt::format(" of {}", where(ex, plan_.loc_of(*step_of(*p)))) : ""),
          of_one_line ? "go" : "goes", copy->second.text(ex)));
  }
  if (const std::string trip = trip_of(thread(w.thread), *step_of(r.later)); !trip.empty())
    d.numbers.push_back(fmt::format("{} it in {}", deed(ex, r.later), trip));
  d.numbers.push_back(plan_.threads.concurrent
                          ? "no atomic operation at one place lies behind the one and before the other"
                          : "no signal and no wait lies between the two");
  if (products) d.hint = remedy_of(*step_of(r.earlier), *step_of(r.later), r.earlier.thread == r.later.thread);
  else if (plan_.threads.concurrent)
    d.hint =
        "let one program tell by an atomic operation behind its access, and the other one see that by an atomic "
        "operation before its own; or give every program elements of its own";
  else if (!plan_.memory.barriers.empty() && ex.device_of(thread(w.thread)) == ex.device_of(thread(r.earlier.thread)))
    d.hint = "let one arrive at a barrier behind its access, and the other wait for it";
  else
    d.hint = "let one signal a semaphore of the other behind its access, and the other wait; " +
             remedy(ex, thread(w.thread), thread(r.earlier.thread));
  return meeting(std::move(d), r, ref);
}

Meeting RaceDetector::meeting(ir::Diagnostic d, const shadow::Race& r, const std::string& ref) const {
  d.about.push_back(about_ref(ref));
  std::vector<std::string> keys{std::string(d.code.text()) + about_ref(ref)};
  for (const shadow::Party* p : {&r.earlier, &r.later}) {
    if (!p->asynchronous) continue;
    for (std::string& s : about_sync(*instances_.line(plan_, p->site).step)) {
      keys.push_back(std::string(d.code.text()) + s);
      d.about.push_back(std::move(s));
    }
  }
  if (!r.earlier.asynchronous && !r.later.asynchronous)
    keys.push_back(fmt::format("{} threads {} {}", d.code.text(), std::min(r.earlier.thread, r.later.thread),
                               std::max(r.earlier.thread, r.later.thread)));
  return {std::move(d), std::move(keys)};
}

// The name of the ref that the memory is of; between scopes and blocks a thread's memory holds values of the
// compiler's.
std::optional<std::string> RaceDetector::ref_of(const Thread& owner, const Where& w, const std::string& name) const {
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
Meeting RaceDetector::between_trips(const Thread& t, const shadow::Race& r, const std::string& name) const {
  const ir::LocId loc = instances_.line(plan_, r.later.site).loc;
  ir::Site side = ir::site_of(*t.exec->locs, instances_.line(plan_, r.earlier.site).loc);
  const auto does = [](const shadow::Party& p) { return p.write ? "writes" : "reads"; };
  ir::Diagnostic d = diagnostic_at(
      t, loc, "PS-RACE-002",
      fmt::format("race on {}: one trip of a parallel_loop {} it ({}) and another one {} it ({}), in either order",
                  name, does(r.earlier), where(side), does(r.later), where(*t.exec, loc)));
  side.what = fmt::format("another trip {} it here", does(r.earlier));
  d.also.push_back(std::move(side));
  d.numbers.push_back("trips of a parallel_loop have no order among each other: a chip overlaps them as it likes");
  d.hint = "give every trip memory of its own, carry the value, or write the loop as pl.loop";
  return meeting(std::move(d), r, name);
}

// Ordered, but written by ordinary stores, which copies and products see behind a fence alone.
Meeting RaceDetector::unfenced(const Thread& t, const shadow::Race& r, const std::string& name,
                               const std::string& ref) const {
  const auto [step, loc] = instances_.line(plan_, r.later.site);
  const char* const by = step->kind == Kind::wgmma         ? "wgmma"
                         : step->kind == Kind::tcgen05_mma ? "tcgen05_mma"
                                                           : "bulk copy";
  ir::Diagnostic d = diagnostic_at(t, loc, "PS-RACE-003",
                                   fmt::format("{} is {} by a {} of {} that need not see what was stored there", name,
                                               r.later.write ? "written" : "read", by, name_of(t)));
  ir::Site side = ir::site_of(*t.exec->locs, instances_.line(plan_, r.earlier.site).loc);
  side.what = "stored here";
  d.also.push_back(std::move(side));
  d.numbers.push_back(
      "no fence lies between the two: copies and products reach shared memory by the asynchronous proxy");
  d.hint = "plgpu.commit_smem() behind the stores makes them visible to what is issued then";
  return meeting(std::move(d), r, ref);
}

ir::Diagnostic RaceDetector::found(size_t n) const { return joined({findings_[n]}).front(); }

void RaceDetector::on_step(const StepEvent&) {
  if (!meets_.empty()) atomics_done();
  if (!writes_.empty()) steps_done();
}

void RaceDetector::finish(std::vector<ir::Diagnostic>& out) {
  check_ends();
  check_left();
  steps_done();
  for (Writes& w : writes_)  // one of them never came
    if (races_.differ(w.race)) findings_.push_back(std::move(*w.found));
  for (Meeting& note : notes()) findings_.push_back(std::move(note));
  for (ir::Diagnostic& d : joined(std::move(findings_))) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
