#include "pallasim/memory/parts.h"

#include <algorithm>
#include <atomic>

#include "pallasim/memory/odometer.h"
#include "pallasim/memory/window.h"

namespace pallasim::memory {
namespace {

// Of a grain: nobody, several readers, or a part and whether it writes.
constexpr uint16_t kNobody = 0, kReaders = 1;
uint16_t user(int part, bool writes) { return static_cast<uint16_t>(2 + 2 * part + (writes ? 1 : 0)); }

// What a grain is after a use; false: they meet.
bool step(uint16_t now, int part, bool write, uint16_t* next) {
  const bool own = now == user(part, false) || now == user(part, true);
  if (now == kNobody || own) {
    *next = std::max(now, user(part, write));
    return true;
  }
  const bool written = now != kReaders && now % 2 == 1;
  *next = kReaders;
  return !write && !written;
}

}  // namespace

void PartsApart::watch(const std::byte* base, int64_t bytes) {
  if (bytes > 0)
    watched_.push_back({base, bytes, std::vector<uint16_t>(static_cast<size_t>((bytes - 1) / kGrain + 1))});
}

bool PartsApart::use(int part, const std::byte* begin, const std::byte* end, bool write) {
  for (Watched& w : watched_) {
    const int64_t first = std::max<int64_t>(begin - w.base, 0), last = std::min<int64_t>(end - w.base, w.bytes);
    if (first >= last) continue;
    for (int64_t g = first / kGrain; g <= (last - 1) / kGrain; ++g) {
      // Parts that do not meet need no order between them.
      const std::atomic_ref<uint16_t> grain(w.grains[static_cast<size_t>(g)]);
      uint16_t now = grain.load(std::memory_order_relaxed), next = 0;
      do {
        if (!step(now, part, write, &next)) return false;
      } while (next != now && !grain.compare_exchange_weak(now, next, std::memory_order_relaxed));
    }
  }
  return true;
}

bool PartsApart::use(int part, const std::byte* at, const int64_t* dims, const int64_t* strides, int rank,
                     int element_bytes, bool write) {
  if (std::any_of(dims, dims + rank, [](int64_t n) { return n <= 0; })) return true;
  // Minor dimensions that follow each other without gaps are one run.
  int64_t length = element_bytes;
  auto outer = static_cast<size_t>(rank);
  while (outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] * element_bytes == length)) length *= dims[--outer];
  int64_t index[kMaxRank] = {}, runs = 1;
  for (size_t d = 0; d < outer; ++d) runs *= dims[d];
  for (; runs > 0; --runs) {
    int64_t element = 0;
    for (size_t d = 0; d < outer; ++d) element += index[d] * strides[d];
    const std::byte* begin = at + element * element_bytes;
    if (!use(part, begin, begin + length, write)) return false;
    next_index(index, outer, dims);
  }
  return true;
}

}  // namespace pallasim::memory
