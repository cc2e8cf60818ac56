// Accesses element by element: where each element lies, and whether it lies inside.
#pragma once
#include <span>
#include <string>

#include "../plan/affine_elements.h"
#include "../plan/payload/movement.h"
#include "bodies.h"
#include "pallasim/memory/odometer.h"
#include "pallasim/memory/saturate.h"

namespace pallasim::interp::ops {

// "(2, 3)"
std::string shape_text(std::span<const int64_t> dims);
// f(0 of the C++ type of an integer dtype)
template <typename F>
auto as_integer(ir::DType t, const F& f) {
  switch (t) {
    case ir::DType::I8: return f(int8_t{});
    case ir::DType::U8: return f(uint8_t{});
    case ir::DType::I16: return f(int16_t{});
    case ir::DType::U16: return f(uint16_t{});
    case ir::DType::I32: return f(int32_t{});
    case ir::DType::U32: return f(uint32_t{});
    default: return f(int64_t{});
  }
}

// An element of an integer dtype of 8 to 64 bits, in memory form; elements that lie `stride` elements apart.
int64_t integer_element(const std::byte* at, ir::DType);
void integer_elements(const std::byte* at, ir::DType, int64_t stride, std::span<int64_t> into);

// The base of affine elements, or a bound.
inline int64_t affine_base(const Thread& t, uint32_t slot, ir::DType type) {
  return type == ir::DType::I32 ? int64_t{t.slot<int32_t>(slot)} : int64_t{t.slot<uint32_t>(slot)};
}

// Where the elements of one row of an access lie: along its last dimension, the others fixed.
struct ElementRow {
  int64_t begin = 0, end = 0;    // the mask takes no element outside
  std::byte* first = nullptr;    // the element at `begin`
  int64_t step = 0;              // elements from each to the next, where `offsets` is empty
  std::vector<int64_t> offsets;  // elements from `first`, from `begin` on, of rows whose steps differ

  std::vector<int64_t> indices;  // scratch

  int64_t offset(int64_t i) const {
    return offsets.empty() ? (i - begin) * step : offsets[static_cast<size_t>(i - begin)];
  }
};

class Elements {
 public:
  Elements(Thread&, const Step*, const GatherPayload&);
  int64_t count() const { return count_; }
  // No indices in memory, and everything is inside: `base()` and `strides()` (per result dim, elements) say it all.
  bool regular() const { return regular_; }
  bool takes_all() const { return takes_all_; }  // no mask, or one that is known to take every element
  std::byte* base() const { return base_; }
  const int64_t* strides() const { return strides_.at; }

  // Address of the element at the current position. Null: outside, on a machine where nobody stops that.
  std::byte* address() const;
  bool on() const {
    if (!mask_) return takes_all_ || holds();
    return static_cast<bool>(mask_[dot(p_.mask_strides)]);
  }
  int64_t dot(const std::vector<int64_t>& strides) const { return dot_before(strides, strides.size()); }
  int64_t dot_before(const std::vector<int64_t>& strides, size_t last) const {
    int64_t r = 0;
    for (size_t i = 0; i < last; ++i) r += strides[i] * index_[i];
    return r;
  }
  void next() { memory::next_index(index_, p_.dims.size(), p_.dims); }

  // The row that begins at the current position, of an access with dimensions. False: an element that the mask takes,
  // or may take, lies outside, and each has to be asked for its address.
  bool row(ElementRow*) const;
  void next_row() { memory::next_index(index_, p_.dims.size() - 1, p_.dims); }
  const int64_t* index() const { return index_.at; }  // the current position
  const std::byte* mask_row() const { return mask_ ? mask_ + dot(p_.mask_strides) : nullptr; }

 private:
  std::byte* read_outside(size_t dim, int64_t index, int64_t offset) const;
  int64_t array_index(const GatherDim&, size_t dim) const;
  bool place_affine(const GatherDim&, size_t dim, int64_t* offset);
  bool holds() const;
  bool cut_by_conditions(ElementRow*) const;
  bool always_holds(const GatherCondition&) const;
  std::pair<int64_t, int64_t> insides(const GatherDim&) const;  // the indices that are: first, behind the last
  bool inside(const GatherDim&, int64_t i) const;
  bool add_array(const GatherDim&, ElementRow*, int64_t* offset) const;
  int64_t block_start(const GatherDim& g) const {
    return g.window_slot == Addr::kNoSlot ? 0 : t_.slot<int64_t>(g.window_slot);
  }
  Thread& t_;
  const Step* s_;
  const GatherPayload& p_;
  const std::byte* mask_;
  std::byte* base_;
  int64_t count_ = 1;
  bool regular_ = true, takes_all_ = true;
  int64_t start_[memory::kMaxRank];
  memory::IndexVector strides_, index_;
};

// For footprints: what an access is masked and indexed by, and the elements that it finds one by one.
class Boxes;
class ChosenElements;
void index_boxes(const GatherPayload&, Boxes&);
void chosen_boxes(const GatherPayload&, Elements&, ChosenElements*);

}  // namespace pallasim::interp::ops
