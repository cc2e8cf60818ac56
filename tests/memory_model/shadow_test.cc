#include <gtest/gtest.h>

#include <random>
#include <set>

#include "pallasim/memory/shadow/claims.h"
#include "pallasim/memory/shadow/in_flight.h"
#include "pallasim/memory/shadow/races.h"
#include "pallasim/memory/shadow/written.h"

namespace pallasim::memory::shadow {
namespace {

using Bytes = std::set<int64_t>;

struct View {
  std::vector<int64_t> dims, strides;
  int64_t offset, element;
};

// Bytes one by one, without a box.
void visit(const View& v, size_t d, int64_t at, Bytes* r) {
  if (d == v.dims.size()) {
    for (int64_t b = 0; b < v.element; ++b) r->insert(at + b);
    return;
  }
  for (int64_t i = 0; i < v.dims[d]; ++i) visit(v, d + 1, at + i * v.strides[d] * v.element, r);
}
Bytes bytes_of(const View& v) {
  Bytes r;
  visit(v, 0, v.offset, &r);
  return r;
}
Box box_of(const View& v) { return Box(v.offset, v.dims.data(), v.strides.data(), static_cast<int>(v.dims.size()), v.element); }
Bytes bytes_of(const Box& b) {
  Bytes r;
  for (const Range& x : b.rows())
    for (int64_t i = x.begin; i < x.end; ++i) r.insert(i);
  return r;
}
bool meet(const Bytes& a, const Bytes& b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t x) { return b.count(x) > 0; });
}

class Random {
 public:
  explicit Random(uint64_t seed) : rng_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  // Mostly parts of one 6 x 8 array of elements of 4 bytes, as kernels have them; sometimes anything.
  View view() {
    View v;
    v.element = below(8) == 0 ? 1 + below(8) : 4;
    if (below(5) == 0) {
      for (int64_t n = below(4); n > 0; --n) v.dims.push_back(below(4) + (below(6) > 0)), v.strides.push_back(below(13) - 4);
      v.offset = 200 + below(100);
      return v;
    }
    const int64_t r = below(6), c = below(8), rs = 1 + (below(4) == 0), cs = 1 + (below(4) == 0);
    v.dims = {1 + below((6 - r + rs - 1) / rs), 1 + below((8 - c + cs - 1) / cs)};
    v.strides = {8 * rs, cs};
    v.offset = (r * 8 + c) * 4;
    if (below(4) == 0) std::swap(v.dims[0], v.dims[1]), std::swap(v.strides[0], v.strides[1]);
    v.element = 4;
    return v;
  }

 private:
  std::mt19937_64 rng_;
};

TEST(Box, SetsOfBytes) {
  Random rng(1);
  for (int round = 0; round < 20000; ++round) {
    const View v = rng.view(), w = rng.view();
    const Bytes bv = bytes_of(v), bw = bytes_of(w);
    const Box a = box_of(v), b = box_of(w);
    ASSERT_EQ(bytes_of(a), bv) << round;
    ASSERT_EQ(a.empty(), bv.empty());
    ASSERT_EQ(overlap(a, b), meet(bv, bw)) << round;
    if (surely_inside(a, b)) {
      ASSERT_TRUE(std::includes(bv.begin(), bv.end(), bw.begin(), bw.end())) << round;
    }
    if (!bv.empty()) {
      ASSERT_EQ(a.hull(), (Range{*bv.begin(), *bv.rbegin() + 1}));
    }
    if (a == b) {
      ASSERT_EQ(bv, bw);
      ASSERT_EQ(a.hash(), b.hash());
    }
  }
}

TEST(Box, WhatIsLeftBesideABlock) {
  Random rng(7);
  int cut = 0;
  for (int round = 0; round < 50000; ++round) {
    const Box a = box_of(rng.view()), b = box_of(rng.view());
    std::vector<Box> rest;
    if (a.empty() || b.empty() || !surely_inside(a, b) || !a.nested() || !b.nested() || !subtract(a, b, &rest)) continue;
    ++cut;
    Bytes sum = bytes_of(b);
    for (const Box& r : rest)
      for (int64_t x : bytes_of(r)) ASSERT_TRUE(sum.insert(x).second) << round;
    ASSERT_EQ(sum, bytes_of(a)) << round;
  }
  EXPECT_GT(cut, 1000);
}

