// A deadlock in words: who waits for what, and who could still have helped.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "../engine/engine.h"
#include "../ops/bodies.h"
#include "causes.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {
namespace {

struct Signal {
  Wait::Kind kind;  // of what is signalled
  int block;
  bool other_core;  // names a core: not the signaller's own semaphore
  ir::LocId loc;
};

// Whether no further grid point waits for the thread: it comes once more to no step of its body.
bool at_last_point(const Execution& ex, const Thread& t) {
  if (t.point >= 0) return true;
  const Body& b = *t.body;
  if (b.modelled) return false;  // its pipeline knows
  const std::vector<uint32_t>& places = ex.options->grid_order.empty() ? b.pid_slots : b.place_slots;
  const GridBox& box = ex.part(t).box;
  for (size_t g = 0; g < places.size(); ++g)
    if (t.slot<int64_t>(places[g]) + 1 < box.hi[g]) return false;
  return true;
}

// Signals that a thread may come to from `from` on; `last`: at no further grid point.
std::vector<Signal> ahead(const Plan& p, const Step* from, bool last) {
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
        r.push_back({u.object, u.block, u.elsewhere, p.loc_of(s)});
    if (last && s.kind == Kind::grid_next) {
      visit(s.id + 1);
      continue;
    }
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

// Whether a signal of `other` is to what `w` waits for: both have it from one unit, or the signal names another one.
bool is_shared(const Execution& ex, const Waiter& w, const Waiter& other, const Signal& s) {
  const auto block = static_cast<size_t>(w.block);
  const memory::Level owner = s.kind == Wait::Kind::Barrier ? ex.plan->memory.barriers[block].owner
                                                            : ex.plan->memory.semaphores.blocks()[block].owner;
  // Arrivals elsewhere reach CTAs of the cluster.
  const auto same = [&](memory::Level l) {
    return ex.units.unit_of(l, other.thread->unit) == ex.units.unit_of(l, w.thread->unit);
  };
  if (s.kind == Wait::Kind::Barrier) return same(s.other_core ? memory::Level::Cluster : owner);
  return s.other_core || ex.units.unit_of(owner, other.thread->unit) == ex.units.unit_of(owner, w.thread->unit);
}

// Who is two phases behind cannot tell that any ended.
std::string waited_state(const memory::Barrier& b, int64_t phase) {
  if (b.phase <= phase) return barrier_state(b);
  return fmt::format("it ended, and so did {} behind it, so that its parity is that of before", b.phase - phase - 1);
}

// "thread 1 waits for go to reach 1, it is 0 (k.py:7)".
std::string waits_for(const Execution& ex, const Waiter& w) {
  const Thread& t = *w.thread;
  const std::string at = where(ex, ex.plan->loc_of(*t.pc));
  switch (t.wait.kind) {
    case Wait::Kind::Join:
      return fmt::format("{} waits for {} of its {} threads to end ({})", name_of(t), t.children, t.wait.value, at);
    case Wait::Kind::Group: return fmt::format("{} waits for what it started ({})", name_of(t), at);
    case Wait::Kind::Barrier:
      return fmt::format("{} waits for phase {} of {} to end: {} ({})", name_of(t), t.wait.value, w.name,
                         waited_state(ex.barriers[t.wait.object], t.wait.value), at);
    default:
      const bool bytes = ex.plan->memory.semaphores.blocks()[static_cast<size_t>(w.block)].bytes;
      return fmt::format("{} waits for {} to reach {}{}: it is {}, of {} signalled in all ({})", name_of(t), w.name,
                         t.wait.value, bytes ? " bytes" : "", ex.semaphores.count(t.wait.object),
                         ex.semaphores.signalled(t.wait.object), at);
  }
}

}  // namespace

std::string waits_for(const Execution& ex, const Thread& t) {
  Waiter w{&t, -1, {}, nullptr};
  if (t.wait.kind == Wait::Kind::Semaphore || t.wait.kind == Wait::Kind::Barrier)
    w.name = object_name(ex, t.wait.kind, t.wait.object, &w.block);
  return waits_for(ex, w);
}

namespace {

// The step by which `other` could end the wait of `w`; null: there is none.
const Signal* helps(const Execution& ex, const Waiter& w, const Waiter& other) {
  if (w.block < 0) return nullptr;
  // Who waits for the end of the same phase has arrived already, or comes to it only behind the wait.
  if (w.thread->wait.kind == Wait::Kind::Barrier && &w != &other && other.thread->wait.kind == Wait::Kind::Barrier &&
      other.thread->wait.object == w.thread->wait.object)
    return nullptr;
  for (const Signal& s : *other.ahead)
    if (s.kind == w.thread->wait.kind && s.block == w.block && is_shared(ex, w, other, s)) return &s;
  return nullptr;
}

// Threads that share the barrier and ended, although their code arrives at it: "subcore 1 of SparseCore 0 has ended and
// came to k.py:7 no more".
std::string ended_before(const Execution& ex, const Waiter& w) {
  const auto block = static_cast<size_t>(w.block);
  const memory::Level owner = ex.plan->memory.barriers[block].owner;
  const auto [first, count] = ex.units.threads_of(owner, ex.units.unit_of(owner, w.thread->unit));
  std::map<const Step*, std::vector<Signal>> all;
  std::string names, at;
  int64_t ended = 0;
  for (int64_t i = first; i < first + count; ++i) {
    const Thread& t = ex.threads[static_cast<size_t>(i)];
    if (!t.pc || t.stop != Stop::Done || !t.body) continue;
    const auto [it, fresh] = all.try_emplace(t.body->entry);
    if (fresh) it->second = ahead(*ex.plan, t.body->entry, false);
    const auto arrival = std::find_if(it->second.begin(), it->second.end(), [&](const Signal& s) {
      return s.kind == Wait::Kind::Barrier && s.block == w.block;
    });
    if (arrival == it->second.end()) continue;
    if (at.empty()) at = where(ex, arrival->loc);
    if (++ended <= 3) names += (names.empty() ? "" : ", ") + name_of(t);
  }
  if (ended == 0) return "";
  if (ended > 3) names += fmt::format(" and {} more", ended - 3);
  return fmt::format("  {} {} ended and {} to {} no more", names, ended == 1 ? "has" : "have",
                     ended == 1 ? "comes" : "come", at);
}

// Who waits and could help the i-th, in words behind its line.
void tell_helpers(const Execution& ex, const std::vector<Waiter>& waits, size_t i, const std::vector<size_t>& helpers,
                  std::vector<std::string>* lines) {
  const Waiter& w = waits[i];
  const Thread& t = *w.thread;
  if (w.block < 0) return;
  const char* what = t.wait.kind == Wait::Kind::Barrier ? "arrive at" : "signal";
  std::string others;
  for (size_t k = 0; k < helpers.size() && k < 3; ++k) {
    const size_t u = helpers[k];
    others += fmt::format("{}{} at {}", others.empty() ? "" : ", ", name_of(*waits[u].thread),
                          where(ex, helps(ex, w, waits[u])->loc));
  }
  const Signal* own = helps(ex, w, w);
  const bool in_company =
      t.wait.kind == Wait::Kind::Barrier && std::any_of(waits.begin(), waits.end(), [&](const Waiter& o) {
        return &o != &w && o.thread->wait.kind == Wait::Kind::Barrier && o.thread->wait.object == t.wait.object;
      });
  if (const size_t n = helpers.size(); n > 0)
    lines->push_back(fmt::format("  {}{} could {} it, but {} too", others,
                                 n > 3 ? fmt::format(" and {} more", n - 3) : "", what, n == 1 ? "waits" : "wait"));
  else if (own && !in_company)
    lines->push_back(fmt::format("  only this thread comes to {} it, behind the wait, at {}",
                                 t.wait.kind == Wait::Kind::Barrier ? "an arrival at" : "a signal of",
                                 where(ex, own->loc)));
  else
    lines->push_back(fmt::format("  no thread that is left comes to {} it",
                                 t.wait.kind == Wait::Kind::Barrier ? "an arrival at" : "a signal of"));
  if (t.wait.kind == Wait::Kind::Barrier)
    if (std::string line = ended_before(ex, w); !line.empty()) lines->push_back(std::move(line));
  if (t.wait.kind != Wait::Kind::Semaphore) return;
  const int64_t count = ex.semaphores.count(t.wait.object);
  if (count > 0 && ex.plan->memory.semaphores.blocks()[static_cast<size_t>(w.block)].bytes)
    lines->push_back(fmt::format("  {} bytes arrived, {} are missing: do the wait and the copy name views of one size?",
                                 count, t.wait.value - count));
}

// "sems[0] is 4096, and nobody waits for it": of the semaphores that are declared with one that is awaited.
void tell_neighbours(const Execution& ex, const Waiter& w, std::vector<std::string>* lines) {
  const int64_t count = ex.plan->memory.semaphores.blocks()[static_cast<size_t>(w.block)].count,
                own = w.thread->wait.object;
  for (int64_t id = std::max<int64_t>(0, own - count); id < own + count; ++id) {
    int block = -1;
    if (id == own || static_cast<size_t>(id) >= ex.semaphores.size() || ex.semaphores.count(id) == 0) continue;
    const std::string name = object_name(ex, Wait::Kind::Semaphore, id, &block);
    if (block != w.block || ex.semaphores.has_waiters(id)) continue;
    const std::string line = fmt::format("{} is {}, and nobody waits for it", name, ex.semaphores.count(id));
    if (std::find(lines->begin(), lines->end(), line) == lines->end()) lines->push_back(line);
  }
}

// What is awaited: how barriers were made, and who arrived. Where phases end that nobody sees, that is the reason.
void tell_objects(const Execution& ex, const std::vector<Waiter>& waits, ir::Diagnostic* d) {
  constexpr size_t kMost = 8;
  std::set<int64_t> told;
  std::vector<std::string> made, beside;
  for (const Waiter& w : waits) {
    if (w.block < 0) continue;
    const int64_t object = w.thread->wait.object;
    if (w.thread->wait.kind == Wait::Kind::Semaphore) {
      d->about.push_back(about_semaphores(w.block));
      if (beside.size() < kMost) tell_neighbours(ex, w, &beside);
      continue;
    }
    d->about.push_back(about_barriers(w.block));
    const memory::Barrier& b = ex.barriers[object];
    if (b.named || made.size() >= kMost || !told.insert(object).second) continue;
    made.push_back(barrier_made(ex, object));
    // Its phase ended, and another one behind it.
    if (b.phase > w.thread->wait.value) {
      const int64_t came = b.arrivals - memory::mul(w.thread->wait.value, b.expected);
      d->message = fmt::format("deadlock: {} was made for {} arrival{}, and {} arrivals came before the wait", w.name,
                               b.expected, b.expected == 1 ? "" : "s", came);
      d->about.push_back(std::string(kWrongCount));
      d->hint =
          "make the barrier for as many arrivals as a phase has, and let who arrives wait until the last phase was "
          "seen";
    }
  }
  d->numbers.insert(d->numbers.begin(), made.begin(), made.end());
  d->numbers.insert(d->numbers.end(), beside.begin(), beside.end());
}

}  // namespace

void Words::deadlock(Execution& ex, const std::string& token) const {
  const Plan& p = *ex.plan;
  std::map<std::pair<const Step*, bool>, std::vector<Signal>> signals;
  std::vector<Waiter> waits;
  size_t threads = 0;  // that began
  for (const Thread& t : ex.threads) {
    threads += t.pc != nullptr;
    if (t.stop != Stop::Blocked) continue;
    Waiter w{&t, -1, {}, nullptr};
    if (t.wait.kind == Wait::Kind::Semaphore || t.wait.kind == Wait::Kind::Barrier)
      w.name = object_name(ex, t.wait.kind, t.wait.object, &w.block);
    const bool last = at_last_point(ex, t);
    const auto [it, fresh] = signals.try_emplace({t.pc, last});
    if (fresh) it->second = ahead(p, t.pc, last);
    w.ahead = &it->second;
    waits.push_back(std::move(w));
  }
  const Thread& first = *waits.front().thread;
  ir::Diagnostic d = diagnostic_at(first, first.pc, "PS-DEAD-001",
                                   fmt::format("deadlock: {} of {} {} and nobody is left to signal", waits.size(),
                                               threads, waits.size() == 1 ? "threads waits" : "threads wait"));
  if (threads == 1) d.message = "deadlock: the kernel waits and nobody is left to signal";

  // Of thousands of threads the first tell the story.
  constexpr size_t kMost = 8, kInCircles = 64;
  std::vector<std::vector<size_t>> helpers(std::min(waits.size(), kInCircles));
  for (size_t i = 0; i < helpers.size(); ++i) {
    for (size_t u = 0; u < helpers.size(); ++u)
      if (u != i && helps(ex, waits[i], waits[u])) helpers[i].push_back(u);
    if (i >= kMost) continue;
    d.numbers.push_back(waits_for(ex, waits[i]));
    tell_helpers(ex, waits, i, helpers[i], &d.numbers);
  }
  if (waits.size() > kMost) d.numbers.push_back(fmt::format("… and {} more", waits.size() - kMost));
  if (const std::vector<size_t> c = circle(helpers); !c.empty()) {
    std::string text;
    for (size_t i = 0; i < c.size() && i < kMost; ++i)
      text += fmt::format("{}{} for {}", i ? ", " : "", name_of(*waits[c[i]].thread),
                          name_of(*waits[c[(i + 1) % c.size()]].thread));
    d.numbers.push_back("they wait in a circle: " + text);
  }
  if (const size_t ended = threads - waits.size(); ended > 0)
    d.numbers.push_back(fmt::format("{} {} ended", ended, ended == 1 ? "thread has" : "threads have"));
  const int64_t unstarted = unstarted_programs(ex);
  if (unstarted > 0)
    d.numbers.push_back(fmt::format("{} of {} {} have not started: {} are resident at a time on {}{}", unstarted,
                                    programs_of(ex), p.first().mesh < 0 ? "programs" : "clusters",
                                    ex.population.resident, ex.options->chip->name, limited_by(ex)));
  tell_objects(ex, waits, &d);
  std::set<int> blocks;
  bool semaphores = false;
  for (const Waiter& w : waits)
    if (w.thread->wait.kind == Wait::Kind::Semaphore) blocks.insert(w.block), semaphores = true;
  const std::vector<std::string> all = signallers(ex, blocks);
  d.numbers.insert(d.numbers.end(), all.begin(), all.end());
  if (all.empty() && semaphores) d.numbers.push_back("the kernel has no signal for it");
  d.numbers.push_back("schedule " + token);
  if (d.hint.empty())
    d.hint = unstarted > 0 ? "a program may wait only for programs that run at the same time: launch no more than are "
                             "resident"
                           : "every wait needs a signal that some thread reaches without that wait";
  throw ir::DiagnosticError(std::move(d));
}

}  // namespace pallasim::interp
