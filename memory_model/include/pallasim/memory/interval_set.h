// Sets of intervals of bytes: which ones of a buffer were written.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace pallasim::memory {

class IntervalSet {
 public:
  // Bytes [begin, end). Runs that touch or overlap become one.
  void add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto it = runs_.upper_bound(begin);
    if (it != runs_.begin()) {
      const auto before = std::prev(it);
      if (before->second >= end) return;  // it is there
      if (before->second >= begin && (it == runs_.end() || it->first > end)) {
        before->second = end;
        return;
      }
      if (before->second >= begin) it = before;
    }
    while (it != runs_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = runs_.erase(it);
    }
    runs_.emplace_hint(it, begin, end);
  }
  // Bytes [begin, end) are as if nobody had written them.
  void remove(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto it = first_behind(begin);
    while (it != runs_.end() && it->first < end) {
      const auto [from, to] = *it;
      it = runs_.erase(it);
      if (from < begin) runs_.emplace_hint(it, from, begin);
      if (to > end) it = runs_.emplace_hint(it, end, to);
    }
  }
  // Was a byte of [begin, end) written?
  bool any(int64_t begin, int64_t end) const {
    const auto it = first_behind(begin);
    return it != runs_.end() && it->first < end;
  }
  // The run that holds the byte; empty: nobody wrote it.
  std::pair<int64_t, int64_t> run_at(int64_t byte) const {
    const auto it = first_behind(byte);
    return it != runs_.end() && it->first <= byte ? *it : std::pair<const int64_t, int64_t>{byte, byte};
  }
  // Calls f(begin, end) for every run of [first, last) in which nothing was written, in ascending order.
  template <class F>
  void for_gaps(int64_t first, int64_t last, F&& f) const {
    int64_t at = first;
    for (auto it = first_behind(first); it != runs_.end() && it->first < last; ++it) {
      if (at < it->first) f(at, it->first);
      at = it->second;
    }
    if (at < last) f(at, last);
  }
  template <class F>
  void for_gaps(int64_t size, F&& f) const {
    for_gaps(0, size, f);
  }
  size_t runs() const { return runs_.size(); }
  bool operator==(const IntervalSet&) const = default;

 private:
  // The first run that ends behind `at`.
  std::map<int64_t, int64_t>::const_iterator first_behind(int64_t at) const {
    auto it = runs_.upper_bound(at);
    return it != runs_.begin() && std::prev(it)->second > at ? std::prev(it) : it;
  }
  std::map<int64_t, int64_t> runs_;  // begin -> end
};

}  // namespace pallasim::memory
