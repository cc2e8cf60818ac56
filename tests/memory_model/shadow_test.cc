#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "pallasim/memory/shadow/claims.h"
#include "pallasim/memory/shadow/races.h"
#include "views.h"

namespace pallasim::memory::shadow {
namespace {

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
  EXPECT_EQ(races.found()[0],
            (Race{Race::Kind::Unordered, {1, false, 2, true, false}, {2, false, 5, false, false}, 0, {4, 8}}));
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
    const Issued copy = order.issue(0, -1, StreamOrder::unordered, true);
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
    if (!fenced) { EXPECT_EQ(races.found()[0].kind, Race::Kind::Unfenced); }
  }
}

TEST(Order, ProductsComeBehindCopiesAndProductsIntoTheSameSums) {
  using enum StreamOrder;
  // What two operations that write to one place may count on, issued by threads that meet at a barrier or are one.
  struct Case {
    StreamOrder first, second;
    bool same_sums, ordered;
  };
  for (const Case& c : {Case{fed, piped, true, true}, Case{piped, piped, true, true}, Case{piped, piped, false, false},
                        Case{piped, fed, true, false}, Case{fed, fed, true, false}, Case{alone, alone, true, false},
                        Case{ordered, ordered, true, true}})
    for (const int other : {0, 1})
      for (const bool tensor : {false, true}) {
        Order order;
        Races races;
        const Issued first = order.issue(0, 0, c.first, false, {1});
        races.access(order, element(first.writes, true, 1));
        order.arrive(0, 5, tensor);
        order.end_phase(5);
        order.passed(1, 5, 0);
        const Issued second = order.issue(other, other, c.second, false, {c.same_sums ? 1 : 2});
        races.access(order, element(second.writes, true, 2));
        const bool told = other == 0 || (tensor && c.first != ordered);
        EXPECT_EQ(races.found().size(), c.ordered && told ? 0u : 1u)
            << static_cast<int>(c.first) << static_cast<int>(c.second) << other << tensor;
        // Who awaits the second knows that the first is complete, too.
        order.arrive(second.writes, 6);
        order.end_phase(6);
        order.passed(2, 6, 0);
        races.access(order, element(2, false, 3));
        EXPECT_EQ(races.found().size(), c.ordered && told ? 0u : 1u);
      }
}

