#include "pallasim/trace/causes.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::trace {
namespace {

bool is_race(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::RACE; }
bool is_unset(const ir::Diagnostic& d) { return d.code.is("PS-UNINIT-001"); }
bool is_claim(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::PAR; }

// Reasons come first: a value of another core that is not there yet is memory that nobody wrote, and what one
// coordinate left in memory that it did not set is what the next one finds there.
int rank(const ir::Diagnostic& d) {
  if (d.severity == ir::Severity::Note) return 4;
  if (d.severity == ir::Severity::Error) return 0;
  if (is_race(d)) return 1;
  return is_unset(d) ? 2 : 3;
}

bool same_place(const ir::Site& a, const ir::Site& b) { return !a.source.file.empty() && a.source == b.source; }

// Cores that race because an axis claims to be parallel: the claim is what is wrong.
bool races_by_claim(const ir::Diagnostic& race, const std::vector<ir::Diagnostic>& all) {
  const auto here = [&](const ir::Diagnostic& d) { return same_place(d.site, race.site); };
  return is_race(race) &&
         std::any_of(all.begin(), all.end(), [&](const ir::Diagnostic& d) { return is_claim(d) && here(d); }) &&
         std::none_of(all.begin(), all.end(), [&](const ir::Diagnostic& d) { return is_unset(d) && here(d); });
}

bool follows(const ir::Diagnostic& d, const ir::Diagnostic& reason) {
  if (is_race(d)) return is_claim(reason) && same_place(d.site, reason.site);
  if (is_claim(d)) return is_unset(reason) && same_place(d.site, reason.site);
  if (!is_unset(d) || !is_race(reason)) return false;
  return same_place(d.site, reason.site) ||
         std::any_of(reason.also.begin(), reason.also.end(), [&](const ir::Site& s) { return same_place(d.site, s); });
}

}  // namespace

std::vector<ir::Diagnostic> by_cause(std::vector<ir::Diagnostic> findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const ir::Diagnostic& a, const ir::Diagnostic& b) { return rank(a) < rank(b); });
  const std::vector<ir::Diagnostic> all = findings;
  std::stable_partition(findings.begin(), findings.end(),
                        [&](const ir::Diagnostic& d) { return !races_by_claim(d, all); });
  std::vector<ir::Diagnostic> kept;
  for (ir::Diagnostic& d : findings) {
    const auto reason = std::find_if(kept.begin(), kept.end(), [&](const ir::Diagnostic& k) { return follows(d, k); });
    if (reason == kept.end()) kept.push_back(std::move(d));
    else reason->numbers.push_back(fmt::format("{} follows: {}", d.code.text(), d.message));
  }
  return kept;
}

void place(ir::Diagnostic& d, const ir::Module& m) {
  const ir::Attr* call = ir::find(m.attrs, "call");
  if (!d.site.source.file.empty() || !call || !call->is_int() || call->i < 0 ||
      call->i >= static_cast<int64_t>(m.locs.size()))
    return;
  std::string what = std::move(d.site.what);
  d.site = ir::site_of(m, static_cast<ir::LocId>(call->i));
  d.site.what = std::move(what);
}

}  // namespace pallasim::trace
