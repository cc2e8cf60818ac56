#include "causes.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::interp {

std::string about_ref(std::string_view name) { return fmt::format("ref {}", name); }
std::string about_semaphores(int block) { return fmt::format("semaphores {}", block); }
std::string about_barriers(int block) { return fmt::format("barriers {}", block); }

std::string about_axis(size_t axis) { return fmt::format("axis {}", axis); }

std::string listed(const std::vector<std::string>& names, size_t most) {
  const size_t n = names.size() > most + 1 ? most : names.size();
  std::string r;
  for (size_t i = 0; i < n; ++i) r += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  if (n < names.size()) r += fmt::format(" and {} more", names.size() - n);
  return r;
}

std::string where(const ir::Site& s) {
  return s.source.file.empty() ? std::string("an unknown line") : fmt::format("{}:{}", s.source.file, s.source.line);
}

namespace {

bool is_race(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::kRACE; }
bool is_claim(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::kPAR; }
// Of programs that run at once, whatever they claim.
bool of_programs(const ir::Diagnostic& d) { return d.code.is("PS-PAR-002"); }
bool is_unset(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::kUNINIT; }
bool in_flight(const ir::Diagnostic& d) { return d.code.is("PS-RACE-001"); }
bool is_unfenced(const ir::Diagnostic& d) { return d.code.is("PS-RACE-003"); }
// What a semaphore or a barrier has too much of, or too little.
bool is_balance(const ir::Diagnostic& d) {
  return d.code.family() == ir::CodeFamily::kBAR || d.code.family() == ir::CodeFamily::kSEM;
}

bool same_place(const ir::Site& a, const ir::Site& b) { return !a.source.file.empty() && a.source == b.source; }
bool share(const ir::Diagnostic& a, const ir::Diagnostic& b, std::string_view kind = "") {
  return std::any_of(a.about.begin(), a.about.end(), [&](const std::string& what) {
    return what.starts_with(kind) && std::find(b.about.begin(), b.about.end(), what) != b.about.end();
  });
}
// `a` stands at one of the lines of `b`.
bool at_one_side(const ir::Diagnostic& a, const ir::Diagnostic& b) {
  return same_place(a.site, b.site) ||
         std::any_of(b.also.begin(), b.also.end(), [&](const ir::Site& s) { return same_place(a.site, s); });
}
bool meet(const ir::Diagnostic& a, const ir::Diagnostic& b) { return share(a, b, "ref ") || at_one_side(a, b); }

bool has(const ir::Diagnostic& d, const std::string& about) {
  return std::find(d.about.begin(), d.about.end(), about) != d.about.end();
}

// What a point before this one along the axis of the claim was to set: in another order of the grid it had not come
// yet.
bool set_at_another_point(const ir::Diagnostic& unset, const ir::Diagnostic& claim) {
  if (!is_unset(unset) || !is_claim(claim) || !share(unset, claim, "ref ")) return false;
  if (of_programs(claim)) return true;
  for (size_t g = 0; g < unset.grid_point.size(); ++g)
    if (unset.grid_point[g] != 0 && has(claim, about_axis(g)) && has(unset, "set at the first of " + about_axis(g)))
      return true;
  return false;
}

// An axis that claims to be parallel is the reason of races between cores at what its points share.
bool races_by_claim(const ir::Diagnostic& race, const std::vector<ir::Diagnostic>& all) {
  return is_race(race) && !in_flight(race) && !is_unfenced(race) &&
         std::any_of(all.begin(), all.end(), [&](const ir::Diagnostic& d) { return is_claim(d) && meet(d, race); }) &&
         std::none_of(all.begin(), all.end(),
                      [&](const ir::Diagnostic& d) { return is_unset(d) && same_place(d.site, race.site); });
}

// Reasons come first: what is read too early may be memory that nobody wrote, and what one grid point left in memory
// that it did not set is what the next one finds there.
int rank(const ir::Diagnostic& d, const std::vector<ir::Diagnostic>& all) {
  if (d.severity == ir::Severity::Note) return 9;
  if (d.severity == ir::Severity::Error) return 0;
  if (in_flight(d)) return 1;
  if (races_by_claim(d, all)) return 8;
  if (is_race(d)) return is_unfenced(d) ? 4 : 3;
  if (is_balance(d)) return 5;
  if (is_unset(d)) return 6;
  if (!is_claim(d)) return 8;
  const bool explains = std::any_of(all.begin(), all.end(), [&](const ir::Diagnostic& r) {
    return set_at_another_point(r, d) || (meet(d, r) && races_by_claim(r, all));
  });
  return explains ? 2 : 7;
}

bool follows(const ir::Diagnostic& d, const ir::Diagnostic& reason) {
  if (reason.severity == ir::Severity::Error)
    return share(d, reason, "semaphores ") || share(d, reason, "barriers ") ||
           (has(reason, std::string(kWrongCount)) &&
            (d.code.is("PS-RACE-002") || d.code.family() == ir::CodeFamily::kBAR));
  // A barrier that was made for a wrong count goes wrong phase by phase.
  if (d.code.family() == ir::CodeFamily::kBAR && reason.code.family() == ir::CodeFamily::kBAR)
    return share(d, reason, "barriers ");
  if (is_balance(d)) return is_race(reason) && (share(d, reason, "semaphores ") || share(d, reason, "barriers "));
  if (is_race(d)) return (is_claim(reason) || (is_race(reason) && !(d.code == reason.code))) && meet(d, reason);
  if (is_claim(d))
    return ((is_unset(reason) && !set_at_another_point(reason, d)) || is_race(reason)) && meet(d, reason);
  if (d.code.is("PS-OUT-001")) return (is_claim(reason) || is_race(reason)) && share(d, reason, "ref ");
  if (!is_unset(d)) return false;
  if (is_claim(reason)) return meet(d, reason);
  return is_race(reason) && (at_one_side(d, reason) || (d.code.is("PS-UNINIT-003") && share(d, reason, "ref ")));
}

// The same, of another thread or device, or at another grid point.
bool again(const ir::Diagnostic& d, const ir::Diagnostic& first) {
  return d.code == first.code && !d.site.source.file.empty() && same_place(d.site, first.site) &&
         d.also.empty() == first.also.empty() && (d.also.empty() || same_place(d.also[0], first.also[0])) &&
         (d.about.empty() || d.about == first.about);
}

struct Kept {
  ir::Diagnostic* report;
  int64_t more = 0;  // like it
  std::string thread;
  size_t before = 0;  // lines of what came before an error, in front of its own
};

void tell(Kept& k, const ir::Diagnostic& d) {
  if (again(d, *k.report)) {
    ++k.more;
    if (k.thread.empty() && d.thread != k.report->thread) k.thread = d.thread;
    return;
  }
  const bool error = k.report->severity == ir::Severity::Error;
  std::string line = fmt::format("{} {}: {}", d.code.text(), error ? "came before" : "follows", d.message);
  if (!d.site.source.file.empty() && !same_place(d.site, k.report->site)) line += fmt::format(" ({})", where(d.site));
  std::vector<std::string>& numbers = k.report->numbers;
  if (std::find(numbers.begin(), numbers.end(), line) != numbers.end()) return;
  numbers.insert(error ? numbers.begin() + static_cast<std::ptrdiff_t>(k.before++) : numbers.end(), std::move(line));
}

}  // namespace

