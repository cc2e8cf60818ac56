// Bytes that an access writes, to be looked at before and after.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "instances.h"

namespace pallasim::interp {

struct BytePlaces {
  int32_t thread;  // in whose buffers
  uint32_t buffer;
  memory::shadow::Box box;
  std::vector<int64_t> places;  // where the box lies; none: where it says
  memory::shadow::Range within{INT64_MIN, INT64_MAX};

  // `a`, in memory of `thread`, as far as it lies in the range.
  BytePlaces(int32_t thread, uint32_t buffer, const memory::shadow::Access& a,
             memory::shadow::Range within = {INT64_MIN, INT64_MAX})
      : thread(thread), buffer(buffer), box(a.box()), places(a.places.begin(), a.places.end()), within(within) {}

  template <typename F>
  void for_rows(const F& f) const {
    const auto row = [&](memory::shadow::Range r) {
      r = {std::max(r.begin, within.begin), std::min(r.end, within.end)};
      if (r.begin < r.end) f(r);
    };
    if (places.empty()) return box.for_rows(row);
    memory::shadow::Box b = box;
    for (const int64_t place : places) b.offset = place, b.for_rows(row);
  }
  const std::byte* base(const Execution& ex) const {
    const Thread& t = ex.threads[static_cast<size_t>(thread)];
    const bool array = buffer >= kFirstOperandBuffer && buffer - kFirstOperandBuffer < ex.plan->module.operands.size();
    if (array) return ex.operand(ex.device_of(t), buffer);
    return t.bases ? t.bases[buffer] : nullptr;
  }
  // Nothing: of a program that has ended.
  std::vector<std::byte> read(const Execution& ex) const {
    std::vector<std::byte> r;
    const std::byte* const from = base(ex);
    if (!from) return r;
    for_rows([&](memory::shadow::Range row) { r.insert(r.end(), from + row.begin, from + row.end); });
    return r;
  }
};

}  // namespace pallasim::interp
