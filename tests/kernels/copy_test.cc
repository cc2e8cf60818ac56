// Strided copies and fills against one element at a time.
#include "data.h"

namespace pallasim::interp {
namespace {

TEST(Copy, RandomShapesAndStrides) {
  std::mt19937_64 rng(31);
  for (int round = 0; round < 3000; ++round) {
    const int rank = static_cast<int>(rng() % 5), size = 1 << (rng() % 5);
    int64_t dims[5], ds[5], ss[5];
    int order_d[5] = {0, 1, 2, 3, 4}, order_s[5] = {0, 1, 2, 3, 4};
    for (int i = 0; i < rank; ++i)
      dims[i] = rng() % 10 == 0 ? 1 : 1 + static_cast<int64_t>(rng() % (rank <= 2 ? 70 : 9));
    if (rng() % 40 == 0 && rank) dims[0] = 0;
    if (rng() % 2) std::shuffle(order_d, order_d + rank, rng);
    if (rng() % 2) std::shuffle(order_s, order_s + rank, rng);
    int64_t dn = 1 + static_cast<int64_t>(rng() % 2), sn = dn == 1 ? 1 : 1 + static_cast<int64_t>(rng() % 2);
    for (int i = rank; i-- > 0;) {
      ds[order_d[i]] = dn, dn *= std::max<int64_t>(1, dims[order_d[i]]);
      ss[order_s[i]] = sn, sn *= std::max<int64_t>(1, dims[order_s[i]]);
      if (rng() % 3 == 0) dn += 2, sn += 1;
    }
    int64_t base_s = 0;
    for (int i = 0; i < rank; ++i) {
      if (rng() % 8 == 0) ss[i] = 0;
      else if (rng() % 8 == 0) base_s += ss[i] * std::max<int64_t>(0, dims[i] - 1), ss[i] = -ss[i];
    }
    std::vector<char> src(static_cast<size_t>((sn + 1) * size)), dst(static_cast<size_t>((dn + 1) * size), 'd'), want,
        filled(dst), want_filled(dst);
    for (char& c : src) c = static_cast<char>(1 + rng() % 250);
    want = dst;
    char value[16];
    for (char& c : value) c = static_cast<char>(rng());
    if (rng() % 2) std::memset(value, 7, sizeof value);
    int64_t total = 1;
    for (int i = 0; i < rank; ++i) total *= dims[i];
    for (int64_t e = 0; e < total; ++e) {
      int64_t rest = e, d = 0, s = base_s;
      for (int i = rank; i-- > 0;) d += rest % dims[i] * ds[i], s += rest % dims[i] * ss[i], rest /= dims[i];
      std::memcpy(&want[static_cast<size_t>(d * size)], &src[static_cast<size_t>(s * size)], static_cast<size_t>(size));
      std::memcpy(&want_filled[static_cast<size_t>(d * size)], value, static_cast<size_t>(size));
    }
    copy_strided(dst.data(), ds, src.data() + base_s * size, ss, dims, rank, size);
    ASSERT_EQ(dst, want) << round;
    fill_strided(filled.data(), ds, value, dims, rank, size);
    ASSERT_EQ(filled, want_filled) << round;
  }
}

TEST(Fill, RunsOfEveryLength) {
  const char value[] = "0123456789abcdef";
  const int64_t stride = 1;
  for (int size : {1, 2, 4, 8, 16})
    for (int64_t n : {1, 2, 255, 256, 257, 511, 512, 513, 3000}) {
      std::vector<char> got(static_cast<size_t>((n + 1) * size), '.'), want = got;
      for (size_t i = 0; i < static_cast<size_t>(n * size); ++i) want[i] = value[i % static_cast<size_t>(size)];
      fill_strided(got.data(), &stride, value, &n, 1, size);
      ASSERT_EQ(got, want) << n << " of " << size;
    }
}

TEST(Copy, BackwardsEverySecondAndRepeated) {
  for (int size : {1, 2, 4, 8, 16})
    for (int64_t n : {1, 2, 3, 7, 16, 33, 260})
      for (int64_t step : {-1, 0, 2, -3}) {
        const auto bytes = static_cast<size_t>(size);
        std::vector<char> src(static_cast<size_t>(3 * n) * bytes), got(static_cast<size_t>(n) * bytes, '.'), want = got;
        for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<char>(i * 5 + i / 239);
        const char* from = src.data() + (step < 0 ? -step * (n - 1) * size : 0);
        for (int64_t i = 0; i < n; ++i)
          std::memcpy(&want[static_cast<size_t>(i * size)], from + i * step * size, bytes);
        const int64_t one = 1;
        copy_strided(got.data(), &one, from, &step, &n, 1, size);
        ASSERT_EQ(got, want) << n << " by " << step << " of " << size;
        for (int64_t times : {2, 3, 4, 8, 11}) {
          const int64_t dims[] = {n, times}, ds[] = {times, 1}, ss[] = {step == 0 ? 2 : step, 0};
          const char* first = step == 0 ? src.data() : from;
          std::vector<char> rows(static_cast<size_t>(n * times) * bytes, '.'), by_hand = rows;
          for (int64_t i = 0; i < n * times; ++i)
            std::memcpy(&by_hand[static_cast<size_t>(i * size)], first + i / times * ss[0] * size, bytes);
          copy_strided(rows.data(), ds, first, ss, dims, 2, size);
          ASSERT_EQ(rows, by_hand) << n << " times " << times << " by " << ss[0] << " of " << size;
        }
      }
}

TEST(Copy, Transposition) {
  for (int size : {1, 2, 4, 8, 16}) {
    for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 50}, {16, 16}, {33, 70}, {128, 128}, {5, 300}}) {
      std::vector<char> src(static_cast<size_t>(m * n * size)), dst(src.size()), want(src.size());
      for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<char>(i * 7 + i / 251);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          std::memcpy(&want[static_cast<size_t>((j * m + i) * size)], &src[static_cast<size_t>((i * n + j) * size)],
                      static_cast<size_t>(size));
      const int64_t dims[] = {n, m}, ds[] = {m, 1}, ss[] = {1, n};
      copy_strided(dst.data(), ds, src.data(), ss, dims, 2, size);
      ASSERT_EQ(dst, want) << m << 'x' << n << ' ' << size;
      std::fill(dst.begin(), dst.end(), 0);
      const int64_t dims2[] = {m, n}, ds2[] = {1, m}, ss2[] = {n, 1};
      copy_strided(dst.data(), ds2, src.data(), ss2, dims2, 2, size);
      ASSERT_EQ(dst, want);
    }
  }
}

}  // namespace
}  // namespace pallasim::interp