TEST(Box, OneFormForOneSet) {
  const int64_t whole[] = {4, 8}, dense[] = {8, 1}, turned_dims[] = {8, 4}, turned[] = {1, 8}, back[] = {-8, -1};
  EXPECT_EQ(Box(0, whole, dense, 2, 4), Box(0, 128));
  EXPECT_EQ(Box(0, turned_dims, turned, 2, 4), Box(0, 128));
  EXPECT_EQ(Box(124, whole, back, 2, 4), Box(0, 128));
  const int64_t part[] = {4, 2};
  const Box p(0, part, dense, 2, 4);
  EXPECT_EQ(p.rank, 1);
  EXPECT_EQ(p.run, 8);
  EXPECT_TRUE(surely_inside(Box(0, 128), p));
  EXPECT_FALSE(surely_inside(p, Box(0, 128)));
}

// How often each byte was visited, and by whom last.
struct Count {
  int64_t visits = 0, last = -1;
  int64_t heap_bytes() const { return 0; }
  bool operator==(const Count&) const = default;
};

TEST(Regions, EveryByteHasItsState) {
  Random rng(2);
  for (int round = 0; round < 400; ++round) {
    Regions<Count> regions;
    std::map<int64_t, Count> naive;
    for (int64_t n = 0; n < 40; ++n) {
      if (rng.below(12) == 0) {
        const int64_t begin = rng.below(220), end = begin + rng.below(100);
        regions.forget(begin, end);
        std::erase_if(naive, [&](const auto& e) { return e.first >= begin && e.first < end; });
        continue;
      }
      const View v = rng.view();
      const bool forgets = rng.below(2) == 0;
      const Bytes bytes = bytes_of(v);
      regions.visit(box_of(v), [&](Count& c, Range hull) {
        EXPECT_GE(hull.begin, *bytes.begin());
        EXPECT_LE(hull.end, *bytes.rbegin() + 1);
        c = forgets ? Count{1, n} : Count{c.visits + 1, c.last};
      });
      for (int64_t b : bytes) naive[b] = forgets ? Count{1, n} : Count{naive[b].visits + 1, naive[b].last};
      std::map<int64_t, Count> got;
      for (int64_t b = -200; b < 1000; ++b) regions.look(Box(b, b + 1), [&](const Count& c, Range) { got[b] = c; });
      ASSERT_EQ(got.size(), naive.size()) << round << " " << n;
      for (const auto& [b, c] : naive) ASSERT_EQ(got.at(b), c) << round << " " << n << " byte " << b;
    }
    const Regions<Count> copy = regions;
    EXPECT_EQ(copy, regions);
    regions.forget(-200, 1000);
    EXPECT_EQ(regions.regions() + regions.runs(), 0u);
  }
}

TEST(Regions, BlocksStayBlocks) {
  Regions<Count> regions;
  const int64_t dims[] = {128, 128}, strides[] = {1024, 1};
  const auto block = [&](int64_t i, int64_t j) { return Box((i * 128 * 1024 + j * 128) * 4, dims, strides, 2, 4); };
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) regions.visit(block(i, j), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 64u);
  EXPECT_EQ(regions.runs(), 0u);
  // The whole array: its blocks stay where they differ from each other, and become one where they do not.
  regions.visit(block(3, 3), [](Count& c, Range) { ++c.visits; });
  regions.visit(Box(0, 4 << 20), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 64u);
  regions.visit(Box(0, 4 << 20), [](Count& c, Range) { c = {}; });
  EXPECT_EQ(regions.regions(), 1u);
  // A block of it, wherever: beside it are boxes, of which other blocks are parts.
  regions.visit(block(3, 5), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 5u);  // and above, below, to both sides
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) regions.visit(block(j, i), [&](Count& c, Range) { c.last = i * 8 + j; });
  EXPECT_EQ(regions.regions(), 64u);
  EXPECT_EQ(regions.runs(), 0u);
  // A box across two of them: rows.
  regions.visit(Box(4 * 64, 4 * 192), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 62u);
  EXPECT_EQ(regions.runs(), 258u);
}

TEST(Regions, ElementsGrowTogether) {
  Regions<Count> regions;
  for (int64_t i = 0; i < 1000; ++i) regions.visit(Box(4 * i, 4 * i + 4), [](Count& c, Range) { c.visits = 1; });
  EXPECT_EQ(regions.runs(), 1u);
  for (int64_t i = 0; i < 1000; ++i) regions.visit(Box(4 * i, 4 * i + 4), [](Count& c, Range) { c.visits = 2; });
  EXPECT_EQ(regions.runs(), 1u);
  EXPECT_EQ(regions.regions(), 0u);
  EXPECT_LT(regions.memory(), 1000);
}

