#include "debug_arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "../plan/array.h"

namespace pallasim::interp {
namespace {

size_t count_of(const std::vector<int64_t>& dims) { return static_cast<size_t>(arrays::count(dims)); }

// One element of the type, from a double or an integer of 64 bits.
void store(const DebugNumbers& v, size_t n, std::byte* to) {
  alignas(16) std::byte reg[16] = {};
  const auto put = [&](auto x) { std::memcpy(reg, &x, sizeof x); };
  switch (compute_type(v.dtype)) {
    case CType::Bool: put(static_cast<uint8_t>(v.i[n] != 0)); break;
    case CType::I32: put(static_cast<int32_t>(v.i[n])); break;
    case CType::U32: put(static_cast<uint32_t>(v.i[n])); break;
    case CType::I64:
    case CType::U64: put(v.i[n]); break;
    case CType::F32: put(static_cast<float>(v.f[n])); break;
    default: put(v.f[n]); break;
  }
  kernels().store(v.dtype)(to, reg, 1, 1);
}

// As the type has it: sums of f32 are rounded to f32.
void round(DebugNumbers* v) {
  std::byte element[16];
  for (size_t n = 0; n < v->size(); ++n) {
    store(*v, n, element);
    if (v->is_integer()) v->i[n] = debug_integer(element, v->dtype);
    else v->f[n] = debug_number(element, v->dtype);
  }
}

ir::DType wider(ir::DType a, ir::DType b) {
  if (a == b) return a;
  if (ir::is_float(a) && ir::is_float(b))
    return ir::bit_width(a) == ir::bit_width(b) ? ir::DType::F32 : ir::bit_width(a) > ir::bit_width(b) ? a : b;
  if (ir::is_float(a)) return a;
  if (ir::is_float(b)) return b;
  if (a == ir::DType::Bool) return b;
  if (b == ir::DType::Bool) return a;
  return ir::DType::I64;
}

ir::DType result_type(const DebugNumbers& a, const DebugNumbers& b) {
  if (a.weak != b.weak) {
    const DebugNumbers &strong = a.weak ? b : a, &weak = a.weak ? a : b;
    if (!strong.is_integer() || (weak.is_integer() && strong.dtype != ir::DType::Bool)) return strong.dtype;
    return weak.dtype;
  }
  return wider(a.dtype, b.dtype);
}

std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> r(std::max(a.size(), b.size()), 1);
  const auto take = [&](const std::vector<int64_t>& x) {
    for (size_t k = 0; k < x.size(); ++k) {
      int64_t& to = r[r.size() - x.size() + k];
      if (to != 1 && x[k] != 1 && to != x[k])
        throw DebugError(fmt::format("shapes ({}) and ({}) do not go together", fmt::join(a, ","), fmt::join(b, ",")));
      if (x[k] != 1) to = x[k];
    }
  };
  take(a), take(b);
  return r;
}

// Where element n of the result comes from.
class Source {
 public:
  Source(const std::vector<int64_t>& from, const std::vector<int64_t>& to) : to_(to), strides_(to.size(), 0) {
    int64_t stride = 1;
    for (size_t k = from.size(); k-- > 0; stride *= from[k])
      strides_[to.size() - from.size() + k] = from[k] == 1 ? 0 : stride;
    same_ = from == to;
  }
  size_t of(size_t n) const {
    if (same_) return n;
    int64_t at = 0;
    for (size_t d = to_.size(); d-- > 0;) {
      const auto size = static_cast<size_t>(to_[d]);
      at += static_cast<int64_t>(n % size) * strides_[d];
      n /= size;
    }
    return static_cast<size_t>(at);
  }

