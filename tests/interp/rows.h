// Arrays of 8 rows of 4 numbers, as tests of copies work them out by hand.
#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "run.h"

namespace pallasim::interp::test {

using Rows = std::vector<float>;
constexpr float kNobody = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kRow = 4;

inline Rows rows_of(const Rows& a, size_t from, size_t n, float times = 1) {
  Rows r;
  for (size_t i = from * kRow; i < (from + n) * kRow; ++i) r.push_back(times * a[i]);
  return r;
}
inline Rows unwritten(size_t n) { return Rows(n * kRow, kNobody); }
inline Rows operator+(Rows a, const Rows& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// Equal, and nothing where nobody wrote.
inline void expect_rows(const Rows& got, const Rows& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
        << what << " [" << i << "] " << got[i] << ", not " << want[i];
}

}  // namespace pallasim::interp::test
