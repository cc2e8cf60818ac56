// Units and their names, barriers, streams, operations in flight.
#include <gtest/gtest.h>

#include <set>

#include "pallasim/memory/async.h"
#include "pallasim/memory/barriers.h"
#include "pallasim/memory/semaphores.h"
#include "pallasim/memory/streams.h"
#include "pallasim/memory/units.h"

namespace pallasim::memory {
namespace {

TEST(Units, PlainThreadsHaveTheNamesTheyHad) {
  EXPECT_EQ(Units(1).name(Level::Thread, 0), "thread 0");
  EXPECT_EQ(Units(4).name(Level::Thread, 3), "thread 3");
  EXPECT_EQ(Units(1, 2).name(Level::Thread, 1), "device 1");
  EXPECT_EQ(Units(4, 2).name(Level::Thread, 7), "thread 3 of device 1");
  EXPECT_EQ(Units(4, 2).name(Level::Device, 1), "device 1");
  // What follows a semaphore's name, for every number of threads and devices.
  for (const int64_t threads : {1, 2, 5})
    for (const int64_t devices : {1, 3}) {
      SemaphoreLayout semaphores;
      const int own = semaphores.add("s", 1, Level::Thread), shared = semaphores.add("s", 1, Level::Device);
      semaphores.set_units(Units(threads));
      const Units units(threads, devices);
      int block = -1;
      for (int64_t t = 0; t < threads * devices; ++t) {
        EXPECT_EQ("s" + units.of(Level::Thread, t), semaphores.name(semaphores.id(own, 0, t), devices, &block));
        EXPECT_EQ("s" + units.of(Level::Device, units.unit_of(Level::Device, t)),
                  semaphores.name(semaphores.id(shared, 0, t), devices, &block));
      }
    }
}

Mesh tensor_cores() {
  Mesh m;
  m.cores = {2};
  m.core = "TensorCore";
  return m;
}
Mesh sparse_cores() {
  Mesh m;
  m.cores = {2};
  m.threads = 5;
  m.core = "SparseCore", m.thread = "subcore", m.first_thread = "scalar subcore";
  return m;
}
Mesh ctas() {
  Mesh m;
  m.clusters = {3, 2};
  m.cores = {2};
  m.threads = 2;
  m.warps = 4;
  m.core = "CTA", m.thread = "warpgroup";
  m.core_axes = {"x"};
  return m;
}
Mesh pairs() {
  Mesh m = ctas();
  m.cores = {2, 4};
  m.core_axes = {"x", "y"};
  m.paired = 2;
  return m;
}

TEST(Units, NamesAsUsersSayThem) {
  const Units sparse({sparse_cores()}), both({tensor_cores(), sparse_cores()}, 2), gpu({ctas()});
  EXPECT_EQ(sparse.name(Level::Thread, 9), "subcore 3 of SparseCore 1");
  EXPECT_EQ(sparse.name(Level::Thread, 5), "scalar subcore of SparseCore 1");
  EXPECT_EQ(sparse.name(Level::Core, 1), "SparseCore 1");
  EXPECT_EQ(both.name(Level::Thread, 1), "TensorCore 1 of device 0");
  EXPECT_EQ(both.name(Level::Thread, 12 + 2 + 9), "subcore 3 of SparseCore 1 of device 1");
  EXPECT_EQ(gpu.name(Level::Thread, (2 * 2 * 2 + 1) * 2 + 1), "cluster (2,0), CTA x=1, warpgroup 1");
  EXPECT_EQ(gpu.name(Level::Core, 2 * 2 * 2 + 1), "cluster (2,0), CTA x=1");
  EXPECT_EQ(gpu.name(Level::Cluster, 5), "cluster (2,1)");
  EXPECT_EQ(gpu.name(Level::Warp, 6), "cluster (0,0), CTA x=0, warpgroup 1, warp 2");
  Mesh plain = ctas();
  plain.clusters.clear();
  EXPECT_EQ(Units({plain}).name(Level::Thread, 3), "warpgroup 1 of CTA x=1");
}

TEST(Units, ThreadsBelowAUnitFollowEachOther) {
  for (const Units& u : {Units(3, 2), Units({tensor_cores(), sparse_cores()}, 3), Units({ctas(), tensor_cores()}, 2),
                         Units({pairs(), ctas()}, 2)}) {
    for (const Level l : {Level::Device, Level::Cluster, Level::Pair, Level::Core, Level::Thread}) {
      int64_t next = 0;
      for (int64_t unit = 0; unit < u.count(l); ++unit) {
        const Units::Threads t = u.threads_of(l, unit);
        EXPECT_EQ(t.first, next);
        EXPECT_GT(t.count, 0);
        for (int64_t i = t.first; i < t.first + t.count; ++i) EXPECT_EQ(u.unit_of(l, i), unit);
        EXPECT_EQ(u.device_of(l, unit), u.device_of(Level::Thread, t.first));
        next += t.count;
      }
      EXPECT_EQ(next, u.count(Level::Thread));
    }
    for (int64_t w = 0; w < u.count(Level::Warp); ++w) {
      const Units::Threads t = u.threads_of(Level::Warp, w);
      EXPECT_EQ(t.count, 1);
      EXPECT_LE(u.unit_of(Level::Warp, t.first), w);
      EXPECT_GT(u.unit_of(Level::Warp, t.first) + 4, w);
    }
  }
}

// Two neighbours along the last axis of a cluster; where there are no pairs, each CTA by itself.
TEST(Units, CtasOfAClusterComeInPairs) {
  const Units u({pairs()}), single({ctas()});
  EXPECT_EQ(u.count(Level::Pair), 3 * 2 * 4);
  const int64_t last = u.count(Level::Pair) - 1;
  EXPECT_EQ(u.threads_of(Level::Pair, last), (Units::Threads{last * 4, 4}));
  EXPECT_EQ(u.name(Level::Pair, last), "cluster (2,1), CTA pair 3");
  // CTAs (x=1, y=2) and (x=1, y=3) of cluster (0,1), and their neighbours before them.
  const int64_t cta = 8 + 4 + 2;
  EXPECT_EQ(u.name(Level::Core, cta), "cluster (0,1), CTA x=1, y=2");
  EXPECT_EQ(u.unit_of(Level::Pair, cta * 2), u.unit_of(Level::Pair, (cta + 1) * 2 + 1));
  EXPECT_NE(u.unit_of(Level::Pair, cta * 2), u.unit_of(Level::Pair, (cta - 1) * 2 + 1));
  EXPECT_EQ(single.count(Level::Pair), single.count(Level::Core));
  EXPECT_EQ(single.name(Level::Pair, 9), single.name(Level::Core, 9));
}

class OneBarrier : public testing::Test {
 protected:
  Barriers b{{Barrier{.expected = 2}}};
  std::vector<int32_t> woken;
  int64_t seen = 0, late = 0;
};

TEST_F(OneBarrier, APhaseEndsWhenAllArrivedAndNoBytesAreDue) {
  EXPECT_FALSE(b.wait(0, &seen, 7));
  EXPECT_FALSE(b.deliver(0, 64, &woken));  // before they are expected
  EXPECT_EQ(b[0].bytes_due, -64);
  EXPECT_FALSE(b.arrive_expecting(0, 128, 1, &woken));
  EXPECT_FALSE(b.arrive(0, 1, 2, &woken));
  EXPECT_TRUE(woken.empty());
  EXPECT_TRUE(b.deliver(0, 64, &woken));
  EXPECT_EQ(woken, (std::vector<int32_t>{7}));
  EXPECT_TRUE(b.wait(0, &seen, 7));
  EXPECT_EQ(seen, 1);
  EXPECT_FALSE(b.test(0, &seen, 7));
  EXPECT_TRUE(b.findings().empty());
  EXPECT_TRUE(b.left_over(0).empty());
}

TEST_F(OneBarrier, WhoComesTooOften) {
  b.expect(0, 8, &woken);
  EXPECT_FALSE(b.arrive(0, 2, 1, &woken));
  EXPECT_FALSE(b.arrive(0, 1, 3, &woken));
  using Kind = BarrierFinding::Kind;
  EXPECT_EQ(b.findings(), (std::vector<BarrierFinding>{{Kind::OverArrival, 0, 0, 1, 3}}));
  EXPECT_EQ(b.left_over(0),
            (std::vector<BarrierFinding>{{Kind::BytesLeft, 0, 0, 8, -1}, {Kind::ArrivalsLeft, 0, 0, 2, -1}}));
}

TEST_F(OneBarrier, EndsThatNobodyWaitedFor) {
  using Kind = BarrierFinding::Kind;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(b.arrive(0, 2, 1, &woken));
  EXPECT_EQ(b.findings(), (std::vector<BarrierFinding>{{Kind::Unwaited, 0, 1, 0, -1}, {Kind::Unwaited, 0, 2, 0, -1}}));
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Released, 0, 0, 3, -1}}));
  EXPECT_TRUE(b.wait(0, &seen, 4));
  EXPECT_EQ(b.findings().back(), (BarrierFinding{Kind::PassedPhase, 0, 0, 2, 4}));
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Released, 0, 1, 2, -1}}));
}

