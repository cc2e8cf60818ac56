// Structural equality: two modules are equal exactly when they print the same text.
#pragma once
#include "pallasim/ir/module.h"

namespace pallasim::ir {

// Types by structure, so types of two modules compare.
bool equal(const Type* a, const Type* b);
bool equal(const Attr& a, const Attr& b);
bool equal(const Graph& a, const Graph& b);
bool equal(const Module& a, const Module& b);

}  // namespace pallasim::ir
