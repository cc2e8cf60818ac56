#include "pallasim/trace/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace pallasim::trace {
namespace {

bool is_claim(const ir::Diagnostic& d) { return d.code.starts_with("PS-PAR-"); }
bool is_root(const ir::Diagnostic& d) { return d.code == "PS-UNINIT-001"; }

int rank(const ir::Diagnostic& d) {
  if (d.severity == ir::Severity::Note) return 3;
  if (d.severity == ir::Severity::Error) return 0;
  return is_root(d) ? 1 : 2;
}

bool same_place(const ir::Diagnostic& a, const ir::Diagnostic& b) { return !a.site.source.file.empty() && a.site.source == b.site.source; }

}  // namespace

std::vector<ir::Diagnostic> by_cause(std::vector<ir::Diagnostic> findings) {
  const auto claims = std::stable_partition(findings.begin(), findings.end(), [](const ir::Diagnostic& d) { return !is_claim(d); });
  std::vector<ir::Diagnostic> kept(std::make_move_iterator(findings.begin()), std::make_move_iterator(claims));
  for (ir::Diagnostic& d : std::span(claims, findings.end())) {
    const auto root = std::find_if(kept.begin(), kept.end(), [&](const ir::Diagnostic& k) { return is_root(k) && same_place(k, d); });
    if (root == kept.end()) kept.push_back(std::move(d));
    else root->numbers.push_back(fmt::format("{} follows here: {}", d.code, d.message));
  }
  std::stable_sort(kept.begin(), kept.end(), [](const ir::Diagnostic& a, const ir::Diagnostic& b) { return rank(a) < rank(b); });
  return kept;
}

}  // namespace pallasim::trace
