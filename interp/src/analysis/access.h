// Access functions: where accesses of a body lie in a ref, as affine expressions.
#pragma once
#include <vector>

#include "expressions.h"

namespace pallasim::interp::analysis {

// Per dimension of a ref: the element, by the grid, trips and the position in what is taken; none: not known.
using Access = std::vector<std::optional<AffineExpr>>;

// Of a block of an array at a point of the grid.
Access access_of(const Window&, std::span<const ir::GridAxis>);

// Whether accesses at two values of a coordinate never take one element: in some dimension all of them move by it
// alone, and farther than they reach.
bool disjoint_along(size_t axis, std::span<const Access* const>);

// Per axis of the grid: whether what the body does to `ref`, an argument of it, is disjoint along it, whatever the
// other coordinates are. False where anything but a plain access uses the ref.
std::vector<bool> disjoint_axes(const ir::Graph&, const Expressions&, ir::ValueId ref, size_t axes);

// Whether an access takes every element of memory of these dims: at a point of the grid, or with `axes` at all points
// together, and then which coordinates that took.
bool covers(const Access&, std::span<const int64_t> dims, std::vector<bool>* axes);

// Whether the body touches `ref` by stores alone, and one of them that always runs writes every element of memory of
// these dims: at a point of the grid, or with `axes`, one per coordinate, at all points together. Masks may leave out
// what lies outside.
bool covered_by_stores(const ir::Graph&, const Expressions&, ir::ValueId ref, std::span<const int64_t> dims,
                       std::vector<bool>* axes);

}  // namespace pallasim::interp::analysis