// Two writes may leave the same bytes: both are remembered until it is known that they do not.
TEST(Races, PairsOfWritesAreToldApart) {
  Order order;
  Races races({INT64_MAX, false, true});
  const auto sites = [&] {
    std::vector<std::pair<int, int>> r;
    for (const auto& [race, earlier] : races.writes()) r.emplace_back(race.earlier.site, race.later.site);
    return r;
  };
  using Sites = std::vector<std::pair<int, int>>;
  races.access(order, element(0, true, 1));
  EXPECT_TRUE(races.writes().empty());
  races.access(order, element(1, true, 2));
  EXPECT_EQ(sites(), (Sites{{1, 2}}));
  EXPECT_EQ(races.writes()[0].second, 0);
  races.access(order, element(1, true, 3));  // behind its own write, not behind the other one
  EXPECT_EQ(sites(), (Sites{{1, 3}}));
  order.signal(1, 0, 1);
  order.take(2, 0, 1);
  races.access(order, element(2, true, 4));
  EXPECT_EQ(sites(), (Sites{{1, 4}}));
  EXPECT_TRUE(races.found().empty());
  order.signal(2, 1, 1);
  order.take(3, 1, 1);
  races.access(order, element(3, false, 5));  // knows of all but the first
  ASSERT_EQ(races.found().size(), 1u);
  EXPECT_EQ(races.found()[0].earlier.site, 1);
  EXPECT_TRUE(races.writes().empty());
  Access atomic = element(3, true, 6);
  atomic.atomic = true;
  races.access(order, atomic);
  ASSERT_EQ(races.found().size(), 2u);
  EXPECT_EQ(races.found()[1].earlier.site, 1);
  order.signal(0, 2, 1);
  order.take(3, 2, 1);
  races.access(order, element(3, true, 7));  // knows of all
  EXPECT_TRUE(races.writes().empty());
  EXPECT_EQ(races.found().size(), 2u);

  races.access(order, element(0, true, 8, 4));
  races.access(order, element(1, true, 9, 4));
  ASSERT_EQ(sites(), (Sites{{8, 9}}));
  const Race differ = races.writes()[0].first;
  EXPECT_FALSE(races.told(differ));
  EXPECT_TRUE(races.differ(differ));
  EXPECT_TRUE(races.told(differ));
  EXPECT_FALSE(races.differ(differ));
  EXPECT_EQ(races.found().size(), 3u);
  races.access(order, element(0, true, 8, 4));  // told of
  EXPECT_TRUE(races.writes().empty());
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

// Random nests of loops without an order of their trips, against every pair of accesses. Every second loop has order.
TEST(Races, TripsMeetAsEveryPairDoes) {
  struct Done {
    std::vector<std::pair<int, int>> at;  // loops around it that have no order, and their trips
    bool write;
    int64_t place;
  };
  Random rng(11);
  size_t racy = 0;
  for (int round = 0; round < 300; ++round) {
    Order order;
    Races races({INT64_MAX, true});
    std::vector<Done> all;
    std::vector<std::pair<int, int>> here;
    int loops = 0;
    const std::function<void(int)> nest = [&](int depth) {
      for (int64_t n = rng.below(4); n >= 0; --n) {
        const Done d{here, rng.below(3) == 0, 4 * rng.below(12)};
        ASSERT_TRUE(races.access(order, element(0, d.write, static_cast<int32_t>(all.size()), d.place)));
        all.push_back(d);
        if (depth == 3 || rng.below(3) > 0) continue;
        const bool unordered = loops % 2 == 0;
        if (unordered) order.begin_trips(0), here.emplace_back(loops, 0);
        ++loops;
        for (int64_t trips = rng.below(4); trips >= 0; --trips) {
          if (unordered) order.next_trip(0), ++here.back().second;
          nest(depth + 1);
        }
        if (unordered) order.end_trips(0), here.pop_back();
      }
    };
    nest(0);
    std::set<int64_t> want, got;
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        if (all[i].place != all[j].place || !(all[i].write || all[j].write)) continue;
        for (const auto& [loop, trip] : all[i].at)
          for (const auto& [other, at] : all[j].at)
            if (loop == other && trip != at) want.insert(all[i].place);
      }
    for (const Race& r : races.found()) got.insert(r.bytes.begin);
    ASSERT_EQ(got, want) << "round " << round;
    racy += want.size();
  }
  EXPECT_GT(racy, 300U);
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

TEST(Order, ABarrierThatBeginsAgainForgetsItsPhases) {
  for (const bool renewed : {true, false}) {
    Order order;  // of thread 1, which passes phase 0, thread 0's arrival was before
    order.arrive(1, 0);
    order.end_phase(0);
    order.passed(1, 0, 0);
    if (renewed) order.renew(0);
    const Epoch written = order.now(0);
    order.arrive(0, 0);
    order.end_phase(0);
    order.passed(1, 0, 0);
    EXPECT_EQ(order.ordered(written, 1), renewed);
  }
}

TEST(Order, APhaseMayEndBeforeTheOneBeforeWasSeen) {
  for (const bool knows : {true, false}) {
    Order order;  // thread 0 waits for barrier 0 at which thread 1 arrives
    order.arrive(1, 0);
    EXPECT_TRUE(order.may_miss(0).empty());
    order.end_phase(0);
    order.passed(0, 0, 0);
    order.signal(0, 5, 1);
    if (knows) order.take(1, 5, 1);
    order.arrive(1, 0);
    EXPECT_EQ(order.may_miss(0), knows ? std::vector<int32_t>{} : std::vector<int32_t>{0});
    order.end_phase(0);
    order.arrive(1, 0);
    EXPECT_TRUE(order.may_miss(0).empty());  // what it did not see for long is told of where it happens
  }
  Order order;  // of two that meet each knows of its own wait, and of the other's by what that one does next
  for (int64_t phase = 0; phase < 3; ++phase) {
    order.arrive(0, 0), order.arrive(1, 0);
    EXPECT_TRUE(order.may_miss(0).empty());
    order.end_phase(0);
    order.passed(0, 0, phase), order.passed(1, 0, phase);
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
      const ArrayView v = rng.view();
      Access a;
      a.offset = v.offset, a.dims = v.dims.data(), a.strides = v.strides.data();
      a.rank = static_cast<int>(v.dims.size()), a.element_bytes = static_cast<int>(v.element);
      a.write = rng.below(3) == 0, a.atomic = !kept && rng.below(4) == 0, a.site = n;
      const Seen now{rng.below(units), a.write, a.atomic, n, bytes_of(v)};
      const size_t before = claims.found().size();
      claims.access(now.unit, a, kept);
      // Is there a byte that it reads, of which another unit's plain or atomic write is the last one, or is none?
      const auto some_left = [&](bool wanted, Range in) {
        return std::any_of(now.bytes.begin(), now.bytes.end(), [&](int64_t b) {
          bool left = false;
          for (const bool atomic : {false, true}) {
            const auto last = std::find_if(seen.rbegin(), seen.rend(), [&](const Seen& s) {
              return s.write && s.atomic == atomic && s.bytes.count(b) > 0;
            });
            left = left || (last != seen.rend() && last->unit != now.unit);
          }
          return b >= in.begin && b < in.end && (left && !now.write) == wanted;
        });
      };
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
        if (kept && !now.write && last_writer && last_writer->unit != now.unit)
          any = true, pairs.insert({last_writer->site, n});
      }
      ASSERT_EQ(claims.found().size() > before, any) << round << " " << n;
      for (size_t i = before; i < claims.found().size(); ++i) {
        const Shared& s = claims.found()[i];
        EXPECT_TRUE(pairs.count({s.earlier.site, s.later.site})) << round;
        EXPECT_EQ(s.later.unit, now.unit);
        EXPECT_TRUE(some_left(s.carries, s.bytes)) << round << " " << n;
      }
      shared += any;
      seen.push_back(now);
    }
  }
  EXPECT_GT(shared, 500);
}

}  // namespace
}  // namespace pallasim::memory::shadow
