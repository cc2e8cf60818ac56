#include "elements.h"
#include "../plan/payload/movement.h"
#include "findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::interp::ops {
std::string shape_text(std::span<const int64_t> dims) {
  std::string r = "(";
  for (size_t i = 0; i < dims.size(); ++i) r += (i ? ", " : "") + std::to_string(dims[i]);
  return r + (dims.size() == 1 ? ",)" : ")");
}

int64_t integer_element(const std::byte* at, ir::DType t) {
  return as_integer(t, [&](auto zero) { return static_cast<int64_t>(*reinterpret_cast<const decltype(zero)*>(at)); });
}

void integer_elements(const std::byte* at, ir::DType t, int64_t stride, std::span<int64_t> into) {
  as_integer(t, [&](auto zero) {
    const auto* x = reinterpret_cast<const decltype(zero)*>(at);
    if (stride == 1)
      for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<int64_t>(x[i]);
    else
      for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<int64_t>(x[static_cast<int64_t>(i) * stride]);
  });
}

Elements::Elements(Thread& t, const Step* s, const GatherPayload& p)
    : t_(t),
      s_(s),
      p_(p),
      mask_(p.has_mask && p.conditions.empty() ? t.resolve(p.mask) : nullptr),
      base_(t.resolve(p.ref)),
      strides_(p.dims.size()),
      index_(p.dims.size()) {
  for (int64_t d : p.dims) count_ *= d;
  takes_all_ = !mask_ && std::all_of(p.conditions.begin(), p.conditions.end(),
                                     [&](const GatherCondition& c) { return always_holds(c); });
  int64_t offset = 0;
  for (size_t d = 0; d < p.ref_dims.size(); ++d) {
    const GatherDim& g = p.ref_dims[d];
    if (g.kind == GatherDim::Kind::Affine) {
      regular_ &= place_affine(g, d, &offset);
      continue;
    }
    if (g.kind == GatherDim::Kind::Array) {
      regular_ = false;
      continue;
    }
    start_[d] = g.start_slot == Addr::kNoSlot ? g.start
                : g.wide                      ? t.slot<int64_t>(g.start_slot)
                                              : t.slot<int32_t>(g.start_slot);
    const int64_t span = g.result_dim < 0 ? 0 : memory::mul(p.dims[static_cast<size_t>(g.result_dim)] - 1, g.step);
    if (!inside(g, start_[d]) || !inside(g, memory::add(start_[d], span))) regular_ = false;
    if (!regular_) continue;
    offset += start_[d] * g.stride;
    if (g.result_dim >= 0) strides_[g.result_dim] += g.step * g.stride;
  }
  if (regular_) base_ += offset * p.size;
}

bool Elements::always_holds(const GatherCondition& c) const {
  return interp::always_holds(c, affine_base(t_, c.base, c.dtype), affine_base(t_, c.bound, c.dtype), p_.dims);
}

bool Elements::holds() const {
  return std::all_of(p_.conditions.begin(), p_.conditions.end(), [&](const GatherCondition& c) {
    const int64_t v = wrapped(affine_base(t_, c.base, c.dtype) + dot(c.strides), c.dtype);
    return interp::holds(c.relation, v, affine_base(t_, c.bound, c.dtype));
  });
}

// Adds where an affine index begins and how it goes on; false where it may leave the dimension.
bool Elements::place_affine(const GatherDim& g, size_t dim, int64_t* offset) {
  start_[dim] = affine_base(t_, g.start_slot, g.array_dtype);
  const Extremes e = extremes(start_[dim], g.array_strides, p_.dims);
  if (!e.fit(g.array_dtype) || !inside(g, e.least) || !inside(g, e.greatest)) return false;
  *offset += start_[dim] * g.stride;
  for (size_t i = 0; i < p_.dims.size(); ++i) strides_[i] += g.array_strides[i] * g.stride;
  return true;
}

std::pair<int64_t, int64_t> Elements::insides(const GatherDim& g) const {
  if (g.window_slot == Addr::kNoSlot) return {0, std::max<int64_t>(g.extent, 0)};
  // Of the block the part that lies in the array.
  const int64_t start = block_start(g), first = std::max<int64_t>(0, memory::sub(0, start)),
                end = std::min(g.extent, memory::sub(g.array_extent, start));
  return {first, std::max(first, end)};
}

bool Elements::inside(const GatherDim& g, int64_t i) const {
  const auto [first, end] = insides(g);
  return i >= first && i < end;
}

