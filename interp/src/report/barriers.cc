// Barriers in words.
#include <fmt/format.h>

#include <bit>
#include <set>

#include "../plan/kinds.h"
#include "causes.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {

std::string barrier_state(const memory::Barrier& b) {
  std::string r = fmt::format("{} of {} {}arrived", b.arrived, b.expected, b.named ? "warps " : "");
  if (b.bytes_due > 0) r += fmt::format(", {} bytes are due", b.bytes_due);
  if (b.bytes_due < 0) r += fmt::format(", {} bytes came that nobody expects", -b.bytes_due);
  return r;
}

std::string barrier_made(const Execution& ex, int64_t id) {
  int block = -1;
  const std::string name = object_name(ex, Wait::Kind::Barrier, id, &block);
  const memory::Barrier& b = ex.barriers[id];
  const Plan& p = *ex.plan;
  std::string r = fmt::format("{} was made for {} arrival{}", name, b.expected, b.expected == 1 ? "" : "s");
  ir::Diagnostic made("PS-DEAD-001", "");
  if (block >= 0) made.site = ir::site_of(*ex.locs, p.memory.barriers[static_cast<size_t>(block)].loc);
  ir::place(made, p.module, *ex.locs);
  if (!made.site.source.file.empty()) r += fmt::format(" ({})", where(made.site));
  const int threads = std::popcount(b.arrivers);
  if (b.arrivals == 0) return r + "; nobody arrived";
  std::set<std::string> lines;
  for (const Step& s : p.steps)
    for (const SyncUse& u : sync_uses(s))
      if (u.object == Wait::Kind::Barrier && u.block == block && u.role != SyncUse::Role::Await &&
          u.role != SyncUse::Role::Poll && p.loc_of(s) >= 0)
        lines.insert(where(ex, p.loc_of(s)));
  if (threads > 0)
    r += fmt::format("; {} thread{} arrived, {} time{} in all", threads, threads == 1 ? "" : "s", b.arrivals,
                     b.arrivals == 1 ? "" : "s");
  else r += fmt::format("; copies arrived, {} times in all", b.arrivals);
  if (!lines.empty()) r += fmt::format(" ({})", listed({lines.begin(), lines.end()}, 3));
  return r;
}

namespace {

std::string message_of(const memory::BarrierFinding& f, const std::string& name) {
  using Kind = memory::BarrierFinding::Kind;
  switch (f.kind) {
    case Kind::OverArrival:
      return fmt::format("{} arrivals at {} more than its phase {} expects", f.amount, name, f.phase);
    case Kind::Unwaited:
      return fmt::format("phase {} of {} ended before anybody saw the end of phase {}", f.phase, name, f.phase - 1);
    case Kind::PassedPhase:
      return fmt::format("a wait for the end of phase {} of {}, when {} later ones ended, too", f.phase, name,
                         f.amount);
    case Kind::Unobserved:
    case Kind::Released:
    case Kind::OthersWait:
      if (f.amount == 1) return fmt::format("nobody saw the end of the last phase of {}", name);
      return fmt::format("nobody saw the ends of the last {} phases of {}", f.amount, name);
    case Kind::BytesLeft:
      return f.amount > 0 ? fmt::format("{} ends with {} bytes due that never came", name, f.amount)
                          : fmt::format("{} ends with {} bytes that nobody expected", name, -f.amount);
    case Kind::OtherCount:
      return fmt::format("an arrival at {} says that its phase {} takes {} warps; others said another number", name,
                         f.phase, f.amount);
    case Kind::ArrivalsLeft: return fmt::format("{} ends with {} arrivals at a phase that did not end", name, f.amount);
  }
  return name;
}

ir::Code code_of(memory::BarrierFinding::Kind kind) {
  using Kind = memory::BarrierFinding::Kind;
  switch (kind) {
    case Kind::OverArrival: return "PS-BAR-001";
    case Kind::Unwaited:
    case Kind::PassedPhase: return "PS-BAR-002";
    case Kind::OtherCount: return "PS-BAR-004";
    default: return "PS-BAR-003";
  }
}

// A step that arrives at the barrier, for what is found at its end; `otherwise` where there is none.
const Step* arrival_at(const Execution& ex, int64_t barrier, const Step* otherwise) {
  int block = -1;
  ex.barrier_layout.name(barrier, &block);
  for (const Step& s : ex.plan->steps)
    for (const SyncUse& u : sync_uses(s))
      if (u.object == Wait::Kind::Barrier && u.block == block && u.role != SyncUse::Role::Await &&
          ex.plan->loc_of(s) >= 0)
        return &s;
  return otherwise;
}

}  // namespace

void Words::barrier_misused(Thread& t, const Step* s, const memory::BarrierFinding& f) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  if (ex.plan->loc_of(*s) < 0) s = arrival_at(ex, f.barrier, s);
  int block = -1;
  const std::string message = message_of(f, object_name(ex, Wait::Kind::Barrier, f.barrier, &block));
  ir::Diagnostic d = diagnostic_at(t, s, code_of(f.kind), message);
  d.about.push_back(about_barriers(block));
  const bool released = f.kind == memory::BarrierFinding::Kind::Released,
             others = f.kind == memory::BarrierFinding::Kind::OthersWait;
  d.severity = released || others ? ir::Severity::Note : ir::Severity::Warning;
  d.numbers.push_back(fmt::format("phase {}: {}", ex.barriers[f.barrier].phase, barrier_state(ex.barriers[f.barrier])));
  if (!ex.barriers[f.barrier].named) d.numbers.push_back(barrier_made(ex, f.barrier));
  d.hint = others ? "another CTA of the cluster waits for its own: where the arrivals are for that one, all is well; "
                    "else every phase needs somebody who waits"
           : released
               ? "no copy counted in it: where they give back what nobody takes again, all is well; else "
                 "every phase needs somebody who waits"
               : "a phase ends with as many arrivals as the barrier was made for, and every phase needs somebody "
                 "who waits";
  ex.add_finding(std::move(d));
}

// Whether somebody waited for the barrier of the same name of another CTA of the cluster.
static bool others_wait(const Execution& ex, const Thread& t, int64_t id) {
  int block = -1;
  ex.barrier_layout.name(id, &block);
  if (block < 0) return false;
  using memory::Level;
  const memory::Units::Threads all = ex.units.threads_of(Level::Cluster, ex.units.unit_of(Level::Cluster, t.unit));
  const auto of = [&](int64_t k, int64_t thread) { return ex.barrier_layout.id_of_thread(block, k, thread); };
  for (int64_t k = 0; k < ex.plan->memory.barriers[static_cast<size_t>(block)].count; ++k) {
    bool own = false, waited = false;
    for (int64_t i = all.first; i < all.first + all.count; ++i) {
      own = own || of(k, i) == id;
      waited = waited || ex.barriers[of(k, i)].observed > 0;
    }
    if (own) return waited;
  }
  return false;
}

void Words::barrier_left_over(Thread& t, const Step* s, int64_t id) const {
  Execution& ex = *t.exec;
  using Kind = memory::BarrierFinding::Kind;
  for (memory::BarrierFinding f : ex.barriers.left_over(id)) {
    if (f.kind == Kind::Unwaited && others_wait(ex, t, id)) f.kind = Kind::OthersWait, f.phase = 0;
    barrier_misused(t, s, f);
  }
}

void Words::bytes_below_zero(const Thread& t, const Step* s, int64_t bytes) const {
  fail(t, s, "PS-BAR-004", fmt::format("a barrier is told of {} bytes", bytes), {}, "bytes are not negative");
}

}  // namespace pallasim::interp
