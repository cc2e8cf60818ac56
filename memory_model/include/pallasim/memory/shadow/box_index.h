// Numbers by the boxes that they are of.
#pragma once
#include <cstdint>
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

}  // namespace pallasim::memory::shadow
