// The regions of many instances, and the memory that all of them hold.
#pragma once
#include <unordered_map>

#include "pallasim/memory/shadow/regions.h"

namespace pallasim::memory::shadow {

template <class State>
class InstanceRegions {
 public:
  template <class F>
  void visit(int32_t instance, const Box& box, F&& f) {
    change(instances_[instance], [&](Regions<State>& r) { r.visit(box, f); });
  }
  // At each of the places; none: the box itself.
  template <class F>
  void visit(int32_t instance, const Box& box, std::span<const int64_t> places, F&& f) {
    if (places.empty()) return visit(instance, box, f);
    change(instances_[instance], [&](Regions<State>& r) { r.visit(box, places, f); });
  }
  // Bytes [begin, end) of the instance are as at the start.
  void forget(int32_t instance, int64_t begin, int64_t end) {
    if (const auto it = instances_.find(instance); it != instances_.end())
      change(it->second, [&](Regions<State>& r) { r.forget(begin, end); });
  }
  void gone(int32_t instance) {
    const auto it = instances_.find(instance);
    if (it == instances_.end()) return;
    memory_ -= it->second.memory();
    instances_.erase(it);
  }
  int64_t memory() const { return memory_; }
  bool operator==(const InstanceRegions&) const = default;

 private:
  template <class F>
  void change(Regions<State>& r, F&& f) {
    const int64_t held = r.memory();
    f(r);
    memory_ += r.memory() - held;
  }
  std::unordered_map<int32_t, Regions<State>> instances_;
  int64_t memory_ = 0;
};

}  // namespace pallasim::memory::shadow
