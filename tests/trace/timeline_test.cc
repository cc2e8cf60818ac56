// Time lines: what is folded and what is left, lanes, and what the observer of steps makes.
#include "pallasim/interp/timeline.h"

#include <gtest/gtest.h>

#include "pallasim/trace/perfetto.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

TEST(Timeline, IsFoldedBeyondItsSize) {
  Timeline t;
  t.most = 800;
  const int32_t track = t.track("thread"), name = t.name("step");
  constexpr int kSteps = 100'000;
  for (int i = 0; i < kSteps; ++i) t.add({i * 1e-9, (i + 0.5) * 1e-9, track, name});
  EXPECT_LT(t.slices.size(), t.most);
  int64_t steps = 0;
  double busy = 0, last = 0;
  for (const Timeline::Slice& s : t.slices) {
    steps += std::max(s.folded, 1);
    busy += s.seconds();
    EXPECT_GE(s.begin, last);
    last = s.end;
  }
  EXPECT_EQ(steps, kSteps) << "each is one, or part of one";
  EXPECT_NEAR(busy, kSteps * 0.5e-9, 1e-12);
  EXPECT_NEAR(last, kSteps * 1e-9, 1e-9);
  EXPECT_EQ(t.folded, kSteps - static_cast<int64_t>(t.slices.size()));
  for (size_t i = 0; i < t.most / 8; ++i) EXPECT_EQ(t.slices[i].folded, 0) << "the beginning stays as it is";
  EXPECT_NE(t.left_out().find("slices are part of others"), std::string::npos);
}

TEST(Timeline, LongSlicesAreKept) {
  Timeline t;
  t.most = 400;
  const int32_t track = t.track("thread"), small = t.name("small"), large = t.name("large");
  double at = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool is_large = i % 5000 == 4999;
    const double length = is_large ? 1e-3 : 1e-9;
    t.add({at, at + length, track, is_large ? large : small});
    at += length;
  }
  int kept = 0;
  for (const Timeline::Slice& s : t.slices)
    if (s.name == large) {
      ++kept;
      EXPECT_NEAR(s.seconds(), 1e-3, 1e-5);
    }
  EXPECT_EQ(kept, 4);
}

TEST(Timeline, OfCountersTheLargestValueStays) {
  Timeline t;
  t.most_counts = 500;
  const int32_t track = t.track("bytes", Timeline::Kind::Counter);
  for (int i = 0; i < 50'000; ++i) t.count(i * 1e-9, track, i == 31'234 ? 1e6 : i % 7);
  EXPECT_LT(t.counts.size(), t.most_counts);
  double most = 0;
  for (const auto& c : t.counts) most = std::max(most, c.value);
  EXPECT_EQ(most, 1e6);
  EXPECT_EQ(t.counts_folded + static_cast<int64_t>(t.counts.size()), 50'000);
}

TEST(Timeline, WhatOverlapsLiesOnLanes) {
  Timeline t;
  const int32_t track = t.track("copies", Timeline::Kind::Flight), name = t.name("copy");
  t.add({0, 3, track, name});
  t.add({1, 2, track, name});
  t.add({2, 4, track, name});
  t.add({3, 5, track, name});
  const auto lanes = trace::lanes_of(t);
  ASSERT_EQ(lanes.size(), 2u);
  for (const trace::Lane& l : lanes)
    for (size_t i = 1; i < l.slices.size(); ++i) EXPECT_GE(t.slices[l.slices[i]].begin, t.slices[l.slices[i - 1]].end);
  EXPECT_EQ(lanes[0].slices, (std::vector<size_t>{0, 3}));
}

// Of a launch without a model of time.
Timeline steps_of(const std::string& file, std::vector<Array> args) {
  Timeline t;
  const auto plan = compile(ir::parse(read_file(file)), {});
  std::vector<Buffer> in, to;
  std::deque<Array> results;
  for (Array& a : args) in.push_back(a.buffer());
  for (const ir::Type* type : result_types(*plan)) {
    Array& a =
        results.emplace_back(Array{type->dtype, {}, std::vector<std::byte>(static_cast<size_t>(type->num_bytes()))});
    for (const ir::Dim& d : type->dims) a.dims.push_back(d.size);
    to.push_back(a.buffer());
  }
  Session session;
  const std::unique_ptr<Observer> steps = step_timeline(&t);
  Observer* observers[] = {steps.get()};
  Watch watch;
  watch.observers = observers;
  const Report r = launch(*plan, session, in, to, {}, watch);
  int64_t seen = 0;
  for (const Timeline::Slice& s : t.slices)
    if (t.tracks[static_cast<size_t>(s.track)].kind == Timeline::Kind::Thread &&
        t.names[static_cast<size_t>(s.name)] != "waits")
      ++seen;
  EXPECT_EQ(seen, r.steps) << "a slice a step";
  return t;
}

TEST(StepTimeline, KnowsWhereCopiesGo) {
  const Timeline t = steps_of("pass/double_buffer.psir", {noise({4, 128})});
  ASSERT_FALSE(t.moves.empty());
  int64_t in = 0, out = 0;
  for (const Timeline::Move& m : t.moves) {
    const auto &from = t.rooms[static_cast<size_t>(m.from)], &to = t.rooms[static_cast<size_t>(m.to)];
    EXPECT_LE(m.begin, m.end);
    if (from.core < 0) in += m.bytes;
    if (to.core < 0) out += m.bytes;
  }
  EXPECT_EQ(in, 4 * 128 * 4);
  EXPECT_EQ(t.unit, "steps");
  // Each copy is an arrow from its issue to its end.
  std::set<int64_t> leaves, arrives;
  for (const Timeline::Slice& s : t.slices) {
    if (s.leaves >= 0) leaves.insert(s.leaves);
    if (s.arrives >= 0) arrives.insert(s.arrives);
  }
  EXPECT_FALSE(leaves.empty());
  EXPECT_EQ(leaves, arrives);
}

TEST(StepTimeline, BytesInFlightAndSemaphoresEndAtZero) {
  const Timeline t = steps_of("pass/double_buffer.psir", {noise({4, 128})});
  std::map<int32_t, double> last;
  for (const Timeline::Count& c : t.counts) last[c.track] = c.value;
  int flights = 0, semaphores = 0;
  for (const auto& [track, value] : last) {
    const std::string& name = t.tracks[static_cast<size_t>(track)].name;
    flights += name == "bytes in flight";
    semaphores += name.starts_with("semaphore ");
    if (!name.ends_with(" bytes")) { EXPECT_EQ(value, 0) << name; }
  }
  EXPECT_EQ(flights, 1);
  EXPECT_GE(semaphores, 1);
}

}  // namespace
}  // namespace pallasim::interp::test
