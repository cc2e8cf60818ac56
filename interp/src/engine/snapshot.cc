#include "snapshot.h"

#include "../ops/findings.h"
#include "engine.h"

namespace pallasim::interp {

Snapshot Snapshots::take() { return {ex_, ex_.log, memory_.save(), ex_.events->states()}; }

void Snapshots::restore(const Snapshot& s) {
  static_cast<State&>(ex_) = s.state;
  // Arenas that came later stay, below those that are free: they are taken where they were made before.
  std::vector<int32_t> later;
  for (size_t i = ex_.arenas.size(); ex_.points > 0 && i > s.memory.slots.size();)
    later.push_back(static_cast<int32_t>(--i));
  ex_.free_arenas.insert(ex_.free_arenas.begin(), later.begin(), later.end());
  ex_.log = s.log;
  memory_.load(s.memory);
  ex_.rebind();
  ex_.events->restore(s.observers);
}

std::string difference(const Snapshot& a, const Snapshot& b) {
  if (a.memory.arrays != b.memory.arrays) return "operands";
  if (a.memory.shared != b.memory.shared) return "shared memory";
  if (std::string s = difference(a.log, b.log); !s.empty()) return s;
  if (std::string s = difference(a.state, b.state); !s.empty()) return s;
  const bool same = a.memory.slots == b.memory.slots && a.memory.temporaries == b.memory.temporaries;
  return a.state.points == 0 && !same ? "arenas" : "";
}

namespace {

// Runs to the end; the error that stopped it, as text.
std::string run_out(Execution& ex, Scheduler& scheduler) {
  try {
    while (scheduler.turn()) {}
    scheduler.finish();
  } catch (const ir::DiagnosticError& e) { return ir::render(e.diagnostic()); }
  return {};
}

}  // namespace

std::string run_restoring(Execution& ex, const Options& o, int64_t every, WrittenPages* written) {
  Snapshots snapshots(ex, written);
  Scheduler scheduler(ex, o);
  const auto judge = [&](const Snapshot& s, const std::string& differs) {
    if (!differs.empty()) ex.diagnostics->restored_differs(ex, s.state.steps, differs);
  };
  const auto take = [&] {
    Snapshot s = snapshots.take();
    judge(s, snapshots.holds(s) ? "" : "memory that changed and no footprint says so");
    return s;
  };
  const auto restore = [&](const Snapshot& s) {
    snapshots.restore(s);
    judge(s, snapshots.holds(s) ? "" : "memory that was not put back");
  };
  for (int64_t next = every; scheduler.turn(every);) {
    if (ex.steps < next) continue;
    next = ex.steps + every;
    const Snapshot here = take();
    const std::string stop = run_out(ex, scheduler);
    const Snapshot first = take();
    restore(here);
    const std::string stop_again = run_out(ex, scheduler);
    const Snapshot second = take();
    judge(here, stop != stop_again ? "the error" : difference(first, second));
    restore(here);
  }
  scheduler.finish();
  return scheduler.token();
}

}  // namespace pallasim::interp
