// Parts of a run that may use memory apart from each other.
#include "launch/conflict_detector.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "../memory_model/views.h"

namespace pallasim::interp {
namespace {

// What a reader of the rule would write: of each grain, or page, who read and who wrote it.
class Reference {
 public:
  explicit Reference(int64_t bytes, int64_t grain = ConflictDetector::kGrain) : bytes_(bytes), grain_(grain) {}
  bool use(int part, int64_t begin, int64_t end, bool write) {
    bool apart = true;
    for (int64_t b = std::max<int64_t>(begin, 0); b < std::min(end, bytes_); ++b) {
      Grain& g = grains_[b / grain_];
      const auto others = [&](const std::set<int>& s) { return s.size() > s.count(part); };
      apart = apart && !others(g.writers) && !(write && others(g.readers));
      (write ? g.writers : g.readers).insert(part);
    }
    return apart;
  }

 private:
  struct Grain {
    std::set<int> readers, writers;
  };
  int64_t bytes_, grain_;
  std::map<int64_t, Grain> grains_;
};

TEST(ConflictDetector, AgreesWithTheRule) {
  memory::shadow::Random rng(5);
  int met = 0;
  for (int round = 0; round < 3000; ++round) {
    const int64_t bytes = 1 + rng.below(400);
    std::vector<std::byte> memory(static_cast<size_t>(bytes) + 64);
    std::byte* const base = memory.data() + 32;
    ConflictDetector apart;
    apart.watch(base, bytes);
    Reference reference(bytes);
    const int64_t parts = 1 + rng.below(4), writes = rng.below(4);
    for (int n = 0; n < 20; ++n) {
      const int part = static_cast<int>(rng.below(parts));
      const int64_t begin = rng.below(bytes + 32) - 16, end = begin + rng.below(40);
      const bool write = rng.below(4) < writes, want = reference.use(part, begin, end, write);
      ASSERT_EQ(apart.use(part, base + begin, base + end, write), want) << round;
      if (!want) break;  // the run is over
      met += n == 19;
    }
  }
  EXPECT_GT(met, 300);   // rounds to the end
  EXPECT_LT(met, 2700);  // and rounds that meet
}

// Where pages are used at once nothing that meets is missed, and nobody meets who shares no page.
TEST(ConflictDetector, PagesAreTakenAtOnce) {
  constexpr int64_t kPages = 6, kPage = ConflictDetector::kPage;
  memory::shadow::Random rng(17);
  int met = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> memory(static_cast<size_t>(kPages * kPage));
    ConflictDetector apart;
    apart.watch(memory.data(), kPages * kPage);
    Reference grains(kPages * kPage), pages(kPages * kPage, kPage);
    bool apart_by_grains = true, apart_by_pages = true, now = true;
    for (int n = 0; n < 8 && now; ++n) {
      const int part = static_cast<int>(rng.below(3));
      int64_t begin = rng.below(kPages) * kPage, end = begin + kPage * (1 + rng.below(2));
      if (rng.below(3) == 0)
        begin += ConflictDetector::kGrain * rng.below(70), end -= ConflictDetector::kGrain * rng.below(70);
      end = std::min(end, kPages * kPage);
      if (begin >= end) continue;
      const bool write = rng.below(2) == 0;
      now = apart.use(part, memory.data() + begin, memory.data() + end, write);
      apart_by_grains = grains.use(part, begin, end, write) && apart_by_grains;
      apart_by_pages = pages.use(part, begin, end, write) && apart_by_pages;
      ASSERT_LE(apart_by_pages, now) << round;
      ASSERT_LE(now, apart_by_grains) << round;
    }
    met += !now;
  }
  EXPECT_GT(met, 500);
  EXPECT_LT(met, 3800);
}

// A strided region is its elements.
TEST(ConflictDetector, RegionsAreTheirElements) {
  memory::shadow::Random rng(9);
  int met = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> memory(4096);
    ConflictDetector rows, elements;
    rows.watch(memory.data(), 4096);
    elements.watch(memory.data(), 4096);
    bool apart = true;
    for (int n = 0; apart && n < 4; ++n) {
      const int64_t dims[] = {1 + rng.below(3), 1 + rng.below(4), 1 + rng.below(6)},
                    strides[] = {rng.below(200), rng.below(40), 1 + rng.below(3)};
      const int size = 1 << rng.below(3), part = static_cast<int>(rng.below(3));
      const std::byte* at = memory.data() + rng.below(1000);
      const bool write = rng.below(2) == 0;
      apart = true;
      for (int64_t i = 0; i < dims[0]; ++i)
        for (int64_t j = 0; j < dims[1]; ++j)
          for (int64_t k = 0; k < dims[2]; ++k) {
            const std::byte* e = at + (i * strides[0] + j * strides[1] + k * strides[2]) * size;
            apart = elements.use(part, e, e + size, write) && apart;
          }
      ASSERT_EQ(rows.use(part, at, dims, strides, 3, size, write), apart) << round;
    }
    met += !apart;
  }
  EXPECT_GT(met, 200);
  EXPECT_LT(met, 1800);
}

