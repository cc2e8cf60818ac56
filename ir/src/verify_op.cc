#include <algorithm>

#include <fmt/format.h>

#include "dim_expr.h"
#include "print_attr.h"
#include "text.h"
#include "verify.h"

namespace pallasim::ir {

void OpCheck::fail(Code code, std::string message, std::string hint) const {
  Diagnostic(code, fmt::format("'{}': {}", info.name, message))
      .of(m.name)
      .at(site_of(m, op.loc))
      .with({"operation: " + op_text(g, op)})
      .hinted(std::move(hint))
      .raise();
}

void OpCheck::bad_operand(int i, const std::string& expected, std::string hint) const {
  fail("PS-IR-107",
       fmt::format("operand {} (%{}) has type {}, but {}", i, op.operands[static_cast<size_t>(i)], to_string(in(i)),
                   expected),
       std::move(hint));
}

void OpCheck::bad_result(int i, const std::string& expected, std::string hint) const {
  fail("PS-IR-108",
       fmt::format("result {} (%{}) has type {}, but {}", i, op.results[static_cast<size_t>(i)], to_string(out(i)),
                   expected),
       std::move(hint));
}

void OpCheck::bad_attr(const std::string& key, const std::string& why) const {
  const Attr* a = op.attr(key);
  fail("PS-IR-109", fmt::format("attribute '{}' = {}: {}", key, a ? to_string(*a) : "absent", why));
}

void OpCheck::need_results(int n) const {
  if (num_out() != n) fail("PS-IR-106", fmt::format("{} instead of {}", plural(num_out(), "result"), n));
}

void OpCheck::need_tensor(int i) const {
  if (in(i).is_ref) bad_operand(i, "a tensor is needed", "read the ref with 'get'");
  if (!is_value(in(i).dtype)) bad_operand(i, "a tensor of values is needed");
}

void OpCheck::need_int_scalar(int i) const {
  if (in(i).is_ref || !in(i).is_scalar() || !is_int(in(i).dtype)) bad_operand(i, "an integer scalar is needed");
}

void OpCheck::need_out_tensor(int i) const {
  if (out(i).is_ref) bad_result(i, "the result is a tensor");
}

void OpCheck::need_out(DType dtype, const std::vector<Dim>& dims, const char* why) const {
  need_results(1);
  const Type& t = out();
  if (!t.is_ref && t.dtype == dtype && may_equal(t.dims, dims)) return;
  bad_result(0, fmt::format("{} gives {}", why, shape_text(dtype, dims)));
}

int64_t OpCheck::int_attr(const char* key, int64_t otherwise) const {
  const Attr* a = op.attr(key);
  return a && a->is_int() ? a->i : otherwise;
}

std::vector<Dim> OpCheck::dims_attr(const char* key) const {
  std::vector<Dim> r;
  const Attr* a = op.attr(key);
  if (!a) return r;
  for (const Attr& x : a->items) {
    Dim d;
    is_dim(x, &d);
    r.push_back(std::move(d));
  }
  return r;
}

int OpCheck::axis_attr(const char* key, int rank) const {
  const int64_t axis = int_attr(key);
  if (axis < 0 || axis >= rank) bad_attr(key, fmt::format("not an axis of an array of rank {}", rank));
  return static_cast<int>(axis);
}

std::vector<int64_t> OpCheck::axes_attr(const char* key, int rank) const {
  std::vector<int64_t> r;
  uint64_t seen = 0;
  for (const Attr& a : op.attr(key)->items) {
    if (!a.is_int() || a.i < 0 || a.i >= rank || a.i >= 64)
      bad_attr(key, fmt::format("{} is not an axis of an array of rank {}", to_string(a), rank));
    if (seen >> a.i & 1) bad_attr(key, fmt::format("axis {} occurs twice", a.i));
    seen |= uint64_t{1} << a.i;
    r.push_back(a.i);
  }
  return r;
}

bool may_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a.size == b.size; }

bool may_equal(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Dim& x, const Dim& y) { return may_equal(x, y); });
}

bool same_space(Space a, Space b) {
  auto open = [](Space s) { return s == Space::Any || s == Space::Default; };
  return a == b || open(a) || open(b);
}

bool same_type(const Type& a, const Type& b) {
  if (&a == &b) return true;
  if (a.is_ref != b.is_ref) return false;
  if (a.is_ref) {
    const bool members = std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                                    [](const Type* x, const Type* y) { return same_type(*x, *y); });
    return members && same_space(a.space, b.space) && a.dtype == b.dtype && may_equal(a.dims, b.dims);
  }
  return a.dtype == b.dtype && may_equal(a.dims, b.dims);
}

std::string shape_text(DType dtype, const std::vector<Dim>& dims) {
  Type t;
  t.dtype = dtype;
  t.dims = dims;
  return to_string(t);
}

namespace {
// A dimension written as an attribute: 8, n, add(n, 1).
bool dim_text(const Attr& a, std::string* out, int depth) {
  if (depth > 256) return false;
  if (a.is_int()) return *out += std::to_string(a.i), true;
  if (a.is(Attr::Kind::Symbol)) return *out += a.s, true;
  if (!a.is(Attr::Kind::Call) || !is_dim_operation(a.s) || a.items.size() != 2) return false;
  *out += a.s + '(';
  if (!dim_text(a.items[0], out, depth + 1)) return false;
  *out += ',';
  if (!dim_text(a.items[1], out, depth + 1)) return false;
  *out += ')';
  return true;
}
}  // namespace

bool is_dim(const Attr& a, Dim* out) {
  if (a.is_int()) {
    if (out) *out = Dim(a.i);
    return true;
  }
  std::string text;
  if (!dim_text(a, &text, 0)) return false;
  if (out) *out = Dim(std::move(text));
  return true;
}

}  // namespace pallasim::ir
