// Which bytes of a buffer were written.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace pallasim::memory {

class Coverage {
 public:
  // Bytes [begin, end). Runs that touch or overlap become one.
  void add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto it = runs_.upper_bound(begin);
    if (it != runs_.begin() && std::prev(it)->second >= begin) --it;
    while (it != runs_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = runs_.erase(it);
    }
    runs_.emplace_hint(it, begin, end);
  }
  // Calls f(begin, end) for every run of [0, size) in which nothing was written, in ascending order.
  template <class F>
  void for_gaps(int64_t size, F&& f) const {
    int64_t at = 0;
    for (const auto& [begin, end] : runs_) {
      if (at < begin) f(at, begin);
      at = end;
    }
    if (at < size) f(at, size);
  }

 private:
  std::map<int64_t, int64_t> runs_;  // begin -> end
};

}  // namespace pallasim::memory
