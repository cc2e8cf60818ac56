// A deadlock in words: who waits for what, and who could still have helped.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "../engine/engine.h"
#include "../ops/bodies.h"
#include "report.h"

namespace pallasim::interp {
namespace {

struct Signal {
  int block;
  bool other_core;  // names a core: not the signaller's own semaphore
  ir::LocId loc;
};

// Signals that a thread may come to from `from` on.
std::vector<Signal> ahead(const Plan& p, const Step* from) {
  std::vector<bool> seen(p.steps.size() + 1);
  std::vector<int32_t> todo;
  auto visit = [&](int32_t i) {
    const auto at = static_cast<size_t>(i);
    if (at < p.steps.size() && !seen[at]) seen[at] = true, todo.push_back(i);
  };
  visit(from->id + 1);
  std::vector<Signal> r;
  while (!todo.empty()) {
    const Step& s = p.steps[static_cast<size_t>(todo.back())];
    todo.pop_back();
    for (const SyncUse& u : sync_uses(s))
      if (u.role == SyncUse::Role::Signal || u.role == SyncUse::Role::Written || u.role == SyncUse::Role::Read)
        r.push_back({u.block, u.elsewhere, s.loc});
    for (int32_t next : successors(s)) visit(next);
  }
  return r;
}

struct Waiter {
  const Thread* thread;
  int block = -1;
  std::string name;
  const std::vector<Signal>* ahead;
};

// A circle of threads that wait for each other, from its first member on; empty where there is none.
std::vector<size_t> circle(const std::vector<std::vector<size_t>>& helpers) {
  for (size_t start = 0; start < helpers.size(); ++start) {
    std::vector<size_t> path{start};
    std::vector<bool> seen(helpers.size());
    seen[start] = true;
    for (;;) {
      const auto& next = helpers[path.back()];
      if (std::find(next.begin(), next.end(), start) != next.end() && path.size() > 1) return path;
      const auto it = std::find_if(next.begin(), next.end(), [&](size_t n) { return !seen[n]; });
      if (it == next.end()) break;
      seen[*it] = true;
      path.push_back(*it);
    }
  }
  return {};
}

}  // namespace

void deadlock(Execution& ex, const std::string& token) {
  const Plan& p = *ex.plan;
  std::map<const Step*, std::vector<Signal>> signals;
  std::vector<Waiter> waits;
  for (const Thread& t : ex.threads) {
    if (t.stop != Stop::Blocked) continue;
    Waiter w{&t, -1, {}, nullptr};
    w.name = ex.semaphore_layout.name(t.wait.object, ex.devices, &w.block);
    const auto [it, fresh] = signals.try_emplace(t.pc);
    if (fresh) it->second = ahead(p, t.pc);
    w.ahead = &it->second;
    waits.push_back(std::move(w));
  }
  const Thread& first = *waits.front().thread;
  ir::Diagnostic d =
      diagnostic_at(first, first.pc, "PS-DEAD-001",
                    fmt::format("deadlock: {} of {} {} and nobody is left to signal", waits.size(), ex.threads.size(),
                                waits.size() == 1 ? "threads waits" : "threads wait"));
  if (ex.threads.size() == 1) d.message = "deadlock: the kernel waits and nobody is left to signal";

  // Of thousands of threads the first tell the story.
  constexpr size_t kMost = 8, kInCircles = 64;
  std::vector<std::vector<size_t>> helpers(std::min(waits.size(), kInCircles));
  for (size_t i = 0; i < helpers.size(); ++i) {
    const Waiter& w = waits[i];
    const Thread& t = *w.thread;
    const auto& block = p.semaphores.blocks()[static_cast<size_t>(w.block)];
    std::string others, own;
    for (size_t u = 0; u < helpers.size(); ++u)
      for (const Signal& s : *waits[u].ahead) {
        if (s.block != w.block || (u != i && block.private_to_thread() && !s.other_core)) continue;
        if (u == i) own = where(p, s.loc);
        else helpers[i].push_back(u);
        if (u != i && i < kMost && helpers[i].size() <= 3)
          others += fmt::format("{}{} at {}", others.empty() ? "" : ", ", name_of(*waits[u].thread), where(p, s.loc));
        break;
      }
    if (i >= kMost) continue;
    const int64_t count = ex.semaphores.count(t.wait.object);
    d.numbers.push_back(fmt::format("{} waits for {} to reach {}{}, it is {} ({})", name_of(t), w.name, t.wait.value,
                                    block.bytes ? " bytes" : "", count, where(p, t.pc->loc)));
    if (const size_t n = helpers[i].size(); n > 0)
      d.numbers.push_back(fmt::format("  {}{} could signal it, but {} too", others,
                                      n > 3 ? fmt::format(" and {} more", n - 3) : "", n == 1 ? "waits" : "wait"));
    else if (!own.empty())
      d.numbers.push_back(fmt::format("  only this thread comes to a signal of it, behind the wait, at {}", own));
    else d.numbers.push_back("  no thread that is left comes to a signal of it");
    if (count > 0 && block.bytes)
      d.numbers.push_back(
          fmt::format("  {} bytes arrived, {} are missing: do the wait and the copy name views of one size?", count,
                      t.wait.value - count));
  }
  if (waits.size() > kMost) d.numbers.push_back(fmt::format("… and {} more", waits.size() - kMost));
  if (const std::vector<size_t> c = circle(helpers); !c.empty()) {
    std::string text;
    for (size_t i = 0; i < c.size() && i < kMost; ++i)
      text += fmt::format("{}{} for {}", i ? ", " : "", name_of(*waits[c[i]].thread),
                          name_of(*waits[c[(i + 1) % c.size()]].thread));
    d.numbers.push_back("they wait in a circle: " + text);
  }
  if (const size_t ended = ex.threads.size() - waits.size(); ended > 0)
    d.numbers.push_back(fmt::format("{} {} ended", ended, ended == 1 ? "thread has" : "threads have"));
  std::set<int> blocks;
  for (const Waiter& w : waits) blocks.insert(w.block);
  const std::vector<std::string> all = signallers(p, blocks);
  d.numbers.insert(d.numbers.end(), all.begin(), all.end());
  if (all.empty()) d.numbers.push_back("the kernel has no signal for it");
  d.numbers.push_back("schedule " + token);
  d.hint = "every wait needs a signal that some thread reaches without that wait";
  throw ir::DiagnosticError(std::move(d));
}

}  // namespace pallasim::interp
