#include <gtest/gtest.h>

#include <random>

#include "pallasim/memory/allocation.h"
#include "pallasim/memory/interval_set.h"
#include "pallasim/memory/saturate.h"
#include "pallasim/memory/semaphores.h"
#include "pallasim/memory/uninitialized.h"
#include "pallasim/memory/window.h"

namespace pallasim::memory {
namespace {

TEST(Semaphores, WaitTakesAndSignalWakes) {
  Semaphores s(2);
  std::vector<int32_t> woken;
  EXPECT_FALSE(s.wait(1, 2, true, 7));
  s.signal(1, 1, &woken);
  EXPECT_EQ(woken, (std::vector<int32_t>{7}));  // it tries again
  EXPECT_FALSE(s.wait(1, 2, true, 7));
  s.signal(1, 3, &woken);
  EXPECT_TRUE(s.wait(1, 2, true, 7));
  EXPECT_EQ(s.count(1), 2);
  EXPECT_TRUE(s.wait(1, 2, false, 7));
  EXPECT_EQ(s.count(1), 2);
  EXPECT_EQ(s.count(0), 0);
}

TEST(Semaphores, SignalsDoNotWrap) {
  Semaphores s(1);
  std::vector<int32_t> woken;
  s.signal(0, INT64_MAX, &woken);
  s.signal(0, INT64_MAX, &woken);
  EXPECT_EQ(s.count(0), INT64_MAX);
}

TEST(SemaphoreLayout, IdsAndNames) {
  SemaphoreLayout l;
  const int own = l.add("own", 2, Level::Thread), shared = l.add("shared", 3, Level::Device);
  l.set_units(Units(4));
  EXPECT_EQ(l.total(1), 3 + 2 * 4);
  int block = -1;
  EXPECT_EQ(l.name(l.id(shared, 2, 0), 1, &block), "shared[2]");
  EXPECT_EQ(block, shared);
  EXPECT_EQ(l.name(l.id(own, 1, 3), 1, &block), "own[1] of thread 3");
  EXPECT_EQ(block, own);
  EXPECT_EQ(l.id(own, 0, 1), 2);
  EXPECT_EQ(l.id_of_unit(own, 0, 0, 1), 2);
  // Thread 5 of 8 is thread 1 of the second of two devices.
  EXPECT_EQ(l.total(2), 2 * l.total(1));
  EXPECT_EQ(l.id(own, 0, 5), l.total(1) + 2);
  EXPECT_EQ(l.name(l.id(own, 1, 5), 2, &block), "own[1] of thread 1 on device 1");
  EXPECT_EQ(l.name(l.id(shared, 0, 5), 2, &block), "shared[0] of device 1");
  EXPECT_EQ(block, shared);
}

TEST(SemaphoreLayout, CoresOwnTheirs) {
  Mesh m;
  m.cores = {2};
  m.threads = 3;
  m.core = "SparseCore", m.thread = "subcore";
  SemaphoreLayout l;
  const int own = l.add("own", 1, Level::Thread), core = l.add("core", 2, Level::Core);
  l.set_units(Units({m}));
  EXPECT_EQ(l.total(1), 6 + 4);
  EXPECT_EQ(l.id(core, 1, 0), l.id(core, 1, 2));  // subcores of one SparseCore
  EXPECT_NE(l.id(core, 1, 2), l.id(core, 1, 3));
  int block = -1;
  EXPECT_EQ(l.name(l.id(core, 1, 5), 1, &block), "core[1] of SparseCore 1");
  EXPECT_EQ(l.name(l.id(own, 0, 4), 1, &block), "own of subcore 1 of SparseCore 1");
}

TEST(Allocations, AddressesDecode) {
  Allocations all;
  all.add({"acc", ir::Space::Vmem, Level::Thread, Allocation::Lifetime::Launch, 2, 64, 128, ir::DType::F32, {32}});
  all.add({"", ir::Space::Vmem, Level::Thread, Allocation::Lifetime::Scope, 2, 192, 64, ir::DType::I8, {64}});
  all.add({"tmp", ir::Space::Vmem, Level::Thread, Allocation::Lifetime::Scope, 2, 192, 32, ir::DType::I8, {32}});
  all.add({"shared", ir::Space::VmemShared, Level::Core, Allocation::Lifetime::Launch, 7, 0, 16, ir::DType::F32, {4}});
  EXPECT_EQ(all.at(2, 0), nullptr);
  EXPECT_EQ(all.at(2, 191)->name, "acc");
  EXPECT_EQ(all.at(2, 192)->name, "tmp");  // two scopes: the one that has a name
  EXPECT_EQ(all.at(2, 230)->bytes, 64);
  EXPECT_EQ(all.at(2, 256), nullptr);
  EXPECT_EQ(all.at(7, 15)->name, "shared");
  EXPECT_FALSE(all.at(7, 15)->private_to_thread());
  EXPECT_EQ(owner_level(ir::Scope::Thread, ir::Space::VmemShared), Level::Core);
  EXPECT_EQ(owner_level(ir::Scope::SubcoreGroup, ir::Space::Vmem), Level::Core);
  EXPECT_EQ(owner_level(ir::Scope::Thread, ir::Space::Vmem), Level::Thread);
  EXPECT_EQ(owner_level(ir::Scope::Grid, ir::Space::Vmem), Level::Device);
}

TEST(IntervalSet, GapsAreWhatNobodyWrote) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 300; ++round) {
    const int64_t size = 1 + static_cast<int64_t>(rng() % 60);
    IntervalSet c;
    std::vector<bool> written(static_cast<size_t>(size)), seen(static_cast<size_t>(size), true);
    for (auto n = rng() % 12; n-- > 0;) {
      const auto begin = static_cast<int64_t>(rng() % static_cast<uint64_t>(size));
      const auto end = begin + static_cast<int64_t>(rng() % static_cast<uint64_t>(size - begin + 1));
      c.add(begin, end);
      for (int64_t i = begin; i < end; ++i) written[static_cast<size_t>(i)] = true;
    }
    int64_t last = -1;
    c.for_gaps(size, [&](int64_t begin, int64_t end) {
      EXPECT_LT(last, begin);
      EXPECT_LT(begin, end);
      last = end;
      for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] = false;
    });
    EXPECT_EQ(seen, written) << round;
  }
}

