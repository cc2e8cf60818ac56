#include "snapshot.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "../ops/findings.h"
#include "engine.h"

namespace pallasim::interp {
namespace {

std::vector<int64_t> bytes_of_operands(const Plan& p) {
  std::vector<int64_t> r;
  for (const ir::Operand& o : p.module.operands) r.push_back(o.array->num_bytes());
  return r;
}

bool same_thread(const Thread& a, const Thread& b) {
  return a.arena == b.arena && a.pc == b.pc && a.wait == b.wait && a.point == b.point && a.home == b.home &&
         a.parent == b.parent && a.children == b.children && a.stop == b.stop;
}

// Runs to the end; the error that stopped it, as text.
std::string run_out(Execution& ex, Scheduler& scheduler) {
  try {
    while (scheduler.turn()) {}
    scheduler.finish();
  } catch (const ir::DiagnosticError& e) { return ir::render(e.diagnostic()); }
  return {};
}

}  // namespace

Snapshot take_snapshot(const Execution& ex, const Scheduler& scheduler, std::span<const int64_t> operand_bytes) {
  Snapshot r;
  for (const auto& a : ex.arenas) {
    r.arenas.push_back(a ? a->memory : Bytes());
    r.aliases.push_back(a ? a->aliases : std::vector<BufferAlias>());
  }
  for (const std::vector<std::byte*>& device : ex.operands)
    for (size_t i = 0; i < operand_bytes.size(); ++i) r.operands.emplace_back(device[i], device[i] + operand_bytes[i]);
  for (const Execution::SharedMemory& m : ex.shared_memory)
    r.shared.insert(r.shared.end(), m.of_units.begin(), m.of_units.end());
  r.elided = ex.elided;
  r.threads = ex.threads;
  r.begun = ex.begun;
  r.semaphores = ex.semaphores;
  r.barriers = ex.barriers;
  r.streams = ex.streams;
  r.barriers_told = ex.barriers_told;
  r.copies = ex.copies;
  r.copies_issued = ex.copies_issued;
  r.woken = ex.woken;
  r.free_arenas = ex.free_arenas;
  r.prints = ex.prints;
  r.findings = ex.findings;
  r.deferred_init = ex.deferred_init;
  r.noted = ex.noted;
  r.visits = ex.visits;
  r.steps = ex.steps;
  r.spins = ex.spins;
  r.points = ex.points;
  r.next_point = ex.next_point;
  r.progressed = ex.progressed;
  r.observers = ex.events->states();
  r.turn = scheduler.state();
  return r;
}

void restore(const Snapshot& s, Execution& ex, Scheduler& scheduler, std::span<const int64_t> operand_bytes) {
  // Arenas that came later stay: nobody has them.
  for (size_t i = 0; i < s.arenas.size(); ++i)
    if (!s.arenas[i].empty()) {
      std::copy(s.arenas[i].begin(), s.arenas[i].end(), ex.arenas[i]->memory.begin());
      ex.arenas[i]->aliases = s.aliases[i];
    }
  size_t from = 0;
  for (const std::vector<std::byte*>& device : ex.operands)
    for (size_t i = 0; i < operand_bytes.size(); ++i, ++from)
      std::copy(s.operands[from].begin(), s.operands[from].end(), device[i]);
  from = 0;
  for (Execution::SharedMemory& m : ex.shared_memory)
    for (Bytes& one : m.of_units) one = s.shared[from++];
  ex.elided = s.elided;
  ex.threads = s.threads;
  ex.begun = s.begun;
  ex.rebind();
  ex.semaphores = s.semaphores;
  ex.barriers = s.barriers;
  ex.streams = s.streams;
  ex.barriers_told = s.barriers_told;
  ex.copies = s.copies;
  ex.copies_issued = s.copies_issued;
  ex.woken = s.woken;
  ex.free_arenas = s.free_arenas;
  for (size_t i = s.arenas.size(); i < ex.arenas.size(); ++i) ex.free_arenas.push_back(static_cast<int32_t>(i));
  ex.prints = s.prints;
  ex.findings = s.findings;
  ex.deferred_init = s.deferred_init;
  ex.noted = s.noted;
  ex.visits = s.visits;
  ex.steps = s.steps;
  ex.spins = s.spins;
  ex.points = s.points;
  ex.next_point = s.next_point;
  ex.progressed = s.progressed;
  ex.events->restore(s.observers);
  scheduler.restore(s.turn);
}

std::string difference(const Snapshot& a, const Snapshot& b) {
  auto prints = [](const Snapshot& s) {
    std::vector<std::string> r;
    for (const Print& p : s.prints) r.push_back(std::to_string(p.order) + p.text);
    return r;
  };
  auto findings = [](const Snapshot& s) {
    std::vector<std::string> r;
    for (const ir::Diagnostic& d : s.findings) r.push_back(ir::render(d));
    return r;
  };
  if (a.operands != b.operands) return "operands";
  if (a.shared != b.shared) return "shared memory";
  if (!(a.semaphores == b.semaphores)) return "semaphores";
  if (!(a.barriers == b.barriers)) return "barriers";
  if (!(a.streams == b.streams)) return "streams";
  if (a.copies.size() != b.copies.size() || a.copies_issued != b.copies_issued) return "copies in flight";
  if (prints(a) != prints(b)) return "prints";
  if (findings(a) != findings(b)) return "findings";
  if (a.steps != b.steps || a.spins != b.spins || a.next_point != b.next_point || a.noted != b.noted) return "counts";
  if (!std::equal(a.threads.begin(), a.threads.end(), b.threads.begin(), b.threads.end(), same_thread))
    return "threads";
  if (a.points == 0 && (a.arenas != b.arenas || a.aliases != b.aliases || a.elided != b.elided)) return "arenas";
  return a.turn == b.turn ? "" : "whose turn it is";
}

std::string run_restoring(Execution& ex, const Options& o, int64_t every) {
  const std::vector<int64_t> bytes = bytes_of_operands(*ex.plan);
  Scheduler scheduler(ex, o);
  for (int64_t next = every; scheduler.turn(every);) {
    if (ex.steps < next) continue;
    next = ex.steps + every;
    const Snapshot here = take_snapshot(ex, scheduler, bytes);
    const std::string stop = run_out(ex, scheduler);
    const Snapshot first = take_snapshot(ex, scheduler, bytes);
    restore(here, ex, scheduler, bytes);
    const std::string stop_again = run_out(ex, scheduler);
    const Snapshot second = take_snapshot(ex, scheduler, bytes);
    const std::string differs = stop != stop_again ? "the error" : difference(first, second);
    if (!differs.empty()) ex.diagnostics->restored_differs(ex, here.steps, differs);
    restore(here, ex, scheduler, bytes);
  }
  scheduler.finish();
  return scheduler.token();
}

}  // namespace pallasim::interp