// What nobody writes holds in the end what nobody wrote, byte by byte, wherever runs begin and end.
TEST(ConflictDetector, WhatNobodyWritesIsFilled) {
  memory::shadow::Random rng(8);
  for (int round = 0; round < 300; ++round) {
    const int element = 1 << rng.below(5);
    const int64_t bytes = element * (1 + rng.below(3 * ConflictDetector::kPage / element));
    const memory::Element value{{0x1122334455667788, 0x99aabbccddeeff00}};
    std::vector<std::byte> memory(static_cast<size_t>(bytes)), want(memory.size());
    for (int64_t at = 0; at < bytes; at += element) std::memcpy(want.data() + at, &value, static_cast<size_t>(element));
    ConflictDetector apart;
    apart.watch_unwritten(memory.data(), bytes, value, element);
    for (int64_t n = rng.below(6); n > 0; --n) {
      const int64_t begin = rng.below(bytes), page = begin / ConflictDetector::kPage, most = round % 2 ? 5000 : 100;
      const int part = static_cast<int>(page % 2);
      const int64_t end = std::min({bytes, (page + 1) * ConflictDetector::kPage, begin + 1 + rng.below(most)});
      ASSERT_TRUE(apart.use(part, memory.data() + begin, memory.data() + end, true));
      for (int64_t i = begin; i < end; ++i)
        memory[static_cast<size_t>(i)] = want[static_cast<size_t>(i)] = static_cast<std::byte>(i * 7 + part);
    }
    EXPECT_FALSE(apart.use(0, memory.data(), memory.data() + 1, false));  // who reads it has to wait
    apart.fill_rest();
    ASSERT_EQ(memory, want) << round;
  }
}

// Of threads that want the same bytes no two get them, whatever they do in between; readers all do.
TEST(ConflictDetector, OneOfSeveralThreadsGetsWhatAllWant) {
  for (const bool write : {true, false}) {
    std::vector<std::byte> memory(1 << 12);
    ConflictDetector apart;
    apart.watch(memory.data(), static_cast<int64_t>(memory.size()));
    std::vector<int64_t> got(4);
    std::vector<std::thread> threads;
    for (int part = 0; part < 4; ++part)
      threads.emplace_back([&, part] {
        for (size_t at = 0; at < memory.size(); at += ConflictDetector::kGrain)
          got[static_cast<size_t>(part)] +=
              apart.use(part, memory.data() + at, memory.data() + at + ConflictDetector::kGrain, write);
      });
    for (std::thread& t : threads) t.join();
    const auto grains = static_cast<int64_t>(memory.size()) / ConflictDetector::kGrain;
    EXPECT_EQ(got[0] + got[1] + got[2] + got[3], write ? grains : 4 * grains);
  }
}

}  // namespace
}  // namespace pallasim::interp
