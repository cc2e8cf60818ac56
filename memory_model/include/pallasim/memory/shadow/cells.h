// A page of memory, element by element.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "pallasim/memory/shadow/box.h"

namespace pallasim::memory::shadow {

// What each element of a page is in: a number, -1 for none. Elements are words, or bytes where somebody needed that.
class Cells {
 public:
  static constexpr int64_t kBytes = 1024;
  int64_t unit() const { return int64_t{1} << shift_; }
  bool fits(Range bytes) const { return ((bytes.begin | bytes.end) & (unit() - 1)) == 0; }
  // How many cells so many bytes are.
  int64_t cells(int64_t bytes) const { return bytes >> shift_; }
  int32_t& operator[](int64_t i) { return cells_[static_cast<size_t>(i)]; }
  int32_t at(int64_t i) const { return i < 0 || i >= std::ssize(cells_) ? -1 : cells_[static_cast<size_t>(i)]; }
  // Bytes of the page that fit; how many cells that were.
  int32_t fill(Range bytes, int32_t state) {
    const int64_t n = cells(bytes.end - bytes.begin);
    std::fill_n(cells_.begin() + cells(bytes.begin), n, state);
    return static_cast<int32_t>(n);
  }
  // A cell for each byte. more(state, how many more of its cells there are).
  template <class F>
  void refine(F&& more) {
    if (unit() == 1) return;
    std::vector<int32_t> fine;
    fine.reserve(kBytes);
    for (const int32_t state : cells_) {
      fine.insert(fine.end(), kWord, state);
      if (state >= 0) more(state, static_cast<int32_t>(kWord - 1));
    }
    cells_ = std::move(fine);
    shift_ = 0;
  }
  // f(bytes of the page, state) for cells beside each other that are in one.
  template <class F>
  void for_runs(F&& f) const {
    for (int64_t c = 0, n = std::ssize(cells_), end; c < n; c = end) {
      for (end = c + 1; end < n && at(end) == at(c);) ++end;
      if (at(c) >= 0) f(Range{c * unit(), end * unit()}, at(c));
    }
  }
  bool operator==(const Cells&) const = default;

 private:
  static constexpr int kWordShift = 2;
  static constexpr int64_t kWord = 1 << kWordShift;
  int shift_ = kWordShift;  // of the bytes of a cell
  std::vector<int32_t> cells_ = std::vector<int32_t>(kBytes / kWord, -1);
};

}  // namespace pallasim::memory::shadow
