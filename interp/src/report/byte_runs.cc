#include <algorithm>

#include "checked.h"
#include "pallasim/memory/odometer.h"

namespace pallasim::interp {

std::vector<ByteRun> byte_runs(const std::byte* at, const int64_t* dims, const int64_t* strides, int rank,
                               int element_bytes) {
  // Minor dimensions that follow each other without gaps are one run.
  int64_t length = element_bytes;
  int outer = rank;
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] * element_bytes == length)) length *= dims[--outer];
  int64_t count = 1;
  for (int d = 0; d < rank; ++d)
    if (dims[d] <= 0) return {};
  for (int d = 0; d < outer; ++d) count *= dims[d];
  std::vector<ByteRun> r;
  r.reserve(static_cast<size_t>(count));
  int64_t index[memory::kMaxRank] = {};
  for (int64_t n = 0; n < count; ++n) {
    int64_t element = 0;
    for (int d = 0; d < outer; ++d) element += index[d] * strides[d];
    const std::byte* begin = at + element * element_bytes;
    if (!r.empty() && r.back().end == begin) r.back().end += length;
    else r.push_back({begin, begin + length});
    memory::next_index(index, static_cast<size_t>(outer), dims);
  }
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
