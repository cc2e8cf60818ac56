// Which arithmetic a chip's matrix unit uses for a dot of given types and precision.
#include <string>

#include "../../plan/payload/arithmetic.h"
#include "matrix_unit.h"
#include "pallasim/hw/machine.h"

namespace pallasim::interp {
namespace {

using Format = MatrixUnit::Format;

MatrixUnit split(Format f, int parts, int passes) { return {false, f, parts, passes}; }

bool ends_with(const std::string& s, const std::string& end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

// The name of a precision or of an algorithm, "default" where none is given. Two precisions: the higher one.
std::string precision_name(const ir::Attr* a) {
  if (!a || a->is(ir::Attr::Kind::Int)) return "default";
  if (a->items.empty()) return a->s.empty() || a->s == "none" ? "default" : a->s;
  std::string best = "default";
  for (const ir::Attr& i : a->items) {
    const std::string name = precision_name(&i);
    if (name == "highest" || (name == "high" && best == "default")) best = name;
  }
  return best;
}

// Algorithms by name: bf16_bf16_f32_x3 and its kin.
bool algorithm(const std::string& name, MatrixUnit* out) {
  const int n = ends_with(name, "_x9") ? 9 : ends_with(name, "_x6") ? 6 : ends_with(name, "_x3") ? 3 : 1;
  const int parts = n == 1 ? 1 : n == 3 ? 2 : 3;
  if (name.rfind("bf16_bf16_f32", 0) == 0) *out = split(Format::Bf16, parts, n);
  else if (name.rfind("tf32_tf32_f32", 0) == 0) *out = split(Format::Tf32, parts, n);
  else if (name.rfind("f16_f16_f32", 0) == 0) *out = split(Format::F16, 1, 1);
  else return false;
  return true;
}

}  // namespace

MatrixUnit matrix_unit(Emitter& e, const Op& op, const Contraction& c) {
  MatrixUnit unit;
  if (e.options().numerics != Options::Numerics::Device || !ir::is_float(c.in) || !ir::is_float(c.in_rhs) ||
      c.accumulate)
    return unit;
  if (compute_type(c.in) != CType::F32 || compute_type(c.in_rhs) != CType::F32 || compute_type(c.out) != CType::F32)
    return unit;
  const bool f32 = c.in == ir::DType::F32 && c.in_rhs == ir::DType::F32;
  const std::string name = precision_name(op.attr("precision"));
  if (e.model().matrix == hw::MatrixRule::Bfloat16Parts) {
    if (!f32 || algorithm(name, &unit)) return unit;
    return name == "highest" ? split(Format::Bf16, 3, 6)
           : name == "high"  ? split(Format::Bf16, 2, 3)
                             : split(Format::Bf16, 1, 1);
  }
  if (e.model().matrix != hw::MatrixRule::TensorCores) return unit;
  if (f32) {
    if (!algorithm(name, &unit) && (name == "default" || name == "high")) unit = split(Format::Tf32, 1, 1);
    if (unit.plain) return unit;  // f32 multiply and add
  } else {
    unit.plain = false;
  }
  if (ir::bit_width(c.in) >= 8) unit.sum = e.options().chip->tensor_sum;  // f4 without scales is no instruction's
  unit.plain = unit.format == Format::Operand && !unit.aligned();
  return unit;
}

MatrixUnit accumulating_unit(Emitter& e, const Contraction& c) {
  MatrixUnit unit;
  if (compute_type(c.out) != CType::F32) return unit;
  unit.plain = c.out == ir::DType::F32;  // narrower sums are rounded once per product
  if (e.options().numerics != Options::Numerics::Device || e.model().matrix != hw::MatrixRule::TensorCores) return unit;
  if (c.in == ir::DType::F32) unit.format = Format::Tf32Cut;
  unit.sum = e.options().chip->tensor_sum;
  unit.plain = unit.plain && unit.format == Format::Operand && !unit.aligned();
  return unit;
}

}  // namespace pallasim::interp
