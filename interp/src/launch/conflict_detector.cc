#include "conflict_detector.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "pallasim/memory/odometer.h"

namespace pallasim::interp {
namespace {

// Of a grain or a page: nobody, several readers, or a part and whether it writes; a page of which parts use grains.
constexpr uint16_t kNobody = 0, kReaders = 1, kGrains = 0xffff;
uint16_t user(int part, bool writes) { return static_cast<uint16_t>(2 + 2 * part + (writes ? 1 : 0)); }
static_assert(2 + 2 * ConflictDetector::kMostParts < kGrains);

// What it is after a use; false: they meet.
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

// Parts that do not meet need no order between them. `now`: who had it.
bool take(uint16_t& of, int part, bool write, uint16_t& now) {
  const std::atomic_ref<uint16_t> user(of);
  now = user.load(std::memory_order_relaxed);
  uint16_t next = 0;
  do {
    if (!step(now, part, write, &next)) return false;
  } while (next != now && !user.compare_exchange_weak(now, next, std::memory_order_relaxed));
  return true;
}

// The same of a page, which who uses all of it takes; others leave it to its grains.
enum class Page { Taken, Grains, Met };
Page take_page(uint16_t& of, int part, bool write, bool whole) {
  const std::atomic_ref<uint16_t> user(of);
  uint16_t now = user.load(std::memory_order_relaxed), next = 0;
  do {
    if (now == kGrains) return Page::Grains;
    if (now == kNobody && !whole) next = kGrains;
    else if (!step(now, part, write, &next)) return Page::Met;
  } while (next != now && !user.compare_exchange_weak(now, next, std::memory_order_relaxed));
  return next == kGrains ? Page::Grains : Page::Taken;
}

}  // namespace

void ConflictDetector::watch(std::byte* base, int64_t bytes) {
  const auto table = [&](int64_t of) { return std::vector<uint16_t>(static_cast<size_t>((bytes - 1) / of + 1)); };
  if (bytes > 0) watched_.push_back({base, bytes, table(kPage), table(kGrain)});
}

void ConflictDetector::watch_unwritten(std::byte* base, int64_t bytes, memory::Element unwritten, int element_bytes) {
  if (bytes <= 0) return;
  watch(base, bytes);
  watched_.back().unwritten = unwritten;
  watched_.back().element_bytes = element_bytes;
}

void ConflictDetector::Watched::fill(int64_t begin, int64_t end) const {
  for (int64_t at = begin; at < end; at += element_bytes)
    std::memcpy(base + at, &unwritten, static_cast<size_t>(element_bytes));
}

void ConflictDetector::fill_rest() {
  for (const Watched& w : watched_) {
    if (!w.only_written()) continue;
    for (int64_t p = 0; p * kPage < w.bytes; ++p) {
      const uint16_t page = w.pages[static_cast<size_t>(p)];
      const int64_t end = std::min(w.bytes, (p + 1) * kPage);
      if (page == kNobody) w.fill(p * kPage, end);
      if (page != kGrains) continue;
      for (int64_t g = p * kPage / kGrain; g * kGrain < end; ++g)
        if (w.grains[static_cast<size_t>(g)] == kNobody) w.fill(g * kGrain, std::min(end, (g + 1) * kGrain));
    }
  }
}

bool ConflictDetector::use(int part, const std::byte* begin, const std::byte* end, bool write) {
  for (Watched& w : watched_) {
    const int64_t first = std::max<int64_t>(begin - w.base, 0), last = std::min<int64_t>(end - w.base, w.bytes);
    if (first >= last) continue;
    for (int64_t p = first / kPage; p <= (last - 1) / kPage; ++p) {
      const int64_t from = std::max(first, p * kPage), to = std::min(last, (p + 1) * kPage);
      if (!use_page(w, p, part, from, to, write)) return false;
    }
  }
  return true;
}

bool ConflictDetector::use_page(Watched& w, int64_t page, int part, int64_t from, int64_t to, bool write) {
  if (w.only_written() && !write) return false;
  const Page taken = take_page(w.pages[static_cast<size_t>(page)], part, write, to - from == kPage);
  if (taken != Page::Grains) return taken == Page::Taken;
  for (int64_t g = from / kGrain; g <= (to - 1) / kGrain; ++g) {
    uint16_t before = kNobody;
    if (!take(w.grains[static_cast<size_t>(g)], part, write, before)) return false;
    const int64_t begin = g * kGrain, end = std::min(w.bytes, begin + kGrain);
    if (w.only_written() && before == kNobody && (from > begin || to < end)) w.fill(begin, end);
  }
  return true;
}

bool ConflictDetector::use(int part, const std::byte* at, const int64_t* dims, const int64_t* strides, int rank,
                           int element_bytes, bool write) {
  return memory::for_runs(dims, strides, rank, element_bytes, [&](int64_t begin, int64_t bytes) {
    return use(part, at + begin, at + begin + bytes, write);
  });
}

}  // namespace pallasim::interp