// A cluster's CTAs arrive at each other's barriers, and may all wait for one of them: that is known at the end.
TEST(ClusterBarrier, EndsThatNobodyWaitedForAreToldAtTheEnd) {
  using Kind = BarrierFinding::Kind;
  Barrier made;
  made.of_cluster = true;
  Barriers b({made});
  std::vector<int32_t> woken;
  EXPECT_TRUE(b.arrive(0, 1, 1, &woken));
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Released, 0, 0, 1, -1}}));
  EXPECT_TRUE(b.arrive(0, 1, 1, &woken));
  EXPECT_TRUE(b.findings().empty());
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Unwaited, 0, 1, 2, -1}}));
  b.init(0, 1);
  int64_t seen = 0;
  EXPECT_TRUE(b.arrive(0, 1, 1, &woken));
  EXPECT_TRUE(b.wait(0, &seen, 2));
  EXPECT_TRUE(b.arrive(0, 1, 1, &woken));
  EXPECT_TRUE(b.arrive(0, 1, 1, &woken));  // who waits at times is told at once
  EXPECT_EQ(b.findings(), (std::vector<BarrierFinding>{{Kind::Unwaited, 0, 2, 0, -1}}));
}

TEST_F(OneBarrier, EndsOfCopiesThatNobodyWaitedFor) {
  using Kind = BarrierFinding::Kind;
  b.expect(0, 8, &woken);
  b.arrive(0, 2, 1, &woken);
  EXPECT_TRUE(b.deliver(0, 8, &woken));
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Unobserved, 0, 0, 1, -1}}));
  EXPECT_TRUE(b.wait(0, &seen, 4));
  EXPECT_TRUE(b.arrive(0, 2, 1, &woken));  // threads alone, behind it
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Released, 0, 1, 1, -1}}));
  EXPECT_TRUE(b.wait(0, &seen, 4));
  b.arrive(0, 1, 1, &woken);
  EXPECT_TRUE(b.arrive(0, 1, -1, &woken));  // of an operation
  EXPECT_EQ(b.left_over(0), (std::vector<BarrierFinding>{{Kind::Unobserved, 0, 2, 1, -1}}));
}

