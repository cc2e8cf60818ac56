#include "pallasim/memory/shadow/definedness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pallasim::memory::shadow {
namespace {

TEST(Definedness, KnowsWhatABirthForEachByteSays) {
  std::mt19937_64 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  constexpr int64_t kBytes = 40000;
  for (int round = 0; round < 40; ++round) {
    Definedness d;
    std::vector<Birth> naive(kBytes);
    const auto birth = [&] { return static_cast<Birth>(below(3) > 0 ? 0 : 1 + below(3)); };
    for (int n = 0; n < 60; ++n) {
      // Rows of a view, some as long as pages are.
      const int64_t rows = 1 + below(4), bytes = 1 + below(2) * 3, columns = 1 + below(below(2) ? 9000 / bytes : 40),
                    stride = columns + below(3) * 500;
      const int64_t offset = below(3) ? below(3) * 1024 : below(2000);
      const int64_t dims[] = {rows, columns}, strides[] = {stride, 1};
      const View v{offset, dims, strides, bytes};
      std::vector<int64_t> at;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t b = 0; b < columns * bytes; ++b) at.push_back(offset + r * stride * bytes + b);
      if (at.back() >= kBytes) continue;
      const Birth one = birth();
      Births stored;
      const bool same = below(2) == 0;
      if (!same && below(4) > 0)
        for (size_t i = 0; i < at.size(); ++i) stored.push_back(below(5) ? one : birth());
      for (size_t i = 0; i < at.size(); ++i)
        naive[static_cast<size_t>(at[i])] = same ? one : stored.empty() ? Birth{0} : stored[i];
      if (same) d.set(v, one);
      else d.store(v, stored);
      ASSERT_EQ(d.undefined(), kBytes - std::count(naive.begin(), naive.end(), Birth{0}));
      ASSERT_EQ(d.all_defined(), d.undefined() == 0);
      const int64_t begin = below(kBytes), end = begin + below(kBytes - begin);
      const auto first =
          std::find_if(naive.begin() + begin, naive.begin() + end, [](Birth b) { return b != 0; }) - naive.begin();
      int64_t where = -1;
      ASSERT_EQ(d.find(begin, end, &where), first == end ? 0 : naive[static_cast<size_t>(first)]);
      ASSERT_EQ(where, first == end ? -1 : first);
      Births loaded, run(static_cast<size_t>(end - begin), Birth{7});
      d.load(v, &loaded);
      ASSERT_TRUE(loaded.empty() || loaded.size() == at.size());
      ASSERT_EQ(loaded.empty(), d.find(v) == 0);
      for (size_t i = 0; i < loaded.size(); ++i) ASSERT_EQ(loaded[i], naive[static_cast<size_t>(at[i])]);
      d.load(begin, end - begin, run.data());
      ASSERT_TRUE(std::equal(run.begin(), run.end(), naive.begin() + begin));
      for (int k = 0; k < 20; ++k) {
        const int64_t byte = below(kBytes);
        ASSERT_EQ(d.at(byte), naive[static_cast<size_t>(byte)]);
      }
    }
  }
}

}  // namespace
}  // namespace pallasim::memory::shadow
