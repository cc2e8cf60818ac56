#include <fmt/format.h>

#include "verify.h"

namespace pallasim::ir {
namespace {

enum : unsigned {
  kBool = 1,
  kInt = 2,
  kFloat = 4,
  kComplex = 8,
  kKey = 16,
  kNumber = kInt | kFloat | kComplex,
  kAny = 31
};

unsigned class_of(DType t) {
  switch (info(t).cls) {
    case DTypeClass::Bool: return kBool;
    case DTypeClass::Int:
    case DTypeClass::UInt: return kInt;
    case DTypeClass::Float: return kFloat;
    case DTypeClass::Complex: return kComplex;
    case DTypeClass::Key: return kKey;
    case DTypeClass::Sync: return 0;
  }
  return 0;
}

// The element types that lax accepts for an operation under the rule Same.
unsigned domain(OpCode op) {
  switch (op) {
    case OpCode::stop_gradient:
    case OpCode::rev: return kAny;
    case OpCode::not_:
    case OpCode::and_:
    case OpCode::or_:
    case OpCode::xor_: return kBool | kInt;
    case OpCode::clz:
    case OpCode::population_count:
    case OpCode::mulhi:
    case OpCode::shift_left:
    case OpCode::shift_right_logical:
    case OpCode::shift_right_arithmetic: return kInt;
    case OpCode::ceil:
    case OpCode::floor:
    case OpCode::round:
    case OpCode::reduce_precision:
    case OpCode::erf:
    case OpCode::erfc:
    case OpCode::erf_inv:
    case OpCode::lgamma:
    case OpCode::digamma:
    case OpCode::bessel_i0e:
    case OpCode::bessel_i1e:
    case OpCode::igamma:
    case OpCode::igammac:
    case OpCode::zeta:
    case OpCode::polygamma:
    case OpCode::nextafter:
    case OpCode::copysign:
    case OpCode::regularized_incomplete_beta: return kFloat;
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::cbrt:
    case OpCode::exp:
    case OpCode::exp2:
    case OpCode::expm1:
    case OpCode::log:
    case OpCode::log1p:
    case OpCode::logistic:
    case OpCode::sin:
    case OpCode::cos:
    case OpCode::tan:
    case OpCode::sinh:
    case OpCode::cosh:
    case OpCode::tanh:
    case OpCode::asin:
    case OpCode::acos:
    case OpCode::atan:
    case OpCode::asinh:
    case OpCode::acosh:
    case OpCode::atanh:
    case OpCode::atan2:
    case OpCode::reciprocal: return kFloat | kComplex;
    default: return kBool | kNumber;
  }
}

std::string domain_text(unsigned d) {
  constexpr std::pair<unsigned, const char*> kNames[] = {
      {kBool, "bool"}, {kInt, "integers"}, {kFloat, "floats"}, {kComplex, "complex numbers"}, {kKey, "keys"}};
  std::string r;
  for (const auto& [bit, text] : kNames)
    if (d & bit) r += (r.empty() ? "" : ", ") + std::string(text);
  return r;
}

void need_class(const OpCheck& c, int i, unsigned allowed) {
  c.need_tensor(i);
  if (!(class_of(c.in(i).dtype) & allowed))
    c.bad_operand(i, fmt::format("'{}' takes {}", c.info.name, domain_text(allowed)));
}

// The operand that gives an elementwise operation its shape: the first that is not a scalar. Checks the others against
// it.
int shape_operand(const OpCheck& c, int first) {
  int lead = first;
  for (int i = first; i < c.num_in(); ++i) {
    if (c.in(i).is_scalar()) continue;
    if (c.in(lead).is_scalar()) lead = i;
    else if (!may_equal(c.in(i).dims, c.in(lead).dims))
      c.bad_operand(i, fmt::format("operand {} has type {}", lead, to_string(c.in(lead))),
                    "elementwise operands have one shape or are scalars");
  }
  return lead;
}

void one_dtype(const OpCheck& c, int first) {
  for (int i = first + 1; i < c.num_in(); ++i)
    if (c.in(i).dtype != c.in(first).dtype)
      c.bad_operand(i, fmt::format("operand {} has type {}", first, to_string(c.in(first))),
                    "elementwise operands have one element type; use 'convert'");
}

DType part_of(DType t) { return t == DType::C64 ? DType::F32 : DType::F64; }

}  // namespace

void rule_same(const OpCheck& c) {
  for (int i = 0; i < c.num_in(); ++i) need_class(c, i, domain(c.op.code));
  one_dtype(c, 0);
  const int lead = shape_operand(c, 0);
  c.need_out(c.in(0).dtype, c.in(lead).dims, "the operation");
  if (c.op.code == OpCode::rev) c.axes_attr("axes", c.in(0).rank());
  if (c.op.code == OpCode::reduce_precision) {
    if (c.int_attr("exponent_bits") < 1) c.bad_attr("exponent_bits", "at least one bit is needed");
    if (c.int_attr("mantissa_bits") < 0) c.bad_attr("mantissa_bits", "no format has fewer than no bits");
  }
}

void rule_abs(const OpCheck& c) {
  need_class(c, 0, kNumber);
  const DType t = c.in(0).dtype;
  c.need_out(is_complex(t) ? part_of(t) : t, c.in(0).dims, "the operation");
}

void rule_complex_part(const OpCheck& c) {
  need_class(c, 0, kComplex);
  c.need_out(part_of(c.in(0).dtype), c.in(0).dims, "a part of a complex number");
}

void rule_predicate(const OpCheck& c) {
  need_class(c, 0, kFloat);
  c.need_out(DType::Bool, c.in(0).dims, "a predicate");
}

void rule_compare(const OpCheck& c) {
  const bool equality = c.op.code == OpCode::eq || c.op.code == OpCode::ne;
  for (int i = 0; i < 2; ++i) need_class(c, i, equality ? kAny : kBool | kInt | kFloat);
  one_dtype(c, 0);
  c.need_out(DType::Bool, c.in(shape_operand(c, 0)).dims, "a comparison");
}

void rule_pow(const OpCheck& c) {
  need_class(c, 0, kNumber);
  need_class(c, 1, kNumber);
  if (!is_int(c.in(1).dtype)) one_dtype(c, 0);
  c.need_out(c.in(0).dtype, c.in(shape_operand(c, 0)).dims, "a power");
}

void rule_select(const OpCheck& c) {
  c.need_tensor(0);
  const Type& which = c.in(0);
  if (which.dtype != DType::Bool && which.dtype != DType::I32) c.bad_operand(0, "the predicate is bool or i32");
  if (which.dtype == DType::Bool && c.num_in() > 3)
    c.fail("PS-IR-101", fmt::format("a bool predicate chooses between two cases, not {}", c.num_in() - 1));
  for (int i = 1; i < c.num_in(); ++i) need_class(c, i, kAny);
  one_dtype(c, 1);
  c.need_out(c.in(1).dtype, c.in(shape_operand(c, 0)).dims, "the selection");
}

void rule_clamp(const OpCheck& c) {
  for (int i = 0; i < 3; ++i) need_class(c, i, kBool | kNumber);
  one_dtype(c, 0);
  for (int i : {0, 2})
    if (!c.in(i).is_scalar() && !may_equal(c.in(i).dims, c.in(1).dims))
      c.bad_operand(i, fmt::format("the clamped operand 1 has type {}", to_string(c.in(1))));
  c.need_out(c.in(1).dtype, c.in(1).dims, "clamp");
}

void rule_convert(const OpCheck& c) {
  need_class(c, 0, kAny & ~kKey);
  c.need_results(1);
  c.need_out_tensor();
  if (!(class_of(c.out().dtype) & kAny & ~kKey)) c.bad_result(0, "a conversion gives numbers or bool");
  if (!may_equal(c.in(0).dims, c.out().dims)) c.bad_result(0, fmt::format("operand 0 has type {}", to_string(c.in(0))));
}

void rule_bitcast_convert(const OpCheck& c) {
  need_class(c, 0, kAny & ~kKey);
  c.need_results(1);
  c.need_out_tensor();
  const int from = bit_width(c.in(0).dtype), to = bit_width(c.out().dtype);
  if (to == 0 || (from % to && to % from))
    c.bad_result(0, fmt::format("the width of {} does not divide", name(c.in(0).dtype)));
  std::vector<Dim> dims = c.in(0).dims;
  if (from > to) {
    dims.emplace_back(from / to);
  } else if (from < to) {
    if (dims.empty() || !may_equal(dims.back(), Dim(to / from)))
      c.bad_operand(0, fmt::format("{} elements of {} make one {}: the last dimension must be {}", to / from,
                                   name(c.in(0).dtype), name(c.out().dtype), to / from));
    dims.pop_back();
  }
  c.need_out(c.out().dtype, dims, "the bitcast");
}

}  // namespace pallasim::ir