TEST_F(OneBarrier, ByParityTwoPhasesLookLikeNone) {
  b = Barriers({Barrier{.expected = 1, .parity = true}});
  b.arrive(0, 1, 1, &woken);
  b.arrive(0, 1, 1, &woken);
  EXPECT_FALSE(b.wait(0, &seen, 4));
  EXPECT_TRUE(b.arrive(0, 1, 1, &woken));
  EXPECT_EQ(woken, (std::vector<int32_t>{4}));
  EXPECT_TRUE(b.wait(0, &seen, 4));
  EXPECT_FALSE(b.wait(0, &late, 5) && b.wait(0, &late, 5));
}

TEST(BarrierLayout, EveryOwnerHasItsOwn) {
  BarrierLayout l(Units({ctas(), tensor_cores()}, 2));
  const int cta = l.add({.name = "full", .count = 3, .owner = Level::Core, .mesh = 0, .expected = 2});
  const int all = l.add({.name = "done", .owner = Level::Device});
  const int cluster = l.add({.owner = Level::Cluster, .mesh = 0, .parity = true});
  EXPECT_EQ(l.total(), 2 * (12 * 3 + 1 + 6));
  const Units units({ctas(), tensor_cores()}, 2);
  std::set<int64_t> ids;
  int block = -1;
  for (int64_t t = 0; t < units.count(Level::Thread); ++t) {
    if (units.mesh_of(Level::Thread, t) != 0) continue;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t id = l.id_of_thread(cta, i, t);
      ids.insert(id);
      EXPECT_EQ(l.name(id, &block),
                "full[" + std::to_string(i) + "] of " + units.name(Level::Core, units.unit_of(Level::Core, t)));
      EXPECT_EQ(block, cta);
    }
    ids.insert(l.id_of_thread(all, 0, t));
    ids.insert(l.id_of_thread(cluster, 0, t));
  }
  EXPECT_EQ(static_cast<int64_t>(ids.size()), l.total());
  EXPECT_EQ(l.name(l.id(all, 0, 1), &block), "done of device 1");
  EXPECT_EQ(l.name(l.id(cluster, 0, units.first(Level::Cluster, 0, 1)), &block),
            "barrier of cluster (0,0) of device 1");
  EXPECT_EQ(l.name(l.total(), &block), "barrier 86");
  EXPECT_EQ(block, -1);
  const Barriers b = l.make();
  EXPECT_EQ(static_cast<int64_t>(b.size()), l.total());
  EXPECT_EQ(b[l.id(cta, 0, 0)].expected, 2);
  EXPECT_TRUE(b[l.id(cluster, 0, 0)].parity);
}