std::vector<ir::Diagnostic> by_cause(std::vector<ir::Diagnostic> all, ir::Diagnostic* stop) {
  std::vector<std::pair<int, ir::Diagnostic>> ranked;
  for (const ir::Diagnostic& d : all) ranked.emplace_back(rank(d, all), d);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ir::Diagnostic> findings;
  for (auto& [order, d] : ranked) findings.push_back(std::move(d));
  std::vector<bool> gone(findings.size());
  std::vector<Kept> kept;
  if (stop) kept.push_back({stop, 0, {}, 0});
  for (size_t i = 0; i < findings.size(); ++i) {
    const ir::Diagnostic& d = findings[i];
    const auto reason = std::find_if(kept.begin(), kept.end(),
                                     [&](const Kept& k) { return again(d, *k.report) || follows(d, *k.report); });
    gone[i] = reason != kept.end();
    if (gone[i]) tell(*reason, d);
    else kept.push_back({&findings[i], 0, {}, 0});
  }
  for (const Kept& k : kept)
    if (k.more > 0)
      k.report->numbers.push_back(fmt::format("{} more like it{}", k.more,
                                              k.thread.empty() ? "" : fmt::format(", the next one in {}", k.thread)));
  std::vector<ir::Diagnostic> r;
  for (size_t i = 0; i < findings.size(); ++i)
    if (!gone[i]) r.push_back(std::move(findings[i]));
  return r;
}

void conclude(const ir::Module& m, const ir::LocTable& locs, Outcome* o) {
  for (ir::Diagnostic& d : o->report.findings) ir::place(d, m, locs);
  if (o->stop) ir::place(*o->stop, m, locs);
  o->report.findings = by_cause(std::move(o->report.findings), o->stop ? &*o->stop : nullptr);
}

}  // namespace pallasim::interp