int64_t Elements::array_index(const GatherDim& g, size_t dim) const {
  if (g.kind == GatherDim::Kind::Affine) {
    const int64_t i = wrapped(start_[dim] + dot(g.array_strides), g.array_dtype);
    return i < 0 && g.wraps ? i + g.extent : i;
  }
  const int64_t element = dot(g.array_strides);
  const int64_t i = integer_element(t_.resolve(g.array) + element * ir::byte_size(g.array_dtype), g.array_dtype);
  return i < 0 && g.wraps ? i + g.extent : i;
}

// Of a load of which an element lies outside of the ref in dimension `d`: it goes on, or stops.
std::byte* Elements::read_outside(size_t d, int64_t index, int64_t offset) const {
  const GatherDim& g = p_.ref_dims[d];
  IndexTerm term{0, false, 0, g.extent - 1, static_cast<int>(d), g.extent, 1};
  const int64_t base = t_.resolve(p_.ref) - t_.bases[p_.ref.buffer];
  if (!may_read_at(p_.reads_outside, memory::add(base, memory::mul(offset, p_.size)), p_.size))
    diagnose(t_).out_of_bounds(t_, s_, term, index, p_.name, p_.shape, "read",
                               index >= 0 && index < g.extent ? &g : nullptr);
  if (g.kind == GatherDim::Kind::Range && g.result_dim >= 0 && g.step == 1)
    term.size = p_.dims[static_cast<size_t>(g.result_dim)], index = start_[d];
  diagnose(t_).note_read_outside(t_, s_, term, index, p_.name, p_.shape);
  return nullptr;
}

std::byte* Elements::address() const {
  int64_t offset = 0;
  bool outside = false;
  std::optional<std::pair<size_t, int64_t>> left;  // the first dimension and index that a load leaves the ref by
  for (size_t d = 0; d < p_.ref_dims.size(); ++d) {
    const GatherDim& g = p_.ref_dims[d];
    int64_t i = g.kind != GatherDim::Kind::Range
                    ? array_index(g, d)
                    : memory::add(start_[d], g.result_dim < 0 ? 0 : memory::mul(index_[g.result_dim], g.step));
    if (!inside(g, i)) [[unlikely]] {
      const Options::Oob policy = t_.exec->options->out_of_bounds;
      const bool read = p_.mode == GatherPayload::Mode::Load, in_padding = i >= g.extent && i < g.extent + g.padding;
      if (in_padding) return nullptr;
      if (read && p_.reads_outside.go_on) {
        if (!left) left.emplace(d, i);
        offset = memory::add(offset, memory::mul(i, g.stride));
        continue;
      }
      if (policy != Options::Oob::Machine || g.extent == 0) {
        const bool in_block = i >= 0 && i < g.extent;
        diagnose(t_).out_of_bounds(t_, s_, {0, false, 0, g.extent - 1, static_cast<int>(d), g.extent, 1}, i, p_.name,
                                   p_.shape,
                                   read          ? "read"
                                   : p_.has_mask ? "masked swap"
                                                 : "write",
                                   in_block ? &g : nullptr);
      }
      const bool pointer = p_.array_elements > 0;
      const int64_t used = std::clamp<int64_t>(i, 0, g.extent - 1);
      if (!pointer)
        diagnose(t_).note_out_of_bounds(t_, s_, {0, false, 0, g.extent - 1, static_cast<int>(d), g.extent, 1}, i, used,
                                        p_.name, p_.shape);
      if (pointer) outside = true;
      else i = used;
    }
    offset = memory::add(offset, memory::mul(i, g.stride));
  }
  if (left) return read_outside(left->first, left->second, offset);
  if (outside) {
    // A pointer that left its row may still point into the array.
    const int64_t from_base = (t_.resolve(p_.ref) - t_.bases[p_.ref.buffer]) / p_.size;
    const int64_t element = memory::add(from_base, offset);
    if (element < 0 || element >= p_.array_elements) {
      diagnose(t_).note_out_of_bounds(t_, s_, {0, false, 0, p_.array_elements - 1, 0, p_.array_elements, 1}, element,
                                      -1, p_.name + " as one line of elements", {p_.array_elements});
      return nullptr;
    }
  }
  return (regular_ ? t_.resolve(p_.ref) : base_) + offset * p_.size;
}

}  // namespace pallasim::interp::ops
