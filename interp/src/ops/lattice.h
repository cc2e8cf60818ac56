// Elements of one side of a copy as strides, where another element width does not stand in the way.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "../plan/payload/movement.h"
#include "bodies.h"

namespace pallasim::interp::ops {

// Elements consist of `split` units of `unit` bytes, `split_stride` units apart.
struct Lattice {
  memory::Place first;
  std::vector<int64_t> strides;  // units
  int64_t unit = 1, split = 1, split_stride = 1;
};

// Of the elements of a view, of which `dims` are wanted, from the one on that lies `skip` elements of the first level
// behind its first one. None: they lie as no strides say, or in parts of bytes.
std::optional<Lattice> lattice(const Thread&, std::span<const ReinterpretPayload::Level>, int64_t skip,
                               std::span<const int64_t> dims);
// Both in units of the same size, which may make more and smaller ones of those of either. False: there are none.
bool match(Lattice*, Lattice*);

}  // namespace pallasim::interp::ops