TEST(Clock, JoinsAsMapsDo) {
  Random rng(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Clock> clocks(6);
    std::vector<std::map<Actor, int64_t>> naive(6);
    for (int n = 0; n < 300; ++n) {
      const auto i = static_cast<size_t>(rng.below(6)), j = static_cast<size_t>(rng.below(6));
      if (rng.below(3) > 0) {
        const Epoch e{static_cast<Actor>(rng.below(60) - 20), 1 + rng.below(50)};
        clocks[i].raise(e);
        naive[i][e.actor] = std::max(naive[i][e.actor], e.time);
      } else {
        clocks[i].join(clocks[j]);
        for (const auto& [a, t] : std::map(naive[j])) naive[i][a] = std::max(naive[i][a], t);
      }
      ASSERT_EQ(clocks[i].size(), naive[i].size());
      for (Actor a = -25; a < 45; ++a) ASSERT_EQ(clocks[i].at(a), naive[i].count(a) ? naive[i][a] : 0);
      ASSERT_EQ(clocks[i] == clocks[j], naive[i] == naive[j]);
    }
  }
}

TEST(Order, ThousandsOfThreadsShareWhatABarrierTellsThem) {
  constexpr int32_t kThreads = 2304;
  Order order;
  for (int64_t phase = 0; phase < 3; ++phase) {
    for (int32_t t = 0; t < kThreads; ++t) order.now(t), order.arrive(t, 0);
    order.end_phase(0);
    for (int32_t t = 0; t < kThreads; ++t) order.passed(t, 0, phase);
  }
  const Epoch e = order.now(7);
  EXPECT_FALSE(order.ordered(e, 8));
  order.signal(7, 1, 1);
  order.take(8, 1, 1);
  EXPECT_TRUE(order.ordered(e, 8));
  EXPECT_FALSE(order.ordered(e, 9));
  EXPECT_LT(order.memory(), 4 << 20);  // n * n entries of 16 bytes would be 85 MB
}

// One element of an instance.
Access element(Actor who, bool write, int32_t site, int64_t offset = 0) {
  static const int64_t one = 1;
  Access a;
  a.who = who;
  a.offset = offset;
  a.dims = a.strides = &one;
  a.rank = 1;
  a.element_bytes = 4;
  a.write = write;
  a.site = site;
  return a;
}

TEST(Order, UnitsAreTakenInTheOrderOfSignals) {
  Order order;
  Races races;
  races.access(order, element(0, true, 1, 0));
  races.access(order, element(1, true, 2, 4));
  order.signal(0, 5, 1);
  order.signal(1, 5, 1);
  order.look(3, 5, 1);
  order.take(2, 5, 1);
  races.access(order, element(2, false, 3, 0));
  races.access(order, element(3, false, 4, 0));
  EXPECT_TRUE(races.found().empty());
  races.access(order, element(2, false, 5, 4));  // one unit was enough: the second signaller may come later
  ASSERT_EQ(races.found().size(), 1u);
  EXPECT_EQ(races.found()[0], (Race{Race::Kind::Unordered, {1, false, 2, true, false}, {2, false, 5, false, false}, 0, {4, 8}}));
  order.take(2, 5, 1);
  races.access(order, element(2, true, 6, 4));
  EXPECT_EQ(races.found().size(), 1u);
}

TEST(Order, NegativeSignalsTake) {
  Order order;
  Races races;
  races.access(order, element(0, true, 1, 0));
  races.access(order, element(1, true, 2, 4));
  order.signal(2, 5, -1);
  order.signal(0, 5, 1);  // pays
  order.signal(1, 5, 1);
  order.take(3, 5, 1);
  races.access(order, element(3, true, 3, 0));
  races.access(order, element(3, true, 4, 4));
  EXPECT_TRUE(races.found().empty());
}

TEST(Order, TheLastBytesOfACopyTell) {
  Order order;
  Races races;
  const Issued copy = order.issue(0);
  races.access(order, element(copy.writes, true, 1));
  order.signal(copy.writes, 5, 100, true);
  order.take(0, 5, 60);
  races.access(order, element(0, false, 2));
  ASSERT_EQ(races.found().size(), 1u);
  EXPECT_EQ(races.found()[0].earlier, (Party{0, true, 1, true, false}));
  order.take(0, 5, 40);
  races.access(order, element(0, true, 3));
  EXPECT_EQ(races.found().size(), 1u);
}

