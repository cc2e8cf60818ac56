#include "packed.h"

#include <algorithm>

namespace pallasim::interp {

void Packed::close(double at) {
  begun_ = at_ = at;
  unit_ = hw::Unit::Scalar;
  units_ = {};
  mxus_ = {};
}

Packed::End Packed::add(const StepPart& p, size_t named) {
  if (ready_.size() < named) ready_.resize(named);
  const hw::Work& w = p.work;
  double start = begun_, row = begun_, done = begun_;
  for (size_t i = 0; i < p.from.size(); ++i) {
    const Ready& r = ready_[static_cast<size_t>(p.from[i])];
    const double before = i == 0 ? 0 : w.before;
    start = std::max(start, std::max(w.by_rows ? r.row : r.first, begun_) + before);
    row = std::max(row, std::max(r.row, begun_) + before);
    done = std::max(done, std::max(r.last, begun_) + before);
    // A product takes all rows for some of its tiles, then for the next ones: what is made row by row comes to its end
    // before the second time.
    if (i == 0 && r.first >= r.row && r.last > begun_) done = std::max(done, r.last + w.first_row);
  }
  double own = 0;
  size_t most = 0;
  const auto take = [&](Used& used, double busy, size_t u) {
    if (busy <= 0) return;
    used.from = used.busy > 0 ? std::min(used.from, start - w.ahead) : start - w.ahead;
    used.busy += busy;
    done = std::max(done, used.from + used.busy);
    if (busy - w.ahead > own) own = busy - w.ahead, most = u;
  };
  for (size_t u = 0; u < hw::kUnits; ++u) take(units_[u], w.busy[u], u);
  for (size_t i = 0; i < hw::kMxus; ++i) take(mxus_[i], w.mxus[i], static_cast<size_t>(hw::Unit::Matrix));
  done = std::max(done, start + own) + w.latency;
  if (done > at_ && (own > 0 || w.latency > 0)) at_ = done, unit_ = static_cast<hw::Unit>(own > 0 ? most : 1);
  const Ready made{w.at_once ? done : start + w.first + w.latency,
                   w.at_once ? done : std::max(row, start + w.first_row) + w.latency, done};
  for (const int32_t to : p.to) ready_[static_cast<size_t>(to)] = made;
  return {std::max(at_, done), unit_};
}

}  // namespace pallasim::interp