TEST(Streams, GroupsCompleteInOrder) {
  Streams s({Stream{}});
  std::vector<int32_t> woken;
  const int64_t a = s.issue(0);
  EXPECT_EQ(s.commit(0), a);
  const int64_t b = s.issue(0);
  s.commit(0);
  EXPECT_EQ(b, a + 1);
  EXPECT_EQ(s.commit(0), b + 1);  // of nothing
  EXPECT_EQ(s[0].outstanding(false), 3);
  s.writes_done(0, b, false, &woken);
  EXPECT_EQ(s[0].outstanding(false), 3);
  EXPECT_FALSE(s.wait(0, 0, true, 5));
  s.reads_done(0, a, &woken);
  EXPECT_EQ(woken, (std::vector<int32_t>{5}));
  EXPECT_TRUE(s.wait(0, 0, true, 5));
  EXPECT_FALSE(s.wait(0, 2, false, 5));
  EXPECT_EQ(s.last_awaited(0, 2), a);
  s.writes_done(0, a, true, &woken);
  EXPECT_TRUE(s.wait(0, 0, false, 5));
  EXPECT_EQ(s[0].outstanding(false), 0);
  s.issue(0);
  EXPECT_EQ(s.left_over(0), (StreamLeftOver{1, 0, 0}));
  s.commit(0);
  EXPECT_EQ(s.left_over(0), (StreamLeftOver{0, 1, 1}));
}

AsyncOperation operation(int64_t id, AsyncKind kind, int64_t stream, Few<Completion> after_write) {
  AsyncOperation op;
  op.id = id, op.kind = kind, op.stream = stream, op.group = id;
  op.after_write = std::move(after_write);
  return op;
}

std::vector<int64_t> choices(const AsyncQueue& q) {
  std::vector<int64_t> r;
  for (size_t n = 0; n < q.choices(); ++n) r.push_back(q[q.choice(n)].id);
  return r;
}

