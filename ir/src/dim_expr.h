// Expressions over shape parameters: "add(mul(2,n),1)".
#pragma once
#include <functional>
#include <string_view>

#include "pallasim/ir/type.h"

namespace pallasim::ir {

bool is_dim_operation(std::string_view name);

// Evaluates the canonical text of a dimension. `value` gives a parameter's number; false from it, an overflow, a
// division by zero or malformed text make the result false.
bool evaluate_dim(std::string_view text, const std::function<bool(std::string_view, int64_t*)>& value, int64_t* out);

// Calls `f` with each parameter's name. False when the text is not an expression.
bool for_each_param(std::string_view text, const std::function<void(std::string_view)>& f);

}  // namespace pallasim::ir
