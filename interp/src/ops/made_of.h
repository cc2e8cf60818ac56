// Operands of an operation as its result is made of them: Options::nans.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "../plan/payload/nans.h"
#include "bodies.h"
#include "findings.h"
#include "pallasim/memory/odometer.h"

namespace pallasim::interp::ops {

inline int64_t offset_of(const NanPayload::Array& a, const std::vector<int64_t>& at) {
  int64_t r = 0;
  for (size_t d = 0; d < at.size(); ++d) r += at[d] * a.strides[d];
  return r * ir::byte_size(a.dtype);
}

// One operand: its elements in register form, and which of them one element of the result is made of: its lane.
class MadeOf {
 public:
  using Array = NanPayload::Array;
  using Take = NanPayload::Lane::Take;
  using Index = std::vector<int64_t>;

  MadeOf(const Thread& t, const Array& a) : t_(t), a_(a), load_(kernels().load(a.dtype)) {
    for (size_t d = 0; d < a.lanes.size(); ++d)
      if (a.lanes[d].take != Take::Same) free_.push_back(d);
    // Of a product the contracted dimensions, in the order in which they meet those of the other operand.
    std::stable_sort(free_.begin(), free_.end(), [&](size_t x, size_t y) {
      return a.lanes[x].take == Take::All && a.lanes[y].take == Take::All && a.lanes[x].dim < a.lanes[y].dim;
    });
    for (const size_t d : free_) free_dims_.push_back(a.dims[d]);
  }

  const Array& array() const { return a_; }
  const Index& lane_dims() const { return free_dims_; }
  // f(element) along the lane, until it returns false.
  template <typename F>
  void along(const Index& result, const F& f) {
    if (a_.scalar) return void(f(t_.arena + a_.slot));
    Index at = start(result), place(free_.size());
    for (const int64_t n : free_dims_)
      if (n == 0) return;
    const int64_t last = last_position(result);
    int64_t position = 0;
    do {
      if (!f(element(moved(at, place)))) return;
    } while (position++ < last && memory::next_index(place.data(), free_.size(), free_dims_));
  }
  // What its text says of the lane.
  NanSource seen(const Index& result) {
    NanSource r;
    r.dtype = a_.dtype;
    along(result, [&](const std::byte* reg) {
      double part[2] = {};
      values(reg, part);
      if (ir::is_complex(a_.dtype)) {
        if (r.count == 0) r.least = part[0], r.greatest = part[1];
      } else {
        r.least = r.count ? std::min(r.least, part[0]) : part[0];
        r.greatest = r.count ? std::max(r.greatest, part[0]) : part[0];
      }
      ++r.count;
      return true;
    });
    return r;
  }

 protected:
  // The index of the lane's first element.
  Index start(const Index& result) const {
    Index at(a_.dims.size());
    for (size_t d = 0; d < at.size(); ++d)
      if (a_.lanes[d].take == Take::Same && a_.dims[d] > 1) at[d] = result[static_cast<size_t>(a_.lanes[d].dim)];
    return at;
  }
  const Index& moved(Index& at, const Index& place) const {
    for (size_t i = 0; i < free_.size(); ++i)
      at[free_[i]] = a_.lanes[free_[i]].take == Take::From ? a_.dims[free_[i]] - 1 - place[i] : place[i];
    return at;
  }
  // The position of the last element that counts: a lane that ends somewhere has one dimension.
  int64_t last_position(const Index& result) const {
    for (const size_t d : free_) {
      const NanPayload::Lane& lane = a_.lanes[d];
      if (lane.take == Take::UpTo) return result[static_cast<size_t>(lane.dim)];
      if (lane.take == Take::From) return a_.dims[d] - 1 - result[static_cast<size_t>(lane.dim)];
    }
    return std::numeric_limits<int64_t>::max() - 1;
  }
  const std::byte* element(const Index& at) {
    load_(reg_, t_.resolve(a_.addr) + offset_of(a_, at), 1, 1);
    return reg_;
  }
  void values(const std::byte* reg, double* out) const {
    switch (compute_type(a_.dtype)) {
      case CType::Bool: *out = *reinterpret_cast<const uint8_t*>(reg); return;
      case CType::I32: *out = *reinterpret_cast<const int32_t*>(reg); return;
      case CType::U32: *out = *reinterpret_cast<const uint32_t*>(reg); return;
      case CType::I64: *out = static_cast<double>(*reinterpret_cast<const int64_t*>(reg)); return;
      case CType::U64: *out = static_cast<double>(*reinterpret_cast<const uint64_t*>(reg)); return;
      case CType::F32: *out = *reinterpret_cast<const float*>(reg); return;
      case CType::F64: *out = *reinterpret_cast<const double*>(reg); return;
      case CType::C64: std::copy_n(reinterpret_cast<const float*>(reg), 2, out); return;
      case CType::C128: std::copy_n(reinterpret_cast<const double*>(reg), 2, out); return;
    }
  }

  const Thread& t_;
  const Array& a_;
  LoadFn load_;
  std::vector<size_t> free_;  // dimensions along which the lane lies
  Index free_dims_;
  alignas(16) std::byte reg_[16]{};
};

// PS-NAN-004: elements of an integer result that do not fit its type.
void find_overflow(Thread&, const Step*, const NanPayload&);

}  // namespace pallasim::interp::ops
