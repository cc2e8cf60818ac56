// Numbers by the boxes that they are of.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "pallasim/memory/shadow/box.h"

namespace pallasim::memory::shadow {

// Numbers by the hash of their box, with open addressing; the boxes are the caller's.
class BoxIndex {
 public:
  // The number whose box it is; -1: none. box_of(number).
  template <class F>
  int32_t find(const Box& box, F&& box_of) const {
    if (places_.empty()) return -1;
    for (size_t i = first(box); places_[i] != kFree; i = next(i))
      if (places_[i] >= 0 && box_of(places_[i]) == box) return places_[i];
    return -1;
  }
  // Before add: there is no room. The caller clears it, for so many, and adds all of them.
  bool is_full() const { return 2 * (taken_ + 1) > places_.size(); }
  void clear(size_t room) {
    size_t n = 16;
    while (n < room) n *= 2;
    places_.assign(n, kFree);
    taken_ = 0;
  }
  void add(const Box& box, int32_t number) {
    size_t i = first(box);
    while (places_[i] >= 0) i = next(i);
    taken_ += places_[i] == kFree;
    places_[i] = number;
  }
  void remove(const Box& box, int32_t number) {
    size_t i = first(box);
    while (places_[i] != number) i = next(i);
    places_[i] = kGone;
  }
  size_t size() const { return places_.size(); }
  bool operator==(const BoxIndex&) const = default;

 private:
  static constexpr int32_t kFree = -1, kGone = -2;
  size_t first(const Box& box) const { return box.hash() & (places_.size() - 1); }
  size_t next(size_t i) const { return (i + 1) & (places_.size() - 1); }
  std::vector<int32_t> places_;
  size_t taken_ = 0;  // with those that are gone
};

// Numbers by where their boxes begin, in classes of like spans, so that few come into question.
class NearBoxes {
 public:
  bool empty() const { return classes_.empty(); }
  void add(const Box& box, int32_t number) { classes_[span_class(box.hull())].insert({box.offset, number}); }
  void remove(const Box& box, int32_t number) {
    const auto it = classes_.find(span_class(box.hull()));
    it->second.erase({box.offset, number});
    if (it->second.empty()) classes_.erase(it);
  }
  // f(number) of those whose hull meets `h`. box_of(number).
  template <class B, class F>
  void visit(Range h, B&& box_of, F&& f) const {
    for (const auto& [k, list] : classes_) {
      const int64_t longest = k >= 62 ? INT64_MAX / 2 : int64_t{2} << k;
      for (auto it = list.lower_bound({h.begin - longest, 0}); it != list.end() && it->first < h.end; ++it)
        if (box_of(it->second).hull().end > h.begin) f(it->second);
    }
  }
  bool operator==(const NearBoxes&) const = default;

 private:
  static int span_class(const Range& h) { return 63 - __builtin_clzll(static_cast<uint64_t>(h.end - h.begin)); }
  std::map<int, std::set<std::pair<int64_t, int32_t>>> classes_;
};

}  // namespace pallasim::memory::shadow
