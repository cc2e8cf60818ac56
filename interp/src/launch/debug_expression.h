// Expressions of a debugger: names, slices, arithmetic as NumPy has it.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "debug_values.h"

namespace pallasim::interp {

class DebugExpression {
 public:
  explicit DebugExpression(const std::string& text);  // throws DebugError
  ~DebugExpression();
  DebugExpression(DebugExpression&&) noexcept;
  DebugExpression& operator=(DebugExpression&&) noexcept;
  DebugValue value(const DebugScope&) const;
  DebugView view(const DebugScope&) const;  // of elements in memory; throws DebugError where it is a result
  bool holds(const DebugScope&) const;      // as Python's bool() of its value; of arrays: of any element

  struct Node;

 private:
  std::unique_ptr<Node> root_;
};

}  // namespace pallasim::interp