TEST(Order, OperationsDoNotMakeClocksGrow) {
  Order order;
  Races races;
  int64_t before = 0;
  for (int i = 0; i < 5000; ++i) {
    const Issued copy = order.issue(0, -1, false, true);
    races.access(order, element(copy.reads, false, 1, 4));
    races.access(order, element(copy.writes, true, 2));
    order.signal(copy.reads, 1, 4, true);
    order.signal(copy.writes, 2, 4, true);
    order.take(0, 1, 4);
    races.access(order, element(0, true, 3, 4));
    order.take(0, 2, 4);
    races.access(order, element(0, false, 4));
    if (i == 10) before = order.memory() + races.memory();
  }
  EXPECT_EQ(order.memory() + races.memory(), before);
  EXPECT_TRUE(races.found().empty());
}

TEST(Order, TheAsynchronousProxyNeedsAFence) {
  for (const bool fenced : {false, true}) {
    Order order(true);
    Races races;
    races.access(order, element(0, true, 1));
    if (fenced) order.fence(0);
    order.signal(0, 5, 1);
    order.take(1, 5, 1);
    const Issued store = order.issue(1);
    Access a = element(store.reads, false, 2);
    a.proxy = true;
    races.access(order, a);
    ASSERT_EQ(races.found().size(), fenced ? 0u : 1u);
    if (!fenced) {
      EXPECT_EQ(races.found()[0].kind, Race::Kind::Unfenced);
    }
  }
}

TEST(Races, AtomicsDoNotRaceWithEachOther) {
  Order order;
  Races races;
  for (Actor t = 0; t < 4; ++t) {
    Access a = element(t, true, t);
    a.atomic = true;
    races.access(order, a);
  }
  EXPECT_TRUE(races.found().empty());
  order.signal(3, 1, 1);
  order.take(4, 1, 1);
  races.access(order, element(4, false, 4));  // ordered after the last one only
  EXPECT_EQ(races.found().size(), 3u);
}

TEST(Races, MemoryThatIsGivenOutAgainForgets) {
  Order order;
  Races races;
  races.access(order, element(0, true, 1));
  races.access(order, element(0, true, 1, 4));
  races.fresh(0, 0, 4);
  races.access(order, element(1, true, 2));
  EXPECT_TRUE(races.found().empty());
  races.access(order, element(1, true, 2, 4));
  EXPECT_EQ(races.found().size(), 1u);
}

TEST(Races, TheLimitIsReported) {
  Order order;
  Races races({.max_bytes = 100000});
  int32_t n = 0;
  while (n < 100000 && races.access(order, element(0, true, 1, 8 * n))) ++n;
  ASSERT_TRUE(races.limit().has_value());
  EXPECT_GT(n, 100);
  EXPECT_LT(n, 1000);
  EXPECT_GT(races.limit()->bytes, 100000);
  EXPECT_FALSE(races.access(order, element(1, true, 2, 0)));
  EXPECT_TRUE(races.found().empty());
}

TEST(InFlight, NobodyTouchesWhatIsNotAwaited) {
  InFlight f;
  const auto copy = [&](int64_t id, int64_t offset, int64_t source_semaphore) {
    Flight x;
    x.site = 1;
    x.sides = {{0, Box(offset, offset + 4), true}, {1, Box(offset, offset + 4), false}};
    if (source_semaphore >= 0) x.after_read = {{Completion::Kind::Semaphore, source_semaphore, 4}};
    x.after_write = {{Completion::Kind::Semaphore, 0, 4}};
    f.start(id, x);
  };
  copy(0, 0, 1);
  copy(1, 4, -1);
  Access source = element(0, false, 2);
  source.instance = 1;
  f.access(source, 0);
  EXPECT_TRUE(f.found().empty());  // both read it
  source.write = true;
  f.access(source, 0);
  ASSERT_EQ(f.found().size(), 1u);
  EXPECT_EQ(f.found()[0], (InFlightUse{0, 1, {0, false, 2, true, false}, false, 4, 1, {0, 4}}));
  f.taken(1, 4);
  source.site = 3;
  f.access(source, 0);
  EXPECT_EQ(f.found().size(), 1u);
  f.taken(0, 6);
  f.access(element(0, false, 4), 0);
  EXPECT_EQ(f.found().size(), 1u);  // the first copy is awaited
  f.access(element(0, false, 5, 4), 0);
  ASSERT_EQ(f.found().size(), 2u);
  EXPECT_EQ(f.found()[1].owed, 2);
  f.taken(0, 2);
  EXPECT_TRUE(f.empty());
}

