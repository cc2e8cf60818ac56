// Which operations the machines' compilers have (jax _src/pallas/mosaic/lowering.py and triton/lowering.py, 0.10.2).
#include <algorithm>
#include <iterator>

#include "rules.h"

namespace pallasim::hw {
namespace {

using ir::OpCode;
using enum ir::OpCode;

// Mosaic lowers what is not here.
// clang-format off
constexpr OpCode kNotOfTpu[] = {
    cbrt, expm1, sinh, cosh, asin, acos, atan, asinh, acosh, atanh, erfc, lgamma, digamma, bessel_i0e, bessel_i1e,
    real, imag, conj, complex, reduce_precision, igamma, igammac, zeta, polygamma, copysign, mulhi, eq_total,
    lt_total, le_total, regularized_incomplete_beta, dynamic_slice, dynamic_update_slice, rev, scatter, scatter_add,
    scatter_sub, scatter_mul, scatter_min, scatter_max, sort, top_k, reduce_prod, reduce_xor, reduce, cumsum,
    cumprod, cummax, cummin, cumlogsumexp, conv_general_dilated, addupdate, atomic_rmw, atomic_cas, addressof,
    debug_barrier, max_contiguous, inline_asm, rng_bit_generator, optimization_barrier};
// clang-format on

// clang-format off
constexpr OpCode kOfTriton[] = {
    abs, neg, sign, not_, ceil, floor, square, sqrt, rsqrt, cbrt, exp, exp2, expm1, log, log2, log1p, logistic, sin,
    cos, tan, sinh, cosh, tanh, asin, acos, atan, asinh, acosh, atanh, erf_inv, integer_pow, clz, population_count,
    is_finite, stop_gradient, convert, bitcast_convert, add, sub, mul, div, rem, max, min, pow, atan2, nextafter,
    and_, or_, xor_, shift_left, shift_right_logical, shift_right_arithmetic, eq, ne, lt, le, gt, ge, select_n,
    clamp, constant, iota, broadcast_in_dim, reshape, transpose, concatenate, stack, unstack, split, reduce_sum,
    reduce_max, reduce_min, argmax, argmin, cumsum, dot_general, get, store, swap, addupdate, masked_load,
    masked_store, masked_swap, atomic_rmw, atomic_cas, cond, while_, for_, call, yield, program_id, num_programs,
    axis_index, axis_size, debug_print, debug_barrier, multiple_of, max_contiguous, inline_asm};
// clang-format on

template <size_t N>
bool holds(const OpCode (&list)[N], OpCode c) {
  return std::find(std::begin(list), std::end(list), c) != std::end(list);
}

}  // namespace

bool tpu_has(OpCode c, int64_t jax) {
  if (jax >= 11 && (c == reduce_precision || c == conv_general_dilated)) return true;
  if (jax >= 12 && c == mulhi) return true;
  return !holds(kNotOfTpu, c);
}

bool triton_has(OpCode c) { return holds(kOfTriton, c); }

std::span<const ir::Machine> known_compilers() {
  static constexpr ir::Machine kMachines[] = {ir::Machine::Tpu, ir::Machine::Triton};
  return kMachines;
}

bool has_operation(ir::Machine machine, OpCode c) {
  switch (machine) {
    case ir::Machine::Tpu: return tpu_has(c, 10);
    case ir::Machine::Triton: return triton_has(c);
    default: return true;
  }
}

}  // namespace pallasim::hw
