// Where in a ref a body's accesses lie, as far as grid coordinates say it.
#pragma once
#include "forms.h"

namespace pallasim::interp::analysis {

// Per grid axis of the first `axes`: whether accesses to `ref`, an argument of the body, at two values of it never
// touch one element, whatever the other axes are: all of them index it directly, and along one dimension inside a strip
// of the axis' value alone.
std::vector<bool> axes_apart(const ir::Graph&, const Forms&, ir::ValueId ref, size_t axes);

}  // namespace pallasim::interp::analysis
