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

// Runs to the end; the error that stopped it, as text.
std::string run_out(Execution& ex, Scheduler& scheduler) {
  try {
    while (scheduler.turn()) {}
    scheduler.finish();
  } catch (const ir::DiagnosticError& e) { return ir::render(e.diagnostic()); }
  return {};
}

}  // namespace

Snapshot take_snapshot(const Execution& ex, std::span<const int64_t> operand_bytes) {
  Snapshot r{ex, ex.log, {}, {}, {}, ex.events->states()};
  for (const auto& a : ex.arenas) r.arenas.push_back(a ? a->memory : Bytes());
  for (const std::vector<std::byte*>& device : ex.operands)
    for (size_t i = 0; i < operand_bytes.size(); ++i) r.operands.emplace_back(device[i], device[i] + operand_bytes[i]);
  for (const Execution::SharedMemory& m : ex.shared_memory)
    r.shared.insert(r.shared.end(), m.of_units.begin(), m.of_units.end());
  return r;
}

void restore(const Snapshot& s, Execution& ex, std::span<const int64_t> operand_bytes) {
  static_cast<State&>(ex) = s.state;
  // Arenas that came later stay, below those that are free: they are taken where they were made before.
  std::vector<int32_t> later;
  for (size_t i = ex.arenas.size(); ex.points > 0 && i > s.arenas.size();) later.push_back(static_cast<int32_t>(--i));
  ex.free_arenas.insert(ex.free_arenas.begin(), later.begin(), later.end());
  ex.log = s.log;
  for (size_t i = 0; i < s.arenas.size(); ++i)
    if (!s.arenas[i].empty()) std::copy(s.arenas[i].begin(), s.arenas[i].end(), ex.arenas[i]->memory.begin());
  size_t from = 0;
  for (const std::vector<std::byte*>& device : ex.operands)
    for (size_t i = 0; i < operand_bytes.size(); ++i, ++from)
      std::copy(s.operands[from].begin(), s.operands[from].end(), device[i]);
  from = 0;
  for (Execution::SharedMemory& m : ex.shared_memory)
    for (Bytes& one : m.of_units) one = s.shared[from++];
  ex.rebind();
  ex.events->restore(s.observers);
}

std::string difference(const Snapshot& a, const Snapshot& b) {
  if (a.operands != b.operands) return "operands";
  if (a.shared != b.shared) return "shared memory";
  if (std::string s = difference(a.log, b.log); !s.empty()) return s;
  if (std::string s = difference(a.state, b.state); !s.empty()) return s;
  return a.state.points == 0 && a.arenas != b.arenas ? "arenas" : "";
}

std::string run_restoring(Execution& ex, const Options& o, int64_t every) {
  const std::vector<int64_t> bytes = bytes_of_operands(*ex.plan);
  Scheduler scheduler(ex, o);
  for (int64_t next = every; scheduler.turn(every);) {
    if (ex.steps < next) continue;
    next = ex.steps + every;
    const Snapshot here = take_snapshot(ex, bytes);
    const std::string stop = run_out(ex, scheduler);
    const Snapshot first = take_snapshot(ex, bytes);
    restore(here, ex, bytes);
    const std::string stop_again = run_out(ex, scheduler);
    const Snapshot second = take_snapshot(ex, bytes);
    const std::string differs = stop != stop_again ? "the error" : difference(first, second);
    if (!differs.empty()) ex.diagnostics->restored_differs(ex, here.state.steps, differs);
    restore(here, ex, bytes);
  }
  scheduler.finish();
  return scheduler.token();
}

}  // namespace pallasim::interp
