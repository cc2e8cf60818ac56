// Values of i32 and u32 that grow by strides from a base: what they are where they wrap around, and what holds for all.
#pragma once
#include <cstdint>
#include <vector>

#include "payload/movement.h"

namespace pallasim::interp {

inline int64_t wrapped(int64_t v, ir::DType type) {
  return type == ir::DType::I32 ? int64_t{static_cast<int32_t>(v)} : int64_t{static_cast<uint32_t>(v)};
}
inline bool fits(int64_t v, ir::DType type) { return v == wrapped(v, type); }

// The least and the greatest value over all positions of an array of `dims`; of no use where one of them does not fit.
struct Extremes {
  int64_t least, greatest;
  bool fit(ir::DType type) const { return fits(least, type) && fits(greatest, type); }
};
inline Extremes extremes(int64_t base, const std::vector<int64_t>& strides, const std::vector<int64_t>& dims) {
  Extremes e{base, base};
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t span = strides[i] * (dims[i] - 1);
    (span < 0 ? e.least : e.greatest) += span;
  }
  return e;
}

inline bool holds(GatherCondition::Relation r, int64_t v, int64_t bound) {
  using Relation = GatherCondition::Relation;
  switch (r) {
    case Relation::Less: return v < bound;
    case Relation::LessEqual: return v <= bound;
    case Relation::Greater: return v > bound;
    default: return v >= bound;
  }
}

// Whether the condition holds at every position.
inline bool always_holds(const GatherCondition& c, int64_t base, int64_t bound, const std::vector<int64_t>& dims) {
  const Extremes e = extremes(base, c.strides, dims);
  return e.fit(c.dtype) && holds(c.relation, e.least, bound) && holds(c.relation, e.greatest, bound);
}

}  // namespace pallasim::interp