 private:
  const std::vector<int64_t>& to_;
  std::vector<int64_t> strides_;
  bool same_ = false;
};

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t power(int64_t a, int64_t b) {
  if (b < 0) throw DebugError("an integer to a negative power is no integer: write one of them with a point");
  uint64_t r = 1;
  for (auto square = static_cast<uint64_t>(a); b > 0; b >>= 1, square *= square)
    if (b & 1) r *= square;
  return static_cast<int64_t>(r);
}

int64_t of_integers(const std::string& op, int64_t a, int64_t b) {
  const auto wrap = [](uint64_t x) { return static_cast<int64_t>(x); };
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (op == "+") return wrap(ua + ub);
  if (op == "-") return wrap(ua - ub);
  if (op == "*") return wrap(ua * ub);
  if (op == "//") return floor_divide(a, b);
  if (op == "%") return b == 0 ? 0 : wrap(ua - static_cast<uint64_t>(floor_divide(a, b)) * ub);
  return power(a, b);
}

double of_floats(const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  if (op == "%") return a - b * std::floor(a / b);
  return std::pow(a, b);
}

template <typename T>
bool compared(const std::string& op, T a, T b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  if (op == "and") return a != T{} && b != T{};
  return a != T{} || b != T{};
}

}  // namespace

DebugNumbers numbers_of(const DebugValue& v) {
  if (!debug_is_integer(v.dtype) && !ir::is_float(v.dtype))
    throw DebugError(fmt::format("there is no arithmetic on {}", ir::name(v.dtype)));
  DebugNumbers r;
  r.dtype = v.dtype;
  r.dims = v.dims;
  const size_t n = count_of(v.dims);
  const auto size = static_cast<size_t>(ir::byte_size(v.dtype));
  if (v.bytes.size() < n * size) throw DebugError((v.name.empty() ? "this" : v.name) + " cannot be looked at here");
  if (r.is_integer()) r.i.resize(n);
  else r.f.resize(n);
  for (size_t k = 0; k < n; ++k)
    if (r.is_integer()) r.i[k] = debug_integer(v.bytes.data() + k * size, v.dtype);
    else r.f[k] = debug_number(v.bytes.data() + k * size, v.dtype);
  return r;
}

DebugValue value_of(const DebugNumbers& v) {
  DebugValue r;
  r.dtype = v.dtype;
  r.dims = v.dims;
  const auto size = static_cast<size_t>(ir::byte_size(v.dtype));
  r.bytes.resize(v.size() * size);
  for (size_t n = 0; n < v.size(); ++n) store(v, n, r.bytes.data() + n * size);
  return r;
}

DebugNumbers debug_scalar(int64_t v) { return {ir::DType::I64, true, {}, {}, {v}}; }

DebugNumbers debug_number_literal(const std::string& text) {
  try {
    size_t used = 0;
    if (text.find_first_of(".eE") == std::string::npos || text.starts_with("0x")) {
      const int64_t v = std::stoll(text, &used, 0);
      if (used == text.size()) return debug_scalar(v);
    } else {
      const double v = std::stod(text, &used);
      if (used == text.size()) return {ir::DType::F64, true, {}, {v}, {}};
    }
  } catch (const std::exception&) {}
  throw DebugError(text + " is no number");
}

DebugNumbers debug_binary(const std::string& op, const DebugNumbers& a, const DebugNumbers& b) {
  static const std::vector<std::string> kComparisons = {"==", "!=", "<", "<=", ">", ">=", "and", "or"};
  const bool compares = std::find(kComparisons.begin(), kComparisons.end(), op) != kComparisons.end();
  DebugNumbers r;
  r.dims = broadcast(a.dims, b.dims);
  r.weak = a.weak && b.weak;
  r.dtype = compares ? ir::DType::Bool : result_type(a, b);
  if (!compares && r.dtype == ir::DType::Bool) r.dtype = ir::DType::I64;
  if (op == "/" && r.is_integer()) r.dtype = ir::DType::F64;
  const bool integers = a.is_integer() && b.is_integer();
  const size_t n = count_of(r.dims);
  const Source from_a(a.dims, r.dims), from_b(b.dims, r.dims);
  if (r.is_integer()) r.i.resize(n);
  else r.f.resize(n);
  for (size_t k = 0; k < n; ++k) {
    const size_t x = from_a.of(k), y = from_b.of(k);
    if (compares) r.i[k] = integers ? compared(op, a.i[x], b.i[y]) : compared(op, a.number(x), b.number(y));
    else if (r.is_integer()) r.i[k] = of_integers(op, a.i[x], b.i[y]);
    else r.f[k] = of_floats(op, a.number(x), b.number(y));
  }
  round(&r);
  return r;
}

