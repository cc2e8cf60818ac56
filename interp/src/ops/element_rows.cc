// Rows of accesses whose elements are named one by one: where indices are affine (base + stride * iota, as
// kernels of pointers compute them) a row is a strided run, otherwise its offsets are found in one pass.
#include <algorithm>

#include "../plan/payload/movement.h"
#include "elements.h"

namespace pallasim::interp::ops {
namespace {

// The positions i, of those that the row has, where first + step * i is in the relation to the bound.
void cut(GatherCondition::Relation relation, int64_t first, int64_t step, int64_t bound, ElementRow* r) {
  using Relation = GatherCondition::Relation;
  // As step * i < limit.
  const bool greater = relation == Relation::Greater || relation == Relation::GreaterEqual;
  int64_t limit = greater ? first - bound : bound - first;
  if (relation == Relation::LessEqual || relation == Relation::GreaterEqual) ++limit;
  if (greater) step = -step;
  const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); };
  if (step > 0) r->end = std::clamp(-floor_div(-limit, step), r->begin, r->end);
  else if (step < 0) r->begin = std::clamp(floor_div(limit, step) + 1, r->begin, r->end);
  else if (limit <= 0) r->end = r->begin;
}

bool has_step(std::span<const int64_t> x, int64_t step) {
  bool same = true;
  if (x.size() > 2 && static_cast<uint64_t>(x[2]) - static_cast<uint64_t>(x[1]) != static_cast<uint64_t>(step))
    return false;  // most of those that are none
  for (size_t i = 1; i < x.size(); ++i)
    same &= static_cast<uint64_t>(x[i]) - static_cast<uint64_t>(x[i - 1]) == static_cast<uint64_t>(step);
  return same;
}

}  // namespace

bool Elements::add_array(const GatherDim& g, ElementRow* r, int64_t* offset) const {
  const size_t last = p_.dims.size() - 1, n = static_cast<size_t>(r->end - r->begin);
  const int64_t stride = g.array_strides[last];
  const int64_t element = dot_before(g.array_strides, last) + stride * r->begin;
  r->indices.resize(n);
  std::span<int64_t> x(r->indices);
  integer_elements(t_.resolve(g.array) + element * ir::byte_size(g.array_dtype), g.array_dtype, stride, x);
  // Where the first, the second and the last are inside, equal steps between leave no room for one that is not.
  const bool ends_inside = inside(g, x.front()) && inside(g, x.back());
  const int64_t step = n > 1 && ends_inside && inside(g, x[1]) ? x[1] - x[0] : 0;
  if (ends_inside && has_step(x, step)) {
    *offset += x.front() * g.stride;
    r->step += step * g.stride;
    return true;
  }
  if (r->offsets.empty()) r->offsets.assign(n, 0);
  const std::byte* mask = mask_row();
  const int64_t mask_stride = mask ? p_.mask_strides[last] : 0;
  const auto between = insides(g);
  const auto first = static_cast<uint64_t>(between.first), count = static_cast<uint64_t>(between.second) - first;
  const auto place = [&](size_t i) {
    const int64_t at = x[i] < 0 && g.wraps ? x[i] + g.extent : x[i];
    const bool in = static_cast<uint64_t>(at) - first < count;
    r->offsets[i] += in ? at * g.stride : 0;
    return in;
  };
  bool all = true;
  for (size_t i = 0; i < n && !mask; ++i) all &= place(i);
  for (size_t i = 0; i < n && mask; ++i)
    if (static_cast<bool>(mask[(r->begin + static_cast<int64_t>(i)) * mask_stride])) all &= place(i);
  return all;
}

// Cuts the row to the elements for which the conditions hold; false where a value wraps around along it.
bool Elements::cut_by_conditions(ElementRow* r) const {
  const size_t last = p_.dims.size() - 1;
  for (const GatherCondition& c : p_.conditions) {
    const int64_t first = affine_base(t_, c.base, c.dtype) + dot_before(c.strides, last), step = c.strides[last];
    if (!fits(first, c.dtype) || !fits(first + step * (p_.dims[last] - 1), c.dtype)) return false;
    cut(c.relation, first, step, affine_base(t_, c.bound, c.dtype), r);
  }
  return true;
}

bool Elements::row(ElementRow* r) const {
  const size_t last = p_.dims.size() - 1;
  r->begin = 0, r->end = p_.dims[last], r->step = 0;
  r->offsets.clear();
  if (const std::byte* mask = mask_row()) {
    const int64_t stride = p_.mask_strides[last];
    while (r->begin < r->end && !static_cast<bool>(mask[r->begin * stride])) ++r->begin;
    while (r->end > r->begin && !static_cast<bool>(mask[(r->end - 1) * stride])) --r->end;
  }
  if (!takes_all_ && !mask_ && !cut_by_conditions(r)) return false;
  if (r->begin == r->end) return true;
  int64_t offset = 0;
  for (size_t d = 0; d < p_.ref_dims.size(); ++d) {
    const GatherDim& g = p_.ref_dims[d];
    const bool array = g.kind == GatherDim::Kind::Array;
    if (array && g.array_strides[last] != 0) {
      if (!add_array(g, r, &offset)) return false;
      continue;
    }
    int64_t at = 0, step = 0;
    if (g.kind == GatherDim::Kind::Affine) {
      step = g.array_strides[last];
      at = start_[d] + dot_before(g.array_strides, last) + step * r->begin;
      if (!fits(at, g.array_dtype) || !fits(at + step * (r->end - 1 - r->begin), g.array_dtype)) return false;
    } else if (array) {
      at = array_index(g, d);
    } else {
      const bool moves = g.result_dim == static_cast<int>(last);
      const int64_t steps = g.result_dim < 0 ? 0 : moves ? r->begin : index_[g.result_dim];
      at = memory::add(start_[d], memory::mul(steps, g.step));
      step = moves ? g.step : 0;
    }
    if (!inside(g, at) || !inside(g, memory::add(at, memory::mul(r->end - 1 - r->begin, step)))) return false;
    offset += at * g.stride;
    r->step += step * g.stride;
  }
  r->first = t_.resolve(p_.ref) + offset * p_.size;
  for (size_t i = 0; i < r->offsets.size() && r->step != 0; ++i) r->offsets[i] += static_cast<int64_t>(i) * r->step;
  return true;
}

}  // namespace pallasim::interp::ops
