// Checked runs on several cores or devices: accesses to memory of a device that no semaphore orders.
#include <fmt/format.h>

#include <algorithm>

#include "checked.h"
#include "../ops/bodies.h"
#include "report.h"

namespace pallasim::interp {

CoreRaces::CoreRaces(const Plan& plan, size_t devices) : plan_(plan) {
  constexpr size_t kMostThreads = 64;
  const size_t n = static_cast<size_t>(plan.num_threads) * devices;
  if (n < 2 || n > kMostThreads) return;
  clocks_.assign(n, Clock(n, 0));
  for (size_t t = 0; t < n; ++t) clocks_[t][t] = 1;
  for (const Step& s : plan.steps) {
    if (s.fn != ops::dma_start) continue;
    const auto& p = *static_cast<const DmaPayload*>(s.payload);
    if (p.peer.elsewhere() && p.dst.addr.buffer == kTempBuffer) note_reached(p.dst.addr.offset, p.dst.name);
  }
}

// The scratch, or the allocation of a run_scoped, that holds `offset`.
void CoreRaces::note_reached(int64_t offset, const std::string& name) {
  auto add = [&](int64_t begin, int64_t bytes) {
    if (offset >= begin && offset < begin + bytes) reached_.push_back({begin, begin + bytes, name});
  };
  for (const Plan::Poison& p : plan_.poison) add(p.offset, p.count * ir::byte_size(p.dtype));
  for (const Step& s : plan_.steps)
    if (s.fn == ops::scope_end)
      for (const ScopePayload::Range& r : static_cast<const ScopePayload*>(s.payload)->memory) add(r.offset, r.bytes);
}

const CoreRaces::Reached* CoreRaces::reached(const Access& a) const {
  const auto it = std::find_if(reached_.begin(), reached_.end(), [&](const Reached& r) { return a.offset >= r.begin && a.offset < r.end; });
  return a.buffer == kTempBuffer && it != reached_.end() ? &*it : nullptr;
}

// Memory is given out again: what was done to it before is another buffer's story.
void CoreRaces::on_fresh(Execution&, const Thread& t, int64_t offset, int64_t bytes, const std::string&) {
  const std::byte* begin = t.bases[kTempBuffer] + offset;
  const std::vector<ByteRun> fresh{{begin, begin + bytes}};
  std::erase_if(records_, [&](const Record& r) { return overlap(r.runs, fresh); });
}

// What the core did so far is known to whoever sees one of the semaphores; what it does next is not.
void CoreRaces::publish(int thread, std::initializer_list<int64_t> semaphores) {
  const auto t = static_cast<size_t>(thread);
  for (int64_t s : semaphores) {
    if (s < 0) continue;
    Clock& c = published_.try_emplace(s, Clock(clocks_.size(), 0)).first->second;
    for (size_t i = 0; i < c.size(); ++i) c[i] = std::max(c[i], clocks_[t][i]);
  }
  ++clocks_[t][t];
}

void CoreRaces::on_signal(Execution&, const Thread& t, int64_t semaphore) { publish(t.index, {semaphore}); }

void CoreRaces::on_copy(Execution&, const memory::AsyncCopy& c, const Step&) { publish(c.thread, {c.src_sem, c.dst_sem}); }

void CoreRaces::on_seen(Execution&, const Thread& t, int64_t semaphore) {
  const auto it = published_.find(semaphore);
  if (it == published_.end()) return;
  Clock& own = clocks_[static_cast<size_t>(t.index)];
  for (size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], it->second[i]);
  // What everybody knows of cannot race any more.
  std::erase_if(records_, [&](const Record& r) {
    return std::all_of(clocks_.begin(), clocks_.end(), [&](const Clock& c) { return c[static_cast<size_t>(r.thread)] >= r.at; });
  });
}

void CoreRaces::on_access(Execution& ex, const Access& a) {
  if (a.buffer < kFirstOperandBuffer && !reached(a)) return;
  const auto t = static_cast<size_t>(a.thread);
  const std::byte* at = address(ex, a);
  std::vector<ByteRun> runs = byte_runs(at, a.dims, a.strides, a.rank, a.element_bytes);
  for (const Record& r : records_) {
    const bool ordered = r.thread == a.thread || clocks_[t][static_cast<size_t>(r.thread)] >= r.at;
    if (!ordered && (a.write || r.write) && overlap(runs, r.runs)) report(ex, a, r);
  }
  constexpr size_t kMostRecords = 1 << 14;  // the oldest give way: a race with them is then not seen
  if (records_.size() == kMostRecords) records_.pop_front();
  records_.push_back({a.thread, clocks_[t][t], a.write, a.step, std::move(runs)});
}

void CoreRaces::report(Execution& ex, const Access& a, const Record& r) {
  if (!reported_.insert(std::minmax(a.step, r.step)).second) return;
  const Reached* own = reached(a);
  const size_t operand = a.buffer - kFirstOperandBuffer;
  std::string name = own ? fmt::format("{} of {}", own->name, name_of(ex.threads[static_cast<size_t>(a.owner < 0 ? a.thread : a.owner)]))
                     : operand < plan_.module.operands.size() ? plan_.module.operands[operand].name : "memory";
  for (const Plan::Shared& s : plan_.shared)
    if (s.buffer == a.buffer) name = s.name.empty() ? "an allocation" : s.name;
  ir::Diagnostic d = diagnostic_at(ex.threads[static_cast<size_t>(a.thread)], a.step, "PS-RACE-002",
                                   fmt::format("{} is {} by {} while {} may {} it", name, a.write ? "written" : "read", name_of(ex.threads[static_cast<size_t>(a.thread)]),
                                               name_of(ex.threads[static_cast<size_t>(r.thread)]), r.write ? "write" : "read"));
  d.severity = ir::Severity::Warning;
  ir::Site side = ir::site_of(plan_.module, r.step->loc);
  side.what = fmt::format("{} {} it here", name_of(ex.threads[static_cast<size_t>(r.thread)]), r.write ? "writes" : "reads");
  d.also.push_back(std::move(side));
  d.numbers.push_back("no signal and no wait lies between the two; in another schedule they come in the other order");
  d.hint = "let one signal a semaphore of the other behind its access, and the other wait: pltpu.core_barrier brings cores together";
  findings_.push_back(std::move(d));
}

void CoreRaces::finish(Execution&, std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
