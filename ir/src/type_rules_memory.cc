#include <fmt/format.h>

#include "print_attr.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

ViewShape viewed(const OpCheck& c) {
  if (!c.in(0).is_ref) c.bad_operand(0, "a ref is needed");
  return view_shape(c, c.in(0), c.op.attr("view"));
}

// "the ref shows f32[4,128]"
std::string shows(const ViewShape& v) { return "the ref shows " + shape_text(v.dtype, v.dims); }

bool fits(const Type& t, const ViewShape& v) {
  return !t.is_ref && (!v.known_dtype || t.dtype == v.dtype) && (!v.known_shape || may_equal(t.dims, v.dims));
}

void result_from(const OpCheck& c, const ViewShape& v) {
  c.need_results(1);
  if (!fits(c.out(), v)) c.bad_result(0, shows(v));
}

bool broadcasts_to(const std::vector<Dim>& from, const std::vector<Dim>& to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i)
    if (const Dim& d = from[from.size() - 1 - i]; d != Dim(1) && !may_equal(d, to[to.size() - 1 - i])) return false;
  return true;
}

// The operand that `mask = $k` or `other = $k` names must broadcast to the accessed elements.
void side_operand(const OpCheck& c, const char* key, DType dtype, const std::vector<Dim>& dims) {
  const Attr* a = c.op.attr(key);
  if (!a || !a->is(Attr::Kind::Operand)) return;
  const auto k = static_cast<int>(a->i);
  if (c.in(k).is_ref || c.in(k).dtype != dtype || !broadcasts_to(c.in(k).dims, dims))
    c.bad_operand(k, fmt::format("'{}' must be {} or broadcast to it", key, shape_text(dtype, dims)));
}

void stored_value(const OpCheck& c) {
  const ViewShape v = viewed(c);
  if (c.in(1).is_ref) c.bad_operand(1, "the value is a tensor", "read the ref with 'get'");
  if (!fits(c.in(1), v)) c.bad_operand(1, shows(v));
  side_operand(c, "mask", DType::Bool, c.in(1).dims);
}

}  // namespace

void rule_get(const OpCheck& c) { result_from(c, viewed(c)); }

void rule_masked_load(const OpCheck& c) {
  result_from(c, viewed(c));
  side_operand(c, "mask", DType::Bool, c.out().dims);
  side_operand(c, "other", c.out().dtype, c.out().dims);
}

void rule_store(const OpCheck& c) {
  c.need_results(0);
  stored_value(c);
}

void rule_swap(const OpCheck& c) {
  c.need_results(1);
  stored_value(c);
  if (!same_type(c.in(1), c.out())) c.bad_result(0, fmt::format("the stored value has type {}", to_string(c.in(1))));
}

void rule_ref_result(const OpCheck& c) {
  c.need_results(1);
  if (!c.out().is_ref) c.bad_result(0, "the result is a ref");
  if (c.op.code == OpCode::view) {
    const ViewShape v = viewed(c);
    const Type& r = c.out();
    if (r.members.empty() && ((v.known_dtype && r.dtype != v.dtype) || (v.known_shape && !may_equal(r.dims, v.dims))))
      c.bad_result(0, shows(v));
  } else if (c.op.code == OpCode::select_ref) {
    c.need_int_scalar(0);
    for (int i = 1; i < c.num_in(); ++i)
      if (!same_type(c.in(i), c.out())) c.bad_operand(i, fmt::format("the result has type {}", to_string(c.out())));
  } else if (c.op.code == OpCode::new_ref) {
    c.need_tensor(0);
    if (c.in(0).dtype != c.out().dtype || !may_equal(c.in(0).dims, c.out().dims))
      c.bad_result(0, fmt::format("the initial value has type {}", to_string(c.in(0))));
  }
}

}  // namespace pallasim::ir