TEST(Window, ClipsAtBothEnds) {
  const int64_t array[] = {10, 8}, block[] = {4, 8}, low[] = {-1, 0}, high[] = {8, 0}, inside[] = {4, 0},
                outside[] = {10, 0};
  Clip c = clip(array, block, low);
  EXPECT_EQ(c.count[0], 3);
  EXPECT_EQ(c.block_offset, 8);
  EXPECT_EQ(c.array_offset, 0);
  EXPECT_FALSE(c.full || c.empty);
  c = clip(array, block, high);
  EXPECT_EQ(c.count[0], 2);
  EXPECT_EQ(c.array_offset, 64);
  EXPECT_TRUE(clip(array, block, inside).full);
  EXPECT_TRUE(clip(array, block, outside).empty);
}

TEST(Uninitialized, EveryDtypeHasAPattern) {
  for (int i = 0; i < ir::kNumDTypes; ++i) {
    const auto t = static_cast<ir::DType>(i);
    const Element nan = uninitialized(t, Fill::Nan), zero = uninitialized(t, Fill::Zero);
    EXPECT_EQ(zero.bits[0], 0u);
    const bool marked = ir::is_signed_int(t) || ir::is_complex(t) || t == ir::DType::Bool ||
                        (ir::is_float(t) && t != ir::DType::F4E2M1FN);
    EXPECT_EQ(nan.bits[0] != 0, marked) << ir::name(t);
  }
  EXPECT_EQ(uninitialized(ir::DType::F32, Fill::Nan).bits[0], 0x7fc00000u);
}

TEST(Saturate, SticksAtTheEnds) {
  EXPECT_EQ(mul(INT64_MAX, 2), INT64_MAX);
  EXPECT_EQ(mul(INT64_MIN, 2), INT64_MIN);
  EXPECT_EQ(add(INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(add(3, -5), -2);
}

}  // namespace
}  // namespace pallasim::memory
