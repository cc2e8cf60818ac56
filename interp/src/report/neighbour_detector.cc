#include "neighbour_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "../plan/kinds.h"
#include "report.h"

namespace pallasim::interp {

void NeighbourDetector::on_launch(const LaunchEvent& e) {
  const memory::Units& units = ex().units;
  clusters_ = e.devices == 1;
  if (!clusters_) many_ = e.devices;
  else if (units.meshes().size() == 1) many_ = units.count(memory::Level::Core) / units.count(memory::Level::Cluster);
  if (many_ < kFewest) many_ = 0;
}

void NeighbourDetector::note(int32_t step, int32_t by, int64_t target) {
  const Execution& ex = this->ex();
  const auto place = [&](int64_t thread) -> std::pair<int64_t, int64_t> {  // the group, and who of it
    if (!clusters_) return {0, thread / ex.device_threads};
    const int64_t core = ex.units.unit_of(memory::Level::Core, ex.threads[static_cast<size_t>(thread)].unit);
    return {core / many_, core % many_};
  };
  const auto [group, who] = place(by);
  const auto [other, whom] = place(target);
  if (group != other) return;
  const int32_t within = clusters_ ? 0 : by % ex.device_threads;
  std::vector<int64_t>& reached = lines_[{step, within, group}][who];
  if (reached.size() < kMost) reached.push_back(whom);
}

void NeighbourDetector::on_operation(const OperationEvent& e) {
  if (many_ == 0 || e.what != OperationEvent::What::Issued || e.operation.writes.size() != 1) return;
  if (e.operation.kind == memory::AsyncKind::block) return;
  note(e.operation.step, e.operation.thread, ex().thread_of(e.operation.writes[0].place));
}

void NeighbourDetector::on_sync(const SyncEvent& e) {
  const Execution& ex = this->ex();
  if (many_ == 0 || clusters_ || e.what != SyncEvent::What::Signal || e.step < 0 || ex.has_early_semaphores()) return;
  note(e.step, e.thread, e.object / ex.semaphore_layout.total(1) * ex.device_threads);
}

namespace {
// Who of `many` alone does not reach whom the others reach, so many further on: at visit `i`.
struct Odd {
  int64_t who = -1, step = 0;  // of the others: how much further on
};
std::optional<Odd> odd_one(const std::map<int64_t, std::vector<int64_t>>& reached, size_t i, int64_t many) {
  std::map<int64_t, std::vector<int64_t>> by_step;
  for (const auto& [who, whom] : reached) by_step[((whom[i] - who) % many + many) % many].push_back(who);
  if (by_step.size() == 1) return Odd{-1, by_step.begin()->first};
  if (by_step.size() != 2) return std::nullopt;
  const auto& [a, as] = *by_step.begin();
  const auto& [b, bs] = *by_step.rbegin();
  if (as.size() == 1 && b != 0) return Odd{as[0], b};
  if (bs.size() == 1 && a != 0) return Odd{bs[0], a};
  return std::nullopt;
}
}  // namespace

void NeighbourDetector::look(const Line& line, const Reached& reached, std::vector<ir::Diagnostic>& out) const {
  if (std::ssize(reached) != many_) return;
  const size_t visits = reached.begin()->second.size();
  int64_t who = -1, first = -1, step = 0;
  std::multiset<int64_t> own, others;  // of the odd one, and of each other one: how much further on
  for (const auto& [by, whom] : reached)
    if (whom.size() != visits || visits >= kMost) return;
  for (size_t i = 0; i < visits; ++i) {
    const std::optional<Odd> odd = odd_one(reached, i, many_);
    if (!odd || (odd->who >= 0 && who >= 0 && odd->who != who)) return;
    others.insert(odd->step);
    if (odd->who < 0) {
      own.insert(odd->step);
      continue;
    }
    own.insert(((reached.at(odd->who)[i] - odd->who) % many_ + many_) % many_);
    if (who < 0) who = odd->who, first = static_cast<int64_t>(i), step = odd->step;
  }
  if (who < 0 || own == others) return;  // it takes them in a turn of its own
  const Execution& ex = this->ex();
  const Step& s = this->step(std::get<0>(line));
  const char* const what = clusters_ ? "CTA" : "device";
  const char* const does = starts_operation(s) ? "copies" : "signals";
  const auto whom = reached.at(who)[static_cast<size_t>(first)];
  ir::Diagnostic d =
      ir::Diagnostic("PS-DEV-002",
                     fmt::format("{0} {1} {2} to {3}, where the others' pattern says {0} {4}", what, who, does,
                                 whom == who ? "itself" : fmt::format("{} {}", what, whom), (who + step) % many_))
          .of(ex.plan->module.name)
          .at(ir::site_of(*ex.locs, ex.plan->loc_of(s)));
  std::vector<std::string> all;
  for (const auto& [by, to] : reached) all.push_back(fmt::format("{} to {}", by, to[static_cast<size_t>(first)]));
  constexpr size_t kShown = 16;
  const size_t more = all.size() > kShown ? all.size() - kShown : 0;
  all.resize(all.size() - more);
  d.numbers.push_back(
      fmt::format("{}: {}{}", does, fmt::join(all, ", "), more ? fmt::format(", and {} more", more) : ""));
  d.hint = fmt::format("the neighbour of the last one in a ring is the first one: (me + {}) % {}", step, many_);
  d.severity = ir::Severity::Note;
  out.push_back(std::move(d));
}

void NeighbourDetector::finish(std::vector<ir::Diagnostic>& findings) {
  if (many_ == 0) return;
  std::set<int32_t> told;
  for (const auto& [line, reached] : lines_) {
    const size_t before = findings.size();
    if (!told.count(std::get<0>(line))) look(line, reached, findings);
    if (findings.size() > before) told.insert(std::get<0>(line));
  }
}

}  // namespace pallasim::interp
