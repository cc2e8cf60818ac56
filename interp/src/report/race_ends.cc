// Checked runs: a block of threads of a cluster ends, and its shared memory with it, while another one may still use
// that.
#include <fmt/format.h>

#include <algorithm>

#include "causes.h"
#include "race_detector.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;
using memory::Level;

// Of an access that is ordered before the end of one thread of the block, the block's end comes after it. A later
// access of the same actor at the same line stands for the earlier ones.
void RaceDetector::note_visit(const shadow::Access& a, const Where& w) {
  const Execution& ex = this->ex();
  const Thread &by = thread(w.thread), &owner = thread(w.owner);
  const int64_t core = ex.units.unit_of(Level::Core, owner.unit);
  if (ex.units.unit_of(Level::Core, by.unit) == core || !in_shared_memory(w.buffer, w.offset)) return;
  if (told_of_ends_.count(a.site)) return;
  const auto [it, fresh] = visits_.try_emplace({core, a.who, a.site});
  Visit& v = it->second;
  v.at = order_.now(a.who);
  if (!fresh && v.program == owner.point) return;
  v.program = owner.point;
  const shadow::Party party{order_.thread_of(a.who), a.who < 0, a.site, a.write, a.atomic};
  const std::string name = allocation_name(plan_, w.buffer, w.offset), ended = core_name(owner);
  const std::string what = fmt::format("{} it", deed(ex, party));
  const ir::LocId loc = instances_.line(plan_, a.site).loc;
  ir::Diagnostic d = diagnostic_at(
      by, loc, "PS-RACE-002",
      fmt::format("race on {} of {}: {} ({}), and {} may end before that", name, ended, what, where(ex, loc), ended));
  d.site.what = what + " here";
  d.numbers.push_back(
      fmt::format("shared memory goes with its block of threads, and {} waits for nothing behind this access", ended));
  d.hint =
      "let the blocks of the cluster meet behind their last access to each other's memory: plgpu.barrier_arrive and "
      "plgpu.barrier_wait on a plgpu.ClusterBarrier";
  d.about.push_back(about_ref(name));
  v.found = std::move(d);
}

void RaceDetector::check_ends() {
  const Execution& ex = this->ex();
  for (auto it = visits_.begin(); it != visits_.end();) {
    auto& [key, v] = *it;
    const auto [core, who, site] = key;
    const memory::Units::Threads own = ex.units.threads_of(Level::Core, core);
    const auto first = ex.threads.begin() + own.first;
    // Its place is another program's, or nobody's.
    const bool ended = std::all_of(first, first + own.count, [program = v.program](const Thread& t) {
      return t.point != program || t.stop == Stop::Done;
    });
    if (!ended) {
      ++it;
      continue;
    }
    bool waits = false;
    for (int64_t i = 0; i < own.count; ++i) waits = waits || order_.ordered(v.at, static_cast<int32_t>(own.first + i));
    if (!waits && told_of_ends_.insert(site).second)
      findings_.push_back({*v.found, {std::string(v.found->code.text()) + v.found->about.front()}});
    it = visits_.erase(it);
  }
}

}  // namespace pallasim::interp
