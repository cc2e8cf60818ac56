#include <algorithm>

#include "checked.h"
#include "pallasim/memory/odometer.h"

namespace pallasim::interp {

std::vector<ByteRun> byte_runs(int64_t at, const int64_t* dims, const int64_t* strides, int rank, int element_bytes) {
  std::vector<ByteRun> r;
  memory::for_runs(dims, strides, rank, element_bytes, [&](int64_t offset, int64_t bytes) {
    const int64_t begin = at + offset;
    if (!r.empty() && r.back().end == begin) r.back().end += bytes;
    else r.push_back({begin, begin + bytes});
    return true;
  });
  if (!std::is_sorted(r.begin(), r.end(), [](const ByteRun& a, const ByteRun& b) { return a.begin < b.begin; }))
    std::sort(r.begin(), r.end(), [](const ByteRun& a, const ByteRun& b) { return a.begin < b.begin; });
  return r;
}

bool overlap(const std::vector<ByteRun>& a, const std::vector<ByteRun>& b) {
  if (a.empty() || b.empty() || a.back().end <= b.front().begin || b.back().end <= a.front().begin) return false;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end <= b[j].begin) ++i;
    else if (b[j].end <= a[i].begin) ++j;
    else return true;
  }
  return false;
}

}  // namespace pallasim::interp
