// Where in a ref a body's accesses lie, as far as grid coordinates say it.
#pragma once
#include "forms.h"

namespace pallasim::interp::analysis {

// Whether accesses to `ref`, an argument of the body, at two values of a grid axis never touch one element, whatever
// the other axes are: all of them index it directly, and along one dimension inside a strip of the axis' value alone.
bool apart_along(const ir::Graph&, const Forms&, ir::ValueId ref, size_t axis);

}  // namespace pallasim::interp::analysis