TEST(InFlight, PhasesAndGroupsFree) {
  InFlight f;
  Flight load;
  load.site = 1;
  load.sides = {{0, Box(0, 4), true}};
  load.after_write = {{Completion::Kind::Barrier, 3}};
  f.start(0, load);
  f.saw_phase(3, 5);
  EXPECT_FALSE(f.empty());
  f.counted(0, 3, 6);
  f.saw_phase(3, 5);
  EXPECT_FALSE(f.empty());
  f.saw_phase(3, 6);
  EXPECT_TRUE(f.empty());
  Flight store;
  store.site = 2;
  store.sides = {{0, Box(0, 4), false}, {1, Box(0, 4), true}};
  store.after_read = store.after_write = {{Completion::Kind::Group, 7, 1, 0}};
  f.start(1, store);
  f.access(element(0, true, 3), 0);
  EXPECT_EQ(f.found().size(), 1u);
  f.saw_groups(7, 0, true);
  f.access(element(0, true, 4), 0);
  EXPECT_EQ(f.found().size(), 1u);
  EXPECT_FALSE(f.empty());
  f.saw_groups(7, 0, false);
  EXPECT_TRUE(f.empty());
}

TEST(Written, AgreesWithBytes) {
  Random rng(4);
  for (int round = 0; round < 300; ++round) {
    Written w;
    Bytes naive;
    for (int n = 0; n < 40; ++n) {
      const View v = rng.view();
      const Bytes bytes = bytes_of(v);
      const Box box = box_of(v);
      const int64_t what = rng.below(8);
      if (what < 4) {
        w.write(box);
        naive.insert(bytes.begin(), bytes.end());
      } else if (what == 4) {
        w.clear(box);
        for (int64_t b : bytes) naive.erase(b);
      }
      ASSERT_EQ(w.any(box), meet(bytes, naive));
      Written::Missing want;
      for (const Range& r : box.rows())
        for (int64_t at = r.begin; at < r.end; at += 4)
          if (!naive.count(at)) {
            if (want.first < 0) want.first = at;
            ++want.elements;
          }
      ASSERT_EQ(w.missing(box, 4), want) << round << " " << n;
    }
  }
}

TEST(Claims, AgreesWithEveryPair) {
  Random rng(6);
  struct Seen {
    int64_t unit;
    bool write, atomic;
    int32_t site;
    Bytes bytes;
  };
  int shared = 0;
  for (int round = 0; round < 500; ++round) {
    const bool kept = rng.below(4) == 0;
    Claims claims;
    std::vector<Seen> seen;
    const int64_t units = 1 + rng.below(4);
    std::set<int64_t> met, told;
    std::set<std::pair<int32_t, int32_t>> pairs;
    for (int32_t n = 0; n < 12; ++n) {
      const View v = rng.view();
      Access a;
      a.offset = v.offset, a.dims = v.dims.data(), a.strides = v.strides.data();
      a.rank = static_cast<int>(v.dims.size()), a.element_bytes = static_cast<int>(v.element);
      a.write = rng.below(3) == 0, a.atomic = !kept && rng.below(4) == 0, a.site = n;
      const Seen now{rng.below(units), a.write, a.atomic, n, bytes_of(v)};
      const size_t before = claims.found().size();
      claims.access(now.unit, a, kept);
      bool any = false;
      for (int64_t b : now.bytes) {
        const Seen* last_writer = nullptr;
        for (const Seen& s : seen) {
          if (!s.bytes.count(b)) continue;
          if (s.write) last_writer = &s;
          if (kept || s.unit == now.unit || !(s.write || now.write) || (s.atomic && now.atomic)) continue;
          any = true;
          pairs.insert({s.site, n});
        }
        if (kept && !now.write && last_writer && last_writer->unit != now.unit) any = true, pairs.insert({last_writer->site, n});
      }
      ASSERT_EQ(claims.found().size() > before, any) << round << " " << n;
      for (size_t i = before; i < claims.found().size(); ++i) {
        const Shared& s = claims.found()[i];
        EXPECT_TRUE(pairs.count({s.earlier.site, s.later.site})) << round;
        EXPECT_EQ(s.later.unit, now.unit);
      }
      shared += any;
      seen.push_back(now);
    }
  }
  EXPECT_GT(shared, 500);
}

}  // namespace
}  // namespace pallasim::memory::shadow