DebugNumbers debug_unary(const std::string& op, const DebugNumbers& a) {
  if (op == "not") return debug_binary("==", a, debug_scalar(0));
  DebugNumbers r = a;
  if (r.dtype == ir::DType::Bool) r.dtype = ir::DType::I64;
  for (double& x : r.f) x = -x;
  for (int64_t& x : r.i) x = static_cast<int64_t>(-static_cast<uint64_t>(x));
  round(&r);
  return r;
}

namespace {

DebugNumbers reduced(const std::string& name, const DebugNumbers& a) {
  DebugNumbers r;
  r.dtype = name == "any" || name == "all" ? ir::DType::Bool : a.dtype;
  if (name == "sum" && a.dtype == ir::DType::Bool) r.dtype = ir::DType::I64;
  if (name == "mean" && a.is_integer()) r.dtype = ir::DType::F64;
  const size_t n = a.size();
  if (n == 0 && (name == "min" || name == "max")) throw DebugError("there is no element");
  if (name == "any" || name == "all") {
    size_t set = 0;
    for (size_t k = 0; k < n; ++k) set += a.number(k) != 0;
    r.i = {name == "any" ? set > 0 : set == n};
    return r;
  }
  double f = 0;
  int64_t i = 0;
  const bool least = name == "min", most = name == "max";
  for (size_t k = 0; k < n; ++k) {
    if (a.is_integer() && (k == 0 || !(least || most))) i = k == 0 ? a.i[0] : i + a.i[k];
    else if (a.is_integer()) i = least ? std::min(i, a.i[k]) : std::max(i, a.i[k]);
    const double x = a.number(k);
    if (k == 0 || !(least || most)) f = k == 0 ? x : f + x;
    else if (std::isnan(x) || std::isnan(f)) f = std::nan("");
    else f = least ? std::min(f, x) : std::max(f, x);
  }
  if (name == "mean") f /= static_cast<double>(n);
  if (debug_is_integer(r.dtype)) r.i = {i};
  else r.f = {f};
  round(&r);
  return r;
}

}  // namespace

bool debug_function(const std::string& name, const DebugNumbers& a, DebugNumbers* result) {
  for (const char* reduction : {"min", "max", "sum", "mean", "any", "all"})
    if (name == reduction) return *result = reduced(name, a), true;
  const std::function<bool(double)> test = name == "isnan"      ? [](double x) { return std::isnan(x); }
                                           : name == "isinf"    ? [](double x) { return std::isinf(x); }
                                           : name == "isfinite" ? [](double x) { return std::isfinite(x); }
                                                                : std::function<bool(double)>();
  DebugNumbers r = a;
  if (test) {
    r.dtype = ir::DType::Bool;
    r.i.resize(a.size());
    for (size_t k = 0; k < a.size(); ++k) r.i[k] = test(a.number(k));
    r.f.clear();
    return *result = std::move(r), true;
  }
  double (*math)(double) = name == "sqrt"  ? static_cast<double (*)(double)>(std::sqrt)
                           : name == "exp" ? static_cast<double (*)(double)>(std::exp)
                           : name == "log" ? static_cast<double (*)(double)>(std::log)
                           : name == "abs" ? static_cast<double (*)(double)>(std::fabs)
                                           : nullptr;
  if (!math) return false;
  if (name == "abs" && a.is_integer()) {
    for (int64_t& x : r.i) x = std::abs(x);
  } else {
    if (a.is_integer()) r.dtype = ir::DType::F64, r.i.clear();
    r.f.resize(a.size());
    for (size_t k = 0; k < a.size(); ++k) r.f[k] = math(a.number(k));
  }
  round(&r);
  return *result = std::move(r), true;
}

}  // namespace pallasim::interp
