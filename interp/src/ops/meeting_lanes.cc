#include "meeting_lanes.h"

#include <algorithm>
#include <utility>

#include "../plan/payload/movement.h"
#include "elements.h"
#include "row_program.h"

namespace pallasim::interp::ops {
namespace {

struct Lane {
  const std::byte* at;
  int64_t number;
};

// Strides that take no element twice, as those of arrays do.
bool surely_apart(const GatherPayload& p, const Elements& e) {
  if (!e.regular()) return false;
  for (size_t d = 0; d < p.dims.size(); ++d)
    if (p.dims[d] > 1 && e.strides()[d] == 0) return false;
  return true;
}

// Rows whose lanes ascend, each of them behind the one before it.
bool rows_ascend(Thread& t, const Step& s, const GatherPayload& p) {
  Elements e(t, &s, p);
  ElementRow row;
  const std::byte* behind = nullptr;
  for (int64_t n = p.dims.empty() ? 0 : p.dims.back(), done = 0; done < e.count(); done += n, e.next_row()) {
    if (p.dims.empty() || !e.row(&row)) return false;
    if (row.begin == row.end) continue;
    const int64_t lanes = row.end - row.begin;
    if (!row.offsets.empty() || (lanes > 1 && row.step < 1) || (behind && row.first < behind)) return false;
    behind = row.first + ((lanes - 1) * row.step + 1) * p.size;
  }
  return true;
}

// Without sorting them, where a bit for each element that they span is not much.
bool surely_apart(const std::vector<Lane>& lanes, int64_t size) {
  constexpr int64_t kMostPerLane = 64;
  const auto [first, last] =
      std::minmax_element(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) { return a.at < b.at; });
  const std::byte* const begin = first->at;
  const int64_t elements = (last->at - begin) / size + 1;
  if (elements > kMostPerLane * std::ssize(lanes)) return false;
  std::vector<uint64_t> taken(static_cast<size_t>(elements / 64 + 1));
  return std::none_of(lanes.begin(), lanes.end(), [&](const Lane& lane) {
    const auto i = static_cast<size_t>((lane.at - begin) / size);
    const uint64_t bit = uint64_t{1} << i % 64, before = std::exchange(taken[i / 64], taken[i / 64] | bit);
    return (before & bit) != 0;
  });
}

// Those that write, by their place. Empty where places ascend from lane to lane.
std::vector<Lane> lanes(Thread& t, const Step& s, const GatherPayload& p) {
  std::vector<Lane> r;
  if (rows_ascend(t, s, p)) return r;
  Elements e(t, &s, p);
  bool ascending = true;
  for (int64_t i = 0; i < e.count(); ++i, e.next()) {
    const std::byte* const at = e.on() ? e.address() : nullptr;
    if (!at) continue;
    ascending &= r.empty() || at >= r.back().at + p.size;
    r.push_back({at, i});
  }
  if (ascending || surely_apart(r, p.size)) return {};
  std::stable_sort(r.begin(), r.end(), [](const Lane& a, const Lane& b) { return a.at < b.at; });
  return r;
}

std::optional<MeetingLanes> meeting(const Thread& t, const GatherPayload& p, const std::vector<Lane>& lanes,
                                    const std::byte* values) {
  MeetingLanes r;
  for (size_t i = 1; i < lanes.size(); ++i) {
    const Lane &a = lanes[i - 1], &b = lanes[i];
    if (a.at != b.at ||
        std::equal(values + a.number * p.size, values + (a.number + 1) * p.size, values + b.number * p.size))
      continue;
    if (r.elements++ == 0) r.first = a.number, r.second = b.number, r.offset = a.at - t.bases[p.ref.buffer];
  }
  return r.elements > 0 ? std::optional(r) : std::nullopt;
}

// What a store whose value is computed row by row is about to write.
std::vector<std::byte> computed(Thread& t, const Step& s, const StoredRows& p) {
  Elements e(t, &s, p.access);
  std::vector<std::byte> r(static_cast<size_t>(e.count() * p.access.size));
  RowProgram program(t, p.program);
  const int64_t n = p.access.dims.empty() ? 1 : p.access.dims.back();
  for (int64_t done = 0; done < e.count(); done += n) {
    program.run(e.index(), 0, n, r.data() + done * p.access.size);
    if (p.access.dims.empty()) break;
    e.next_row();
  }
  return r;
}

}  // namespace

std::optional<MeetingLanes> meeting_lanes(Thread& t, const Step& s) {
  const bool rows = s.kind == Kind::store_rows;
  if (!rows && s.kind != Kind::gather) return {};
  const GatherPayload& p = rows ? payload<Kind::store_rows>(s).access : payload<Kind::gather>(s);
  if (p.mode != GatherPayload::Mode::Store) return {};
  if (const Elements e(t, &s, p); e.count() < 2 || surely_apart(p, e)) return {};
  const std::vector<Lane> all = lanes(t, s, p);
  if (all.empty()) return {};
  if (!rows) return meeting(t, p, all, t.resolve(p.value));
  return meeting(t, p, all, computed(t, s, payload<Kind::store_rows>(s)).data());
}

}  // namespace pallasim::interp::ops
