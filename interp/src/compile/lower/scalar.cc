// Scalars live in slots, in their compute type.
#include <bit>

#include "../../plan/steps.h"
#include "../emitter.h"

namespace pallasim::interp {

uint32_t Emitter::new_slot() { return slot_block(1); }

// Slots are 16 bytes apart: the widest scalar is a c128.
uint32_t Emitter::slot_block(int n) {
  const auto s = static_cast<uint32_t>(body_.image.size());
  body_.image.resize(body_.image.size() + static_cast<size_t>(n) * 16);
  return s;
}

uint32_t Emitter::const_slot(CType type, const void* bytes) {
  uint64_t key = 0;
  std::memcpy(&key, bytes, static_cast<size_t>(std::min(8, byte_size(type))));
  if (byte_size(type) <= 8) {
    auto it = const_slots_.find({static_cast<int>(type), key});
    if (it != const_slots_.end()) return it->second;
  }
  const uint32_t s = new_slot();
  std::memcpy(body_.image.data() + s, bytes, static_cast<size_t>(byte_size(type)));
  if (byte_size(type) <= 8) const_slots_[{static_cast<int>(type), key}] = s;
  return s;
}

Val Emitter::const_scalar(ir::DType dtype, uint64_t memory_bits) {
  alignas(16) std::byte value[16] = {};
  k_.load(dtype)(value, &memory_bits, 1, 1);
  uint64_t bits = 0;
  std::memcpy(&bits, value, 8);
  return {dtype, {}, Val::Scalar{{const_slot(compute_type(dtype), value), true, bits}}};
}

Val Emitter::const_int(ir::DType dtype, int64_t value) { return const_scalar(dtype, static_cast<uint64_t>(value)); }

// n where a scalar is known to be 2 to the power of n, as a divisor; otherwise -1.
static int power_of_two(const Val& v) {
  if (!v.is_uniform() || !v.scalar().is_const || !ir::is_int(v.dtype)) return -1;
  const int bits = 8 * byte_size(compute_type(v.dtype));
  const uint64_t x = bits < 64 ? v.scalar().bits & ((uint64_t{1} << bits) - 1) : v.scalar().bits;
  const bool positive = x != 0 && (!ir::is_signed_int(v.dtype) || (x >> (bits - 1)) == 0);
  return positive && std::has_single_bit(x) ? std::countr_zero(x) : -1;
}

Val Emitter::scalar_result(ir::OpCode op, ir::DType operand, ir::DType result, const std::vector<Val>& args,
                           const StripParams& params) {
  const Val r = scalar_in(new_slot(), result);
  uint32_t in[3] = {};
  for (size_t i = 0; i < args.size() && i < 3; ++i) in[i] = scalar_slot(args[i]);
  const bool plain = operand == ir::DType::Bool || operand == ir::DType::I32 || operand == ir::DType::U32 ||
                     operand == ir::DType::I64 || operand == ir::DType::U64 || operand == ir::DType::F32 ||
                     operand == ir::DType::F64;
  StepFn fn = op == ir::OpCode::select_n ? ops::scalar_select
              : plain                    ? ops::scalar(op, compute_type(operand))
                                         : nullptr;
  const int power = plain && args.size() == 2 ? power_of_two(args[1]) : -1;
  const StepFn by_power = power < 0 ? nullptr : ops::scalar_by_power(op, compute_type(operand));
  if (by_power) fn = by_power;
  const void* payload = nullptr;
  if (!fn) {
    const StripFn strip = k_.strip(op, operand);
    payload = plan_.own(ops::ScalarStrip{strip, nullptr, params});
    fn = ops::scalar_strip;
  }
  Step& s = emit(fn, payload);
  s.dst = r.scalar().slot;
  s.a = in[0];
  s.b = in[1];
  s.c = in[2];
  s.imm = by_power ? power : semantics_.int_rem_zero_is_x;
  return r;
}

Val Emitter::scalar_convert(const Val& v, ir::DType to) {
  if (v.dtype == to) return v;
  const Val r = scalar_in(new_slot(), to);
  auto wide = [](ir::DType t) {
    return t == ir::DType::I32 || t == ir::DType::U32 || t == ir::DType::I64 || t == ir::DType::U64 ||
           t == ir::DType::F64 || t == ir::DType::F32 || t == ir::DType::Bool;
  };
  StepFn fn = wide(v.dtype) && wide(to) ? ops::scalar_convert(compute_type(v.dtype), compute_type(to)) : nullptr;
  const void* payload = nullptr;
  if (!fn) {
    StripParams params;
    params.semantics = semantics_;
    payload = plan_.own(ops::ScalarStrip{nullptr, k_.convert(v.dtype, to), params});
    fn = ops::scalar_strip;
  }
  Step& s = emit(fn, payload);
  s.dst = r.scalar().slot;
  s.a = s.b = s.c = scalar_slot(v);
  return r;
}

}  // namespace pallasim::interp
