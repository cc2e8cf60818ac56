#include "folded_times.h"

#include <algorithm>
#include <cmath>

namespace pallasim::interp {
namespace {

// Adds rows, weighted, to those of the sum that `same` takes for the same thing; returns where they are.
template <typename Row, typename Same, typename... Members>
std::vector<size_t> add_rows(std::vector<Row>* to, const std::vector<Row>& from, double weight, const Same& same,
                             Members... members) {
  std::vector<size_t> at;
  for (const Row& r : from) {
    auto it = std::find_if(to->begin(), to->end(), [&](const Row& x) { return same(x, r); });
    if (it == to->end()) {
      it = to->insert(to->end(), r);
      (((*it).*members = 0), ...);
    }
    (((*it).*members += weight * (r.*members)), ...);
    at.push_back(static_cast<size_t>(it - to->begin()));
  }
  return at;
}

template <typename Rows>
void by_seconds(Rows* rows) {
  std::erase_if(*rows, [](const auto& r) { return r.seconds <= 0; });
  std::stable_sort(rows->begin(), rows->end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
}

}  // namespace

void sort_shares(Prediction* p) {
  by_seconds(&p->critical);
  by_seconds(&p->bounds);
  p->bound = p->critical.empty() ? "" : p->critical.front().name;
  p->next.clear();
  for (const auto& b : p->bounds)
    if (b.name != p->bound) {
      p->next = b.name;
      break;
    }
}

Prediction weighted(std::span<const Prediction> all, std::span<const double> weights) {
  using P = Prediction;
  P r = all.back();
  r.seconds = r.flops = r.bytes_read = r.bytes_written = r.bytes_cached = 0;
  r.critical.clear(), r.bounds.clear(), r.lines.clear(), r.waits.clear();
  std::vector<double> counts;  // of waits
  const auto named = [](const auto& a, const auto& b) { return a.name == b.name; };
  const auto at_line = [](const auto& a, const auto& b) { return a.site.loc == b.site.loc; };
  for (size_t i = 0; i < all.size(); ++i) {
    const P& p = all[i];
    const double w = weights[i];
    for (double P::*sum : {&P::seconds, &P::flops, &P::bytes_read, &P::bytes_written, &P::bytes_cached})
      r.*sum += w * p.*sum;
    add_rows(&r.critical, p.critical, w, named, &P::Share::seconds);
    add_rows(&r.bounds, p.bounds, w, named, &P::Bound::seconds);
    add_rows(&r.lines, p.lines, w, at_line, &P::Line::seconds, &P::Line::busy);
    const auto waits = add_rows(
        &r.waits, p.waits, w, [&](const P::Wait& a, const P::Wait& b) { return at_line(a, b) && a.what == b.what; },
        &P::Wait::seconds);
    counts.resize(r.waits.size());
    for (size_t k = 0; k < waits.size(); ++k) {
      counts[waits[k]] += w * static_cast<double>(p.waits[k].count);
      r.waits[waits[k]].longest = std::max(r.waits[waits[k]].longest, p.waits[k].longest);
    }
  }
  for (size_t k = 0; k < counts.size(); ++k) r.waits[k].count = std::max<int64_t>(1, std::llround(counts[k]));
  for (P::Bound& b : r.bounds) b.busy = b.seconds / r.seconds;
  by_seconds(&r.waits);
  std::erase_if(r.lines, [](const P::Line& l) { return l.seconds <= 0 && l.busy <= 0; });
  std::stable_sort(r.lines.begin(), r.lines.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  sort_shares(&r);
  r.peak_seconds = std::max(r.flops / r.peak_flops, (r.bytes_read + r.bytes_written) / r.peak_bandwidth);
  return r;
}

}  // namespace pallasim::interp
