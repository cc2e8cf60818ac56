// Who stands where, and what there is to see.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "../report/report.h"
#include "debugger_state.h"

namespace pallasim::interp {

int32_t Debugger::thread() const { return state_->chosen; }

void Debugger::choose_thread(int32_t n) {
  State& s = *state_;
  const Threads& all = s.run->execution().threads;
  if (n < 0 || n >= std::ssize(all)) throw DebugError(fmt::format("the threads are 0 to {}", all.size() - 1));
  if (!s.begun(all[static_cast<size_t>(n)])) throw DebugError(fmt::format("thread {} has not begun, or has ended", n));
  s.chosen = n;
  s.frame = 0;
}

std::vector<DebugThread> Debugger::threads() const {
  const State& s = *state_;
  const Execution& ex = s.run->execution();
  std::vector<DebugThread> r;
  for (const Thread& t : ex.threads) {
    if (!t.body) continue;
    DebugThread d;
    d.number = t.index;
    if (ex.threads.size() > 1) d.name = name_of(t);
    const bool stands = &t == s.run->standing() && !s.run->over();
    d.live = s.begun(t) && t.stop != Stop::Done;
    if (!s.begun(t) && ex.points > 0 && t.stop != Stop::Done) d.state = "has not begun";
    else if (t.stop == Stop::Done || !s.begun(t)) d.state = "has ended";
    else if (stands) d.state = "stands here";
    else if (t.stop == Stop::Blocked) d.state = waits_for(ex, t);
    else d.state = "is ready";
    if (!d.name.empty() && d.state.starts_with(d.name + " ")) d.state = d.state.substr(d.name.size() + 1);
    const Step* at = s.step_of(t);
    if (at && d.live) {
      const std::vector<ir::LocId> frames = s.symbols->frames(*at);
      if (!frames.empty()) d.line = s.symbols->line(frames.back());
      for (const uint32_t slot : t.body->pid_slots) d.point.push_back(t.slot<int64_t>(slot));
    }
    r.push_back(std::move(d));
  }
  return r;
}

std::vector<DebugFrame> Debugger::frames() const {
  const State& s = *state_;
  const Thread& t = s.run->execution().threads[static_cast<size_t>(s.chosen)];
  const Step* at = s.step_of(t);
  if (!at) return {};
  std::vector<ir::LocId> all = s.symbols->frames(*at);
  if (&t == s.run->standing() && s.shown + 1 < static_cast<int>(all.size()))
    all.resize(static_cast<size_t>(s.shown) + 1);
  const StopPlace& p = s.symbols->at(*at);
  const bool done = p.op && p.op->code == ir::OpCode::yield && p.depth == 0;
  std::vector<DebugFrame> r;
  for (size_t i = all.size(); i-- > 0;) r.push_back({s.symbols->line(all[i]).function, s.symbols->line(all[i]), done});
  if (r.empty()) r.push_back({s.plan->module.name, {}, done});
  return r;
}

size_t Debugger::frame() const { return state_->frame; }

void Debugger::choose_frame(size_t n) {
  if (const size_t all = frames().size(); n >= all)
    throw DebugError(all == 0 ? "there is no frame" : fmt::format("the frames are 0 to {}", all - 1));
  state_->frame = n;
}

namespace {

std::vector<DebugValue> values_of(const DebugScope& s, bool refs) {
  std::vector<DebugValue> r;
  for (const DebugSymbols::Name& n : s.symbols.names(s.step, s.level)) {
    const bool is_ref = n.place->what >= ValuePlace::What::Ref;
    if (is_ref != refs) continue;
    const DebugView v = view_of(s, n.text, *n.place);
    DebugValue one{v.name, v.note, v.dtype, v.shape(), {}, {}, {}, v.is_ref};
    if (!v.element.empty() && v.dims.empty()) one.bytes = v.element;
    r.push_back(std::move(one));
  }
  return r;
}

}  // namespace

std::vector<DebugValue> Debugger::locals() const { return values_of(state_->scope(), false); }
std::vector<DebugValue> Debugger::refs() const { return values_of(state_->scope(), true); }

DebugValue Debugger::evaluate(const std::string& text) const { return DebugExpression(text).value(state_->scope()); }

std::vector<DebugObject> Debugger::objects() const {
  const Execution& ex = state_->run->execution();
  std::vector<DebugObject> r;
  for (size_t id = 0; id < ex.semaphores.size(); ++id) {
    const auto n = static_cast<int64_t>(id);
    int block = -1;
    const std::string name = object_name(ex, Wait::Kind::Semaphore, n, &block);
    if (block < 0) continue;
    const bool bytes = ex.plan->memory.semaphores.blocks()[static_cast<size_t>(block)].bytes;
    r.push_back({name.empty() ? "a semaphore" : name,
                 fmt::format("{}{}, of {} signalled in all{}", ex.semaphores.count(n), bytes ? " bytes" : "",
                             ex.semaphores.signalled(n), ex.semaphores.has_waiters(n) ? "; somebody waits" : ""),
                 ex.semaphores.count(n) == 0 && ex.semaphores.signalled(n) == 0});
  }
  for (size_t id = 0; id < ex.barriers.size(); ++id) {
    const auto n = static_cast<int64_t>(id);
    const memory::Barrier& b = ex.barriers[n];
    r.push_back(
        {object_name(ex, Wait::Kind::Barrier, n),
         fmt::format("phase {}: {}{}", b.phase, barrier_state(b), ex.barriers.has_waiters(n) ? "; somebody waits" : ""),
         b.phase == 0 && b.arrivals == 0 && b.bytes_due == 0});
  }
  return r;
}

namespace {

std::string side_text(const Execution& ex, const memory::Side& side) {
  const Thread& t = ex.threads[static_cast<size_t>(ex.thread_of(side.place))];
  std::string name = allocation_name(*ex.plan, side.place.buffer, side.place.offset);
  if (name.empty()) name = "memory";
  if (ex.threads.size() > 1 && side.place.thread >= 0 && t.body) name += " of " + name_of(t);
  return fmt::format("{} {}", name, type_text(side.dtype, std::vector<int64_t>(side.dims, side.dims + side.rank)));
}

}  // namespace

std::vector<std::string> Debugger::in_flight() const {
  const Execution& ex = state_->run->execution();
  std::vector<std::string> r;
  for (size_t i = 0; i < ex.copies.size(); ++i) {
    const memory::AsyncOperation& op = ex.copies[i];
    std::string text = memory::row(op.kind).word, from, to;
    for (const memory::Side& s : op.reads) from += (from.empty() ? "" : ", ") + side_text(ex, s);
    for (const memory::Side& s : op.writes) to += (to.empty() ? "" : ", ") + side_text(ex, s);
    if (!from.empty()) text += " from " + from;
    if (!to.empty()) text += " to " + to;
    text += ", started";
    if (ex.threads.size() > 1) text += " by " + name_of(ex.threads[static_cast<size_t>(op.thread)]);
    if (op.step >= 0) text += " at " + where(ex, ex.plan->loc_of(ex.plan->steps[static_cast<size_t>(op.step)]));
    r.push_back(std::move(text));
  }
  return r;
}

std::vector<DebugAllocation> Debugger::memory() const {
  const State& s = *state_;
  const Execution& ex = s.run->execution();
  static constexpr const char* kOwners[] = {"device", "cluster", "pair", "core", "thread", "warp"};
  std::vector<DebugAllocation> r;
  for (const ir::Operand& o : s.plan->module.operands) {
    std::vector<int64_t> dims;
    for (const auto& d : o.array->dims) dims.push_back(d.size);
    r.push_back({std::string(ir::name(o.space)), o.name, type_text(o.array->dtype, dims), "operand",
                 o.array->num_bytes(), ex.devices});
  }
  for (const memory::Allocation& a : s.plan->memory.allocations) {
    const auto level = static_cast<size_t>(a.owner);
    r.push_back({std::string(ir::name(a.space)), a.name, type_text(a.dtype, a.dims),
                 level < std::size(kOwners) ? kOwners[level] : "unit", a.bytes, ex.units.count(a.owner)});
  }
  std::stable_sort(r.begin(), r.end(), [](const auto& a, const auto& b) { return a.space < b.space; });
  return r;
}

std::vector<int64_t> Debugger::grid() const { return state_->run->execution().grid; }
const std::string& Debugger::kernel() const { return state_->plan->module.name; }
std::vector<ir::SourceLine> Debugger::lines() const { return state_->symbols->lines(); }

}  // namespace pallasim::interp
