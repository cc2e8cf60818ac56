// Runs that do not end, in words: programs and threads that wait for what nobody does, and limits.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../engine/engine.h"
#include "../ops/elements.h"
#include "../plan/kinds.h"
#include "../plan/payload/movement.h"
#include "pallasim/hw/occupancy.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {

const Words& Words::all() {
  static const Words one;
  return one;
}

// ": 2 per SM, limited by warps (32 of 64 warps)".
std::string limited_by(const Execution& ex) {
  const hw::Residency r = hw::residency(hw::block_needs(ex.plan->module), *ex.options->chip);
  if (r.limits.empty()) return "";
  return fmt::format(": {} per SM, limited by {} ({})", r.per_sm, r.limits.front().resource, r.limits.front().why);
}

namespace {

// "lock_ref[0] is 1": what the loop looks at in which the thread gave up, where that is one integer.
std::string polled(const Thread& t) {
  const std::vector<Step>& steps = t.exec->plan->steps;
  constexpr int32_t kNear = 64;
  for (int32_t id = t.pc->id; id >= 0 && id > t.pc->id - kNear; --id) {
    const Step& s = steps[static_cast<size_t>(id)];
    if (s.kind != Kind::atomic || !payload<Kind::atomic>(s).spins) continue;
    const GatherPayload& p = payload<Kind::atomic>(s);
    if (!ir::is_int(p.dtype) || !p.dims.empty()) return "";
    int64_t offset = 0;
    std::string index;
    for (const GatherDim& g : p.ref_dims) {
      if (g.kind != GatherDim::Kind::Range) return "";
      int64_t at = g.start;
      if (g.start_slot != Addr::kNoSlot)
        at = memory::add(at, g.wide ? t.slot<int64_t>(g.start_slot) : t.slot<int32_t>(g.start_slot));
      if (at < 0 || at >= g.extent) return "";
      offset = memory::add(offset, memory::mul(at, g.stride));
      index += fmt::format("{}{}", index.empty() ? "" : ", ", at);
    }
    const int64_t value = ops::integer_element(t.resolve(p.ref) + offset * p.size, p.dtype);
    return fmt::format("{}{} is {}", p.name.empty() ? "what they look at" : p.name,
                       index.empty() || p.name.empty() ? "" : "[" + index + "]", value);
  }
  return "";
}

}  // namespace

// Programs of a grid run until they end: those beyond the resident set start only when others are done.
void Words::waiting_programs(Execution& ex, const Thread& t, const std::string& token) const {
  const auto live = static_cast<int64_t>(
      std::count_if(ex.threads.begin(), ex.threads.end(), [](const Thread& x) { return x.arena != nullptr; }));
  const int64_t unstarted = unstarted_programs(ex);
  ir::Diagnostic d = diagnostic_at(t, t.pc, "PS-LIVE-003",
                                   fmt::format("livelock: {} {} for a value that nobody writes", live,
                                               live == 1 ? "program waits" : "programs wait"));
  if (unstarted > 0)
    d.numbers.push_back(fmt::format("{} of {} programs have not started: {} are resident at a time on {}{}", unstarted,
                                    programs_of(ex), ex.threads.size(), ex.options->chip->name, limited_by(ex)));
  else d.numbers.push_back(fmt::format("all of the other {} programs have ended", programs_of(ex) - live));
  if (std::string now = polled(t); !now.empty()) d.numbers.insert(d.numbers.begin(), std::move(now));
  d.numbers.push_back("schedule " + token);
  d.hint =
      unstarted > 0
          ? "a program may wait only for programs that run at the same time: launch no more programs than are resident"
          : "the value must be written by a program that does not wait for this one";
  throw ir::DiagnosticError(std::move(d));
}

// Threads that look at semaphores again and again, without anything else happening.
void Words::polling_threads(Execution& ex, const Thread& t, const std::string& token) const {
  const auto live = std::count_if(ex.threads.begin(), ex.threads.end(),
                                  [](const Thread& x) { return x.stop != Stop::Done && x.stop != Stop::Blocked; });
  const auto blocked =
      std::count_if(ex.threads.begin(), ex.threads.end(), [](const Thread& x) { return x.stop == Stop::Blocked; });
  ir::Diagnostic d = diagnostic_at(
      t, t.pc, "PS-LIVE-001",
      fmt::format("livelock: {} {} for a signal that nobody sends", live, live == 1 ? "thread polls" : "threads poll"));
  std::set<int> looked;
  for (const Step& s : ex.plan->steps)
    for (const SyncUse& u : sync_uses(s))
      if (u.role == SyncUse::Role::Poll && u.object == Wait::Kind::Semaphore) looked.insert(u.block);
  for (std::string& line : signallers(ex, looked)) d.numbers.push_back(std::move(line));
  if (d.numbers.empty()) d.numbers.push_back("nothing in the kernel signals the semaphore");
  if (blocked > 0)
    d.numbers.push_back(
        fmt::format("{} more {} for semaphores", blocked, blocked == 1 ? "thread waits" : "threads wait"));
  d.numbers.push_back("schedule " + token);
  d.hint =
      "every loop that polls needs a signal that some thread reaches without that loop; livelock_steps sets the limit";
  throw ir::DiagnosticError(std::move(d));
}

namespace {
[[noreturn]] void stop_at(Execution& ex, const Thread& t, ir::Code code, std::string message, const std::string& token,
                          std::string hint) {
  fail(t, t.pc, code, std::move(message), {fmt::format("{} steps executed", ex.steps), "schedule " + token},
       std::move(hint));
}
}  // namespace

void Words::no_progress(Execution& ex, const Thread& t, int64_t idle, const std::string& token) const {
  stop_at(ex, t, "PS-LIVE-001", fmt::format("livelock: no thread wrote memory, signalled or ended for {} steps", idle),
          token, "a loop condition never changes; livelock_steps sets the limit");
}

void Words::step_limit(Execution& ex, const Thread& t, int64_t most, const std::string& token) const {
  stop_at(ex, t, "PS-LIVE-002", fmt::format("the limit of {} steps is reached", most), token,
          most == ex.options->max_steps
              ? "raise max_steps, or look for a loop that does not end"
              : "a prediction runs no more: predict a smaller grid, or look for a loop that does not end");
}

void Words::interrupted(Execution& ex, const Thread& t, const std::string& token) const {
  stop_at(ex, t, "PS-INT-001", "interrupted", token, "the run was stopped by request");
}

void Words::restored_differs(const Execution& ex, int64_t step, const std::string& what) const {
  ir::Diagnostic("PS-BUG-003",
                 fmt::format("internal: a run that was restored at step {} ends otherwise than the first time", step))
      .of(ex.plan->module.name)
      .with({"what differs: " + what})
      .hinted("please report this with the kernel")
      .raise();
}

void Words::footprint_differs(const Thread& t, const Step* s, const std::string& what, int64_t byte) const {
  fail(t, s, "PS-BUG-004", fmt::format("internal: step {} ({}) has a footprint that is not true", s->id, row(*s).name),
       {fmt::format("{}: byte {} of a buffer", what, byte)}, "please report this with the kernel");
}

void Words::too_many_programs(const Execution& ex, int64_t each) const {
  ir::Diagnostic("PS-SIZE-001",
                 fmt::format("too much memory: {} programs wait for each other, each takes {} bytes; the limit is {}",
                             ex.arenas.size(), each, ex.options->max_memory))
      .of(ex.plan->module.name)
      .hinted("fewer programs, smaller blocks, or a higher max_memory")
      .raise();
}

}  // namespace pallasim::interp