TEST(AsyncQueue, WhatMovesNext) {
  AsyncQueue q;
  const Completion semaphore{Completion::Kind::Semaphore, 3, 1, 0}, barrier{Completion::Kind::Barrier, 3, 0, 64};
  using V = std::vector<int64_t>;
  EXPECT_EQ(choices(q), V{});
  q.push(operation(0, AsyncKind::dma, -1, {semaphore}));
  q.push(operation(1, AsyncKind::tcgen05_mma, 0, {}));
  q.push(operation(2, AsyncKind::tcgen05_mma, 0, {barrier}));
  q.push(operation(3, AsyncKind::tma_store, 1, {{Completion::Kind::Group, 1}}));
  q.push(operation(4, AsyncKind::tma_load, -1, {barrier}));
  EXPECT_EQ(choices(q), (V{0, 1, 3, 4}));
  const Awaited s{Completion::Kind::Semaphore, 3}, b{Completion::Kind::Barrier, 3}, other{Completion::Kind::Barrier, 4};
  EXPECT_EQ(q.next(s), 0u);
  EXPECT_EQ(q.next(b), 1u);  // what stands before it comes first
  EXPECT_EQ(q.next(other), q.size());
  EXPECT_EQ(q.next({Completion::Kind::Group, 1, 2}), q.size());  // a later group
  EXPECT_EQ(q.next({Completion::Kind::Group, 1, 3}), 3u);
  const AsyncQueue before = q;
  EXPECT_EQ(q.take(1).id, 1);
  EXPECT_FALSE(q == before);
  EXPECT_EQ(choices(q), (V{0, 2, 3, 4}));
  EXPECT_EQ(q.next(b), 1u);
  EXPECT_EQ(q.take(1).id, 2);
  EXPECT_EQ(q.next(b), 2u);
  EXPECT_EQ(choices(q), (V{0, 3, 4}));
}

TEST(AsyncQueue, SeveralReceiversEachCompleteSomething) {
  AsyncQueue q;
  q.push(operation(0, AsyncKind::tma_load, -1,
                   {{Completion::Kind::Barrier, 5, 0, 8}, {Completion::Kind::Barrier, 6, 0, 8}}));
  EXPECT_EQ(q.next({Completion::Kind::Barrier, 5}), 0u);
  EXPECT_EQ(q.next({Completion::Kind::Barrier, 6}), 0u);
  EXPECT_EQ(q.next({Completion::Kind::Barrier, 7}), 1u);
}

void shape(Side& s, Place place, std::initializer_list<int64_t> dims, std::initializer_list<int64_t> strides) {
  s.place = place;
  s.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), s.dims);
  std::copy(strides.begin(), strides.end(), s.strides);
}

TEST(AsyncOperation, RowsByAnIndexList) {
  AsyncOperation op;
  Side& s = op.writes.add();
  shape(s, {0, 5, 100}, {2, 8}, {16, 1});
  EXPECT_EQ(op.span(s).end, (16 + 8) * 4);
  s.row_dim = 0;
  op.rows = {7, 2};
  EXPECT_EQ(op.span(s).begin, 2 * 16 * 4);
  EXPECT_EQ(op.span(s).end, (7 * 16 + 8) * 4);
  AsyncQueue q;
  q.push(op);
  EXPECT_EQ(q.first_using(0, 5, 100, 228), 1u);
  EXPECT_EQ(q.first_using(0, 5, 100, 229), 0u);
  EXPECT_EQ(q.first_using(1, 5, 100, 229), 1u);
}

TEST(AsyncOperation, WhatLayInRegistersIsNotUsedAnyMore) {
  AsyncOperation op;
  shape(op.reads.add(), {0, 5, 0}, {4}, {1});
  shape(op.reads.add(), {0, 6, 0}, {4}, {-1});
  op.reads[0].held = 0;
  shape(op.writes.add(), {0, 7, 0}, {4}, {2});
  EXPECT_FALSE(op.uses(0, 5, 0, 16));
  EXPECT_TRUE(op.uses(0, 6, -12, -11));
  EXPECT_FALSE(op.uses(0, 6, 4, 16));
  EXPECT_TRUE(op.uses(0, 7, 27, 28));
  const AsyncOperation same = op;
  EXPECT_EQ(same, op);
  op.reads[1].strides[0] = 1;
  EXPECT_FALSE(same == op);
}

// The row of a kind says who takes it and what it may complete.
TEST(AsyncKinds, AStreamHasGroupsOrTellsABarrier) {
  for (const AsyncKind kind : async_kinds()) {
    const AsyncRow& r = row(kind);
    EXPECT_EQ(r.engine == AsyncEngine::None,
              r.after_write == Completion::Kind::Semaphore ||
                  (r.after_write == Completion::Kind::Barrier && r.order == StreamOrder::unordered))
        << r.name;
    EXPECT_NE(r.after_write, Completion::Kind::Nothing) << r.name;
    EXPECT_TRUE(r.engine != AsyncEngine::None || r.order == StreamOrder::unordered) << r.name;
  }
}

}  // namespace
}  // namespace pallasim::memory
