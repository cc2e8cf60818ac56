// What an access costs a checked run: 128 x 128 blocks of a 1024 x 1024 array of f32. No allocation once a block was
// seen, and the same time after thousands of steps as after a few.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "pallasim/memory/shadow/claims.h"
#include "pallasim/memory/shadow/races.h"

namespace {
int64_t allocations = 0;
}

void* operator new(size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace pallasim::memory::shadow {
namespace {

constexpr int64_t kBlock = 128, kBlocks = 8, kRow = kBlock * kBlocks, kDims[] = {kBlock, kBlock},
                  kStrides[] = {kRow, 1};
using Time = std::chrono::steady_clock;

Access block(Actor who, int64_t number, bool write) {
  Access a;
  a.who = who;
  a.offset = (number / kBlocks * kBlock * kRow + number % kBlocks * kBlock) * 4;
  a.dims = kDims, a.strides = kStrides;
  a.rank = 2, a.element_bytes = 4;
  a.write = write;
  a.site = write;
  return a;
}

struct Cost {
  double access_ns = 0, step_ns = 0;  // per access: of the look alone, and with the barrier of each step
  int64_t allocations = 0;            // in accesses of the last half of the steps
  size_t races = 0;
};

// In each step every thread reads a block and writes it; then all meet at a barrier and go on to the next block.
Cost run(int32_t threads, int64_t steps) {
  Order order;
  Races races;
  Cost c;
  Time::duration in_accesses{};
  const auto begin = Time::now();
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t before = allocations;
    const auto start = Time::now();
    for (int32_t t = 0; t < threads; ++t) {
      races.access(order, block(t, (t + s) % (kBlocks * kBlocks), false));
      races.access(order, block(t, (t + s) % (kBlocks * kBlocks), true));
    }
    in_accesses += Time::now() - start;
    if (s >= std::max(steps / 2, kBlocks * kBlocks)) c.allocations += allocations - before;
    for (int32_t t = 0; t < threads; ++t) order.arrive(t, 0);
    order.end_phase(0);
    for (int32_t t = 0; t < threads; ++t) order.passed(t, 0, s);
  }
  const auto ns = [&](Time::duration d) {
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(d).count()) /
           static_cast<double>(2 * steps * threads);
  };
  c.access_ns = ns(in_accesses);
  c.step_ns = ns(Time::now() - begin);
  c.races = races.found().size();
  return c;
}

TEST(Cost, AnAccessToABlockThatWasSeen) {
  for (const int32_t threads : {2, 64}) {
    for (const int64_t steps : {32, 512, 4096}) {
      Cost best = run(threads, steps);
      for (int again = 0; again < 2; ++again)
        if (const Cost c = run(threads, steps); c.access_ns < best.access_ns) best = c;
      std::printf("%2d threads, %4ld steps: %6.1f ns per access, %6.1f with its share of the barriers\n", threads,
                  steps, best.access_ns, best.step_ns);
      EXPECT_EQ(best.races, 0u);
      EXPECT_EQ(best.allocations, 0);
    }
  }
}

TEST(Cost, ReadersThatNothingOrders) {
  Order order;
  Races races;
  const auto all = [&] {
    for (int32_t t = 0; t < 64; ++t)
      for (int64_t b = 0; b < 4; ++b) races.access(order, block(t, b, false));
  };
  all();
  const int64_t before = allocations;
  const auto begin = Time::now();
  for (int i = 0; i < 100; ++i) all();
  const double ns = std::chrono::duration<double, std::nano>(Time::now() - begin).count() / (100 * 64 * 4);
  std::printf("64 readers of a block: %.1f ns per access\n", ns);
  EXPECT_EQ(allocations, before);
  races.access(order, block(64, 0, true));
  EXPECT_EQ(races.found().size(), 1u);  // one pair of sites
}

TEST(Cost, AGridWhoseUnitsHaveBlocksOfTheirOwn) {
  Claims claims;
  const auto all = [&] {
    for (int64_t u = 0; u < kBlocks * kBlocks; ++u)
      claims.access(u, block(0, u, false)), claims.access(u, block(0, u, true));
  };
  all();
  const int64_t before = allocations;
  const auto begin = Time::now();
  for (int i = 0; i < 100; ++i) all();
  const double ns =
      std::chrono::duration<double, std::nano>(Time::now() - begin).count() / (100 * 2 * kBlocks * kBlocks);
  std::printf("a unit's block: %.1f ns per access\n", ns);
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(claims.found().empty());
}

// The worst that a program does to regions: blocks and the whole array by turns.
TEST(Cost, BlocksAndTheWholeByTurns) {
  Order order;
  Races races;
  const int64_t whole = kRow * kRow, one = 1;
  Access all = block(0, 0, true);
  all.dims = &whole, all.strides = &one, all.rank = 1;
  const auto begin = Time::now();
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes; ++i) {
    races.access(order, all);
    for (int64_t b = 0; b < kBlocks * kBlocks; ++b) races.access(order, block(0, b, true));
  }
  const double us = std::chrono::duration<double, std::micro>(Time::now() - begin).count() / kTimes;
  std::printf("the whole and then its 64 blocks: %.0f us, %.2f ns per row of a block\n", us, us * 1000 / (64 * 128));
  EXPECT_TRUE(races.found().empty());
  EXPECT_LT(races.memory(), 1 << 20);
}

}  // namespace
}  // namespace pallasim::memory::shadow
