// Memory whose bytes stay where they came from: always the same bytes as in memory to which they are copied at once.
#include "ops/elided_copies.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "../memory_model/views.h"

namespace pallasim::interp {
namespace {

constexpr auto kNobody = std::byte{0xee};

using Source = ElidedCopies::Source;

struct Both {
  explicit Both(size_t bytes) : own(bytes, std::byte{0}), copied(bytes, kNobody) {}
  const std::byte* at(const Source& s) const { return source.data() + s.offset; }
  void materialise() {
    elided.materialise(
        own.data(), static_cast<int64_t>(own.size()), [&](const Source& s) { return at(s); },
        [&](int64_t begin, int64_t end) { std::fill(own.begin() + begin, own.begin() + end, kNobody); });
  }
  void arrive(int64_t to, int64_t from, int64_t n, bool stays) {
    if (!elided.arrive(to, to + n, stays ? std::optional(Source{1, 3, from}) : std::nullopt)) {
      materialise();
      ++full;
      stays = false;
    }
    std::memcpy(copied.data() + to, source.data() + from, static_cast<size_t>(n));
    if (!stays) std::memcpy(own.data() + to, source.data() + from, static_cast<size_t>(n));
  }
  ElidedCopies elided;
  std::vector<std::byte> own, copied, source = std::vector<std::byte>(4096);
  int full = 0;
};

TEST(ElidedCopies, HasTheBytesThatCopiesBring) {
  memory::shadow::Random rng(11);
  int found = 0, full = 0;
  for (int round = 0; round < 400; ++round) {
    const int64_t bytes = 1 + rng.below(round % 4 ? 200 : 4000);
    Both both(static_cast<size_t>(bytes));
    for (std::byte& b : both.source) b = static_cast<std::byte>(rng.below(200));
    for (int n = 0; n < 200; ++n) {
      const int64_t begin = rng.below(bytes), size = 1 + rng.below(std::min<int64_t>(bytes - begin, 40));
      if (rng.below(100) == 0) both.materialise();
      if (rng.below(2) == 0) both.arrive(begin, rng.below(4096 - size), size, rng.below(3) != 0);
      const ElidedCopies::Found f = both.elided.find(begin, begin + size);
      if (!f.whole) continue;
      ++found;
      const std::byte* at = f.from ? both.at(*f.from) : both.own.data() + begin;
      ASSERT_EQ(std::memcmp(at, both.copied.data() + begin, static_cast<size_t>(size)), 0) << round << ' ' << n;
    }
    both.materialise();
    ASSERT_EQ(both.own, both.copied) << round;
    full += both.full;
  }
  EXPECT_GT(found, 10000);
  EXPECT_GT(full, 10);  // rounds in which there were more pieces than are kept
}

TEST(ElidedCopies, FindsWhatArrivedAndNothingElse) {
  const std::vector<std::byte> source(64);
  const auto there = [&](const Source& at) { return source.data() + at.offset; };
  const Source from{2, 5, 8};
  ElidedCopies elided;
  EXPECT_FALSE(elided.find(0, 1).whole);
  ASSERT_TRUE(elided.arrive(16, 32, from));
  EXPECT_EQ(elided.find(20, 32).from, from.behind(4));
  EXPECT_FALSE(elided.find(15, 20).whole);
  EXPECT_FALSE(elided.find(20, 33).whole);
  ASSERT_TRUE(elided.arrive(24, 48, {}));  // its second half lies in the memory now
  EXPECT_EQ(elided.find(16, 24).from, from);
  EXPECT_FALSE(elided.find(16, 32).whole);
  EXPECT_TRUE(elided.find(24, 48).whole);
  EXPECT_EQ(elided.find(24, 48).from, std::nullopt);
  EXPECT_FALSE(elided.gathers());
  std::vector<std::byte> own(64);
  elided.materialise(own.data(), 64, there, [](int64_t, int64_t) {});
  EXPECT_TRUE(elided.gathers());  // a piece had to come
  EXPECT_TRUE(elided.find(0, 64).whole);
  elided.clear();
  EXPECT_FALSE(elided.find(24, 48).whole);
  EXPECT_TRUE(elided.gathers());
  elided.materialise(own.data(), 64, there, [](int64_t, int64_t) {});
  elided.reset();
  elided.materialise(own.data(), 64, there, [](int64_t, int64_t) {});
  EXPECT_FALSE(elided.gathers());  // nothing was elsewhere
}

}  // namespace
}  // namespace pallasim::interp
