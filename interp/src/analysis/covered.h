// Outputs whose elements one store of the body writes, point by point.
#pragma once
#include <span>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// Whether the body touches `ref` by stores alone, and one of them that always runs writes every element of memory of
// these dims: at a grid point, or, where `by_points`, at all of them together, each dimension moved by an axis of its
// own. Masks may leave out what lies outside.
bool covered_by_stores(const ir::Graph&, std::span<const ir::GridAxis>, ir::ValueId ref, std::span<const int64_t> dims,
                       bool by_points);

}  // namespace pallasim::interp::analysis
