#include "pallasim/interp/timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::interp {
namespace {

// Most keys are there already: nothing is made for those.
int32_t number(std::unordered_map<std::string, int32_t>* numbers, const std::string& key, size_t next) {
  const auto it = numbers->find(key);
  return it != numbers->end() ? it->second : numbers->emplace(key, static_cast<int32_t>(next)).first->second;
}

}  // namespace

int32_t Timeline::track(const std::string& name, Kind kind, int32_t parent) {
  const auto of = static_cast<size_t>(parent + 1);
  if (of >= track_numbers_.size()) track_numbers_.resize(of + 1);
  const int32_t n = number(&track_numbers_[of], name, tracks.size());
  if (static_cast<size_t>(n) == tracks.size()) {
    tracks.push_back({name, parent, kind});
    last_.push_back(-1);
    last_count_.push_back(-1);
  }
  return n;
}

int32_t Timeline::name(const std::string& text) {
  const int32_t n = number(&name_numbers_, text, names.size());
  if (static_cast<size_t>(n) == names.size()) names.push_back(text);
  return n;
}

int32_t Timeline::room(const Room& r) {
  const std::string key = fmt::format("{} {} {} {}", r.core, r.device, r.space, r.name);
  const int32_t n = number(&room_numbers_, key, rooms.size());
  if (static_cast<size_t>(n) == rooms.size()) rooms.push_back(r);
  return n;
}

// Whether both are so short that nobody can tell them apart.
bool Timeline::merge(Slice* into, const Slice& s) const {
  const double end = std::max(into->end, s.end), begin = std::min(into->begin, s.begin);
  if (end - begin > resolution_) return false;
  const double busy = into->seconds() + s.seconds();
  if (s.seconds() > into->seconds()) into->name = s.name, into->line = s.line;
  into->folded = std::max(into->folded, 1) + std::max(s.folded, 1);
  into->busy = std::min(busy, end - begin);
  into->begin = begin, into->end = end;
  into->leaves = into->arrives = -1;
  return true;
}

void Timeline::add(Slice s) {
  int64_t& last = last_[static_cast<size_t>(s.track)];
  if (resolution_ > 0 && last >= static_cast<int64_t>(most / 8) && merge(&slices[static_cast<size_t>(last)], s)) {
    ++folded;
    return;
  }
  last = static_cast<int64_t>(slices.size());
  slices.push_back(s);
  while (slices.size() >= most && most > 0) fold();
}

void Timeline::fold() {
  const size_t kept = most / 8;
  double begin = slices[kept].begin, end = begin;
  for (size_t i = kept; i < slices.size(); ++i) {
    begin = std::min(begin, slices[i].begin);
    end = std::max(end, slices[i].end);
  }
  resolution_ =
      std::max(2 * resolution_, (end - begin) * static_cast<double>(tracks.size()) / static_cast<double>(most));
  std::vector<Slice> all(slices.begin(), slices.begin() + static_cast<std::ptrdiff_t>(kept));
  std::fill(last_.begin(), last_.end(), -1);
  for (size_t i = 0; i < kept; ++i) last_[static_cast<size_t>(all[i].track)] = static_cast<int64_t>(i);
  for (size_t i = kept; i < slices.size(); ++i) {
    int64_t& last = last_[static_cast<size_t>(slices[i].track)];
    if (last >= static_cast<int64_t>(kept) && merge(&all[static_cast<size_t>(last)], slices[i])) {
      ++folded;
      continue;
    }
    last = static_cast<int64_t>(all.size());
    all.push_back(slices[i]);
  }
  slices = std::move(all);
}

void Timeline::count(double time, int32_t track, double value) {
  double& last = last_count_[static_cast<size_t>(track)];
  if (count_resolution_ > 0 && last >= 0 && time - last <= count_resolution_) {
    for (auto it = counts.rbegin(); it != counts.rend(); ++it)
      if (it->track == track) {
        it->value = std::max(it->value, value);
        break;
      }
    ++counts_folded;
    return;
  }
  last = time;
  counts.push_back({time, track, value});
  if (counts.size() >= most_counts) fold_counts();
}

// Of values that follow each other closely the largest is kept.
void Timeline::fold_counts() {
  while (counts.size() >= most_counts / 2) {
    const double span = counts.back().time - counts.front().time;
    const auto tracks_counted = static_cast<double>(tracks.size());
    count_resolution_ = std::max(2 * count_resolution_, span * tracks_counted / static_cast<double>(most_counts));
    std::vector<int64_t> at(tracks.size(), -1);
    std::vector<Count> all;
    for (const Count& c : counts) {
      int64_t& last = at[static_cast<size_t>(c.track)];
      if (last >= 0 && c.time - all[static_cast<size_t>(last)].time <= count_resolution_) {
        all[static_cast<size_t>(last)].value = std::max(all[static_cast<size_t>(last)].value, c.value);
        ++counts_folded;
        continue;
      }
      last = static_cast<int64_t>(all.size());
      all.push_back(c);
    }
    counts = std::move(all);
  }
}

bool Timeline::add_move(const Move& m) {
  if (moves.size() < most_moves) return moves.push_back(m), true;
  ++moves_dropped;
  return false;
}

bool Timeline::add_point(const Point& p) {
  if (points.size() < most_points) return points.push_back(p), true;
  ++points_dropped;
  return false;
}

Timeline::Slice* Timeline::last(int32_t track) {
  const int64_t i = last_[static_cast<size_t>(track)];
  return i < 0 ? nullptr : &slices[static_cast<size_t>(i)];
}

double Timeline::end() const {
  double end = 0;
  for (const Slice& s : slices) end = std::max(end, s.end);
  for (const Move& m : moves) end = std::max(end, m.end);
  return end;
}

std::string Timeline::left_out() const {
  std::vector<std::string> all;
  if (trips_left_out > 0)
    all.push_back(fmt::format("{} trips of loops, which take as long as those before and behind them", trips_left_out));
  if (points_left_out > 0)
    all.push_back(fmt::format("{} steps along an axis of the grid, which take as long as those before and behind them",
                              points_left_out));
  if (folded > 0)
    all.push_back(
        fmt::format("{} of {} slices are part of others", folded, folded + static_cast<int64_t>(slices.size())));
  if (counts_folded > 0)
    all.push_back(fmt::format("{} of {} values of counters are left out, the largest of a moment stays", counts_folded,
                              counts_folded + static_cast<int64_t>(counts.size())));
  if (moves_dropped > 0)
    all.push_back(fmt::format("the last {} of {} movements are left out", moves_dropped,
                              moves_dropped + static_cast<int64_t>(moves.size())));
  if (points_dropped > 0)
    all.push_back(fmt::format("the last {} of {} grid points are left out", points_dropped,
                              points_dropped + static_cast<int64_t>(points.size())));
  if (cores_left_out > 0) all.push_back(fmt::format("{} further cores are left out", cores_left_out));
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace pallasim::interp
