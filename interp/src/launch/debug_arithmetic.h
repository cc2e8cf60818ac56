// Arithmetic on values that a debugger read: elements are doubles, or integers of 64 bits, rounded to their type.
#pragma once
#include <string>
#include <vector>

#include "debug_values.h"

namespace pallasim::interp {

struct DebugNumbers {
  ir::DType dtype = ir::DType::I64;
  bool weak = false;  // a number of the expression: the other operand's type holds
  std::vector<int64_t> dims;
  std::vector<double> f;   // of floats
  std::vector<int64_t> i;  // of integers and truth values
  bool is_integer() const { return debug_is_integer(dtype); }
  size_t size() const { return is_integer() ? i.size() : f.size(); }
  double number(size_t n) const { return is_integer() ? static_cast<double>(i[n]) : f[n]; }
};

DebugNumbers numbers_of(const DebugValue&);  // throws DebugError for types without arithmetic
DebugValue value_of(const DebugNumbers&);
DebugNumbers debug_number_literal(const std::string&);
DebugNumbers debug_scalar(int64_t);
// "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"
DebugNumbers debug_binary(const std::string& op, const DebugNumbers&, const DebugNumbers&);
DebugNumbers debug_unary(const std::string& op, const DebugNumbers&);  // "-", "not"
// abs, sqrt, exp, log, isnan, isinf, isfinite; min, max, sum, mean, any, all; false: there is none of that name
bool debug_function(const std::string& name, const DebugNumbers&, DebugNumbers* result);

}  // namespace pallasim::interp
