// Scalars live in slots, in their compute type.
#include <algorithm>
#include <bit>
#include <optional>

#include "../../plan/payload/arithmetic.h"
#include "../../plan/payload/places.h"
#include "../../plan/steps.h"
#include "emitter.h"
#include "pallasim/interp/rewrites.h"

namespace pallasim::interp {

bool is_wide(ir::DType t) {
  const CType c = compute_type(t);
  return c == CType::I64 || c == CType::U64;
}

uint32_t scalar_slot(Emitter& e, const Val& v) {
  if (v.is_uniform()) return v.scalar().slot;
  return load_scalar(e, strided(e, v)).scalar().slot;
}

Val Emitter::new_scalar(ir::DType dtype, ir::ValueId result) {
  const auto it = preassigned_.find(result);
  if (it == preassigned_.end()) return scalar_in(new_slot(), dtype);
  const Preassigned to = it->second;
  preassigned_.erase(it);
  if (slot_is_read(to.slot, to.carry)) return scalar_in(new_slot(), dtype);
  count(Rewrite::CarryInPlace);
  return scalar_in(to.slot, dtype);
}

Val load_scalar(Emitter& e, const Val& memory, ir::ValueId result) {
  const Val r = e.new_scalar(memory.dtype, result);
  ScalarAccess p;
  p.addr = memory.memory().addr;
  p.load = e.kernels().load(memory.dtype);
  p.bytes = ir::byte_size(memory.dtype);
  p.ref = memory.memory().name;
  e.emit<Kind::load_scalar>(e.functions().load_scalar, std::move(p)).dst = r.scalar().slot;
  return r;
}

void move_scalar(Emitter& e, uint32_t dst, uint32_t src, ir::DType dtype) {
  if (dst == src) return;
  Step& s = e.emit(e.functions().move_slot(byte_size(compute_type(dtype))));
  s.dst = dst;
  s.a = src;
}

// n where a scalar is known to be 2 to the power of n, as a divisor; otherwise -1.
static int power_of_two(const Val& v) {
  if (!v.is_uniform() || !v.scalar().is_const || !ir::is_int(v.dtype)) return -1;
  const int bits = 8 * byte_size(compute_type(v.dtype));
  const uint64_t x = bits < 64 ? v.scalar().bits & ((uint64_t{1} << bits) - 1) : v.scalar().bits;
  const bool positive = x != 0 && (!ir::is_signed_int(v.dtype) || (x >> (bits - 1)) == 0);
  return positive && std::has_single_bit(x) ? std::countr_zero(x) : -1;
}

// What an operation of integers or truth values gives for constants, by the function that a run would call.
static std::optional<Val> folded(Emitter& e, ir::OpCode op, ir::DType operand, ir::DType result,
                                 const std::vector<Val>& args, const StripParams& params) {
  const auto whole = [](ir::DType t) {
    return t == ir::DType::Bool || t == ir::DType::I32 || t == ir::DType::U32 || t == ir::DType::I64 ||
           t == ir::DType::U64;
  };
  const auto known = [&](const Val& v) { return v.is_uniform() && v.scalar().is_const && whole(v.dtype); };
  const StripFn strip = e.kernels().strip(op, operand);
  if (!e.options().fuse || !strip || !whole(result) || args.size() > 3 || !std::all_of(args.begin(), args.end(), known))
    return {};
  alignas(16) uint64_t in[3][2] = {}, out[2] = {};
  for (size_t i = 0; i < args.size(); ++i) in[i][0] = args[i].scalar().bits;
  strip(out, in[0], in[1], in[2], 1, params);
  count(Rewrite::FoldedScalar);
  return Val(result, {}, Val::Scalar{{e.const_slot(compute_type(result), out), true, out[0]}});
}

Val scalar_result(Emitter& e, ir::OpCode op, ir::DType operand, ir::DType result, const std::vector<Val>& args,
                  const StripParams& params, ir::ValueId defines) {
  if (const std::optional<Val> known = folded(e, op, operand, result, args, params)) return *known;
  uint32_t in[3] = {};
  for (size_t i = 0; i < args.size() && i < 3; ++i) in[i] = scalar_slot(e, args[i]);
  const Val r = e.new_scalar(result, defines);
  const bool plain = operand == ir::DType::Bool || operand == ir::DType::I32 || operand == ir::DType::U32 ||
                     operand == ir::DType::I64 || operand == ir::DType::U64 || operand == ir::DType::F32 ||
                     operand == ir::DType::F64;
  const StepForm* inline_body = op == ir::OpCode::select_n
                                    ? &e.functions().scalar_select(byte_size(compute_type(result)))
                                : plain ? e.functions().scalar(op, compute_type(operand))
                                        : nullptr;
  const int power = plain && args.size() == 2 ? power_of_two(args[1]) : -1;
  const StepForm* by_power = power < 0 ? nullptr : e.functions().scalar_by_power(op, compute_type(operand));
  if (by_power) inline_body = by_power, count(Rewrite::ScalarByPower);
  Step& s = inline_body ? e.emit(*inline_body)
                        : e.emit<Kind::scalar_strip>(ScalarStrip{static_cast<int>(args.size()),
                                                                 e.kernels().strip(op, operand), nullptr, params});
  s.dst = r.scalar().slot;
  s.a = in[0];
  s.b = in[1];
  s.c = in[2];
  s.imm = by_power ? power : e.semantics().int_rem_zero_is_x;
  return r;
}

Val scalar_convert(Emitter& e, const Val& v, ir::DType to, ir::ValueId result) {
  if (v.dtype == to) return v;
  const uint32_t from = scalar_slot(e, v);
  const Val r = e.new_scalar(to, result);
  auto wide = [](ir::DType t) {
    return t == ir::DType::I32 || t == ir::DType::U32 || t == ir::DType::I64 || t == ir::DType::U64 ||
           t == ir::DType::F64 || t == ir::DType::F32 || t == ir::DType::Bool;
  };
  const StepForm* cast =
      wide(v.dtype) && wide(to) ? e.functions().scalar_convert(compute_type(v.dtype), compute_type(to)) : nullptr;
  StripParams params;
  params.semantics = e.semantics();
  Step& s = cast ? e.emit(*cast)
                 : e.emit<Kind::scalar_strip>(ScalarStrip{1, nullptr, e.kernels().convert(v.dtype, to), params});
  s.dst = r.scalar().slot;
  s.a = s.b = s.c = from;
  return r;
}

}  // namespace pallasim::interp
