// The vectors' sums by the rule of tensor cores against one product at a time, by bits.
#include "pallasim/interp/aligned_sum.h"

#include <bit>

#include "data.h"

namespace pallasim::interp {
namespace {

enum class Numbers { Even, Wide, Tiny, Sparse, Special, Unrounded };

// A float with `bits` bits in all whose exponent is drawn from [least, most].
float number(std::mt19937_64& rng, int bits, int least, int most) {
  const auto e = static_cast<int>(least + static_cast<int64_t>(rng() % static_cast<uint64_t>(most - least + 1)));
  const double one = 1.0 + static_cast<double>(rng() >> (65 - bits)) * std::ldexp(1.0, 1 - bits);
  return static_cast<float>((rng() & 1 ? -1 : 1) * std::ldexp(one, e));
}

float drawn(std::mt19937_64& rng, Numbers kind, int bits) {
  switch (kind) {
    case Numbers::Even: return number(rng, bits, -6, 5);
    case Numbers::Wide: return number(rng, bits, -70, 60);
    case Numbers::Tiny: return number(rng, bits, -140, -40);
    case Numbers::Sparse: return rng() % 4 ? 0.0f * (rng() & 1 ? -1.0f : 1.0f) : number(rng, bits, -20, 20);
    case Numbers::Special:
      return rng() % 64 ? number(rng, bits, -100, 120)
                        : std::vector<float>{INFINITY, -INFINITY, NAN, 0, -0.0f}[rng() % 5];
    case Numbers::Unrounded: return number(rng, 24, -10, 10);
  }
  return 0;
}

void compare(AlignedSum fast, const AlignedRule& rule, Numbers kind, int bits, int64_t m, int64_t n, int64_t k,
             std::mt19937_64& rng) {
  std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)), c(static_cast<size_t>(m * n));
  for (float& x : a) x = drawn(rng, kind, bits);
  for (float& x : b) x = drawn(rng, kind, bits);
  for (float& x : c)
    x = rng() % 3 ? number(rng, 24, kind == Numbers::Tiny ? -149 : -30, kind == Numbers::Wide ? 127 : 9) : 0;
  std::vector<float> want = c, scratch(static_cast<size_t>(aligned_scratch(m, rule)));
  aligned_sum_reference(rule, m, n, k, a.data(), b.data(), want.data(), scratch.data());
  fast(rule, m, n, k, a.data(), b.data(), c.data(), scratch.data());
  for (size_t i = 0; i < c.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(c[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(c[i]), std::bit_cast<uint32_t>(want[i]))
        << "numbers " << static_cast<int>(kind) << ", " << bits << " bits, " << m << "x" << n << "x" << k << " at " << i
        << ": " << c[i] << ", not " << want[i];
  }
}

class Aligned : public testing::TestWithParam<const char*> {};

TEST_P(Aligned, Bits) {
  const AlignedSum fast = aligned_sum_for(GetParam());
  if (!fast) GTEST_SKIP() << "this CPU does not run " << GetParam();
  ASSERT_NE(fast, &aligned_sum_reference);
  struct Format {
    AlignedRule rule;
    int bits;
  };
  std::mt19937_64 rng(7);
  for (const Format& f : {Format{{16, 25, 23}, 11}, Format{{16, 25, 23}, 8}, Format{{8, 25, 23}, 11},
                          Format{{32, 13, 13}, 4}, Format{{32, 25, 23}, 4}, Format{{32, 25, 23}, 11}})
    for (const Numbers kind :
         {Numbers::Even, Numbers::Wide, Numbers::Tiny, Numbers::Sparse, Numbers::Special, Numbers::Unrounded})
      for (int round = 0; round < 12; ++round)
        compare(fast, f.rule, kind, f.bits, 1 + round % 5, 1 + 7 * round, 1 + 11 * (round % 7), rng);
}

// Products that all lie on one exponent and have one sign: the largest sums that the halves must hold.
TEST_P(Aligned, LargestSums) {
  const AlignedSum fast = aligned_sum_for(GetParam());
  if (!fast) GTEST_SKIP() << "this CPU does not run " << GetParam();
  for (const float sign : {1.0f, -1.0f}) {
    for (const AlignedRule rule : {AlignedRule{16, 25, 23}, AlignedRule{32, 25, 23}}) {
      const std::vector<float> a(2 * 64, 0x1.ffcp+3f * sign), b(64 * 24, 0x1.ffcp+2f);
      std::vector<float> want(2 * 24, sign * 0x1.fffffep+5f), scratch(static_cast<size_t>(aligned_scratch(2, rule)));
      std::vector<float> got = want;
      aligned_sum_reference(rule, 2, 24, 64, a.data(), b.data(), want.data(), scratch.data());
      fast(rule, 2, 24, 64, a.data(), b.data(), got.data(), scratch.data());
      EXPECT_EQ(got, want);
      EXPECT_NEAR(want[0], sign * (64.0 * 0x1.ffcp+3 * 0x1.ffcp+2 + 0x1p+6), 0.1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Aligned, testing::Values("avx512", "avx2", "baseline"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace pallasim::interp
