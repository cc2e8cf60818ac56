// A bit for each byte, in pages.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>

#include "pallasim/memory/shadow/box.h"

namespace pallasim::memory::shadow {

// Which page of a map was found under a number, as long as that is in it: places of lists come to few pages again and
// again.
template <class Page>
class FoundPages {
 public:
  Page*& operator[](int64_t number) {
    Entry& e = entries_[static_cast<size_t>(number) % entries_.size()];
    if (e.number != number) e = {number, nullptr};
    return e.page;
  }
  void forget() { entries_ = {}; }

 private:
  struct Entry {
    int64_t number = -1;
    Page* page = nullptr;
  };
  std::array<Entry, 64> entries_;
};

// Bytes of single elements, which intervals would make a node each of.
class BytePages {
 public:
  static constexpr int64_t kBytes = 1024;
  struct Page {
    std::array<uint64_t, kBytes / 64> bits{};
    int64_t count = 0;
    bool operator==(const Page&) const = default;
    // The first byte from `at` on that is in, or not.
    int64_t next(int64_t at, bool in) const {
      while (at < kBytes) {
        const uint64_t word = (in ? bits[at / 64UL] : ~bits[at / 64UL]) >> (at % 64);
        if (word != 0) return at + std::countr_zero(word);
        at = (at / 64 + 1) * 64;
      }
      return kBytes;
    }
    // Bytes [begin, end) of the page.
    void put(int64_t begin, int64_t end, bool in) {
      for (int64_t next; begin < end; begin = next) {
        next = std::min(end, (begin / 64 + 1) * 64);
        const uint64_t mask = ~uint64_t{0} >> (64 - (next - begin)) << (begin % 64);
        uint64_t& word = bits[begin / 64UL];
        count += in ? std::popcount(mask & ~word) : -std::popcount(mask & word);
        word = in ? word | mask : word & ~mask;
      }
    }
  };
  using Pages = std::map<int64_t, Page>;  // by number

  bool empty() const { return pages_.empty(); }
  static bool fits(int64_t begin, int64_t bytes) { return begin >= 0 && begin % kBytes + bytes <= kBytes; }
  Pages& pages() { return pages_; }
  void remove(int64_t begin, int64_t end) {
    for (auto it = first(begin); it != pages_.end() && it->first * kBytes < end;) {
      const int64_t at = it->first * kBytes;
      it->second.put(std::max<int64_t>(0, begin - at), std::min(kBytes, end - at), false);
      it = it->second.count == 0 ? pages_.erase(it) : std::next(it);
    }
  }
  // f(begin, end) of runs of [begin, end) that are in, ascending; until it says false.
  template <class F>
  void for_runs(int64_t begin, int64_t end, F&& f) const {
    for (auto it = first(begin); it != pages_.end() && it->first * kBytes < end; ++it) {
      const int64_t page = it->first * kBytes, last = std::min(kBytes, end - page);
      for (int64_t at = it->second.next(std::max<int64_t>(0, begin - page), true), to; at < last;
           at = it->second.next(to, true)) {
        to = std::min(last, it->second.next(at, false));
        if (!f(page + at, page + to)) return;
      }
    }
  }
  bool any(int64_t begin, int64_t end) const {
    bool any = false;
    for_runs(begin, end, [&](int64_t, int64_t) { return any = true, false; });
    return any;
  }
  // f(begin, end) of runs of [begin, end) that are not in.
  template <class F>
  void for_gaps(int64_t begin, int64_t end, F&& f) const {
    for_runs(begin, end, [&](int64_t from, int64_t to) {
      if (begin < from) f(begin, from);
      begin = to;
      return true;
    });
    if (begin < end) f(begin, end);
  }
  bool operator==(const BytePages&) const = default;

 private:
  Pages::iterator first(int64_t byte) { return pages_.lower_bound(byte < 0 ? 0 : byte / kBytes); }
  Pages::const_iterator first(int64_t byte) const { return pages_.lower_bound(byte < 0 ? 0 : byte / kBytes); }
  Pages pages_;
};

}  // namespace pallasim::memory::shadow
