// Sorts of operations, and the sizes of what they are given.
#include "cost.h"

#include <algorithm>

namespace pallasim::hw {

using ir::OpCode;
using enum ir::OpCode;

// clang-format off
Sort sort_of(OpCode c) {
  switch (c) {
    case constant: case iota: case broadcast_in_dim: case reshape: case stop_gradient: case bitcast_convert: case real:
    case imag: case complex: case conj: case split: case unstack: case multiple_of: case max_contiguous:
    case optimization_barrier: case layout_cast: case print_layout: case set_max_registers:
    case memory_space_constraint: case select_ref: case view: case get_global: case empty_ref: case slice:
    case touch: case debug_print: case debug_callback: case trace_value: case trace_mark: case debug_barrier:
      return Sort::Free;
    case convert: case reduce_precision: case stochastic_round: case pack_elementwise: case unpack_elementwise:
      return Sort::Convert;
    case div: case reciprocal: return Sort::Divide;
    case rem: return Sort::Integer;
    case exp: return Sort::Exp;
    case exp2: return Sort::Exp2;
    case log: case log2: case log1p: case expm1: return Sort::Log;
    case tanh: case erf: return Sort::Tanh;
    case logistic: return Sort::Logistic;
    case sqrt: case rsqrt: case cbrt: return Sort::Root;
    case sin: case cos: case tan: return Sort::Trigonometric;
    case sinh: case cosh: case asin: case acos: case atan: case asinh: case acosh: case atanh: case erfc: case erf_inv:
    case lgamma: case digamma: case bessel_i0e: case bessel_i1e: case pow: case atan2: case igamma: case igammac:
    case zeta: case polygamma: case nextafter: case regularized_incomplete_beta:
      return Sort::Long;
    case transpose: case concatenate: case pad: case rev: case gather: case scatter: case scatter_add: case scatter_mul:
    case scatter_min: case scatter_max: case scatter_sub: case dynamic_slice: case dynamic_update_slice: case tile:
    case repeat: case stack: case roll: case einshape: case bitcast_tpu:
      return Sort::Move;
    case sort: case top_k: return Sort::Sort_;
    case reduce_sum: case reduce_prod: case reduce_max: case reduce_min: case reduce_and: case reduce_or:
    case reduce_xor: case reduce: case argmax: case argmin:
      return Sort::Reduce;
    case cumsum: case cumprod: case cummax: case cummin: case cumlogsumexp: return Sort::Scan;
    case dot_general: case conv_general_dilated:
      return Sort::Product;
    case get: case masked_load: case freeze: return Sort::Load;
    case store: case masked_store: case swap: case masked_swap: case addupdate: case atomic_rmw: case atomic_cas:
    case gpu_atomic_store:
      return Sort::Store;
    case prng_seed: case prng_random_bits: case rng_bit_generator: case threefry2x32: case iota_2x32:
      return Sort::Random;
    default: break;
  }
  return ir::info(c).family == ir::Family::Elementwise ? Sort::Simple : Sort::Control;
}

// clang-format on

std::string_view figure_of(Sort s) {
  constexpr std::string_view kNames[] = {
      "free", "simple",  "convert", "divide", "exp",  "exp2", "log",     "tanh", "logistic", "root",   "trigonometric",
      "long", "integer", "move",    "reduce", "scan", "sort", "product", "load", "store",    "random", "control"};
  return kNames[static_cast<size_t>(s)];
}

static const ir::Type* tensor(const ir::Type* t) { return t && !t->is_ref && t->is_static() ? t : nullptr; }

const ir::Type* operand_type(const ir::Op& op, const ir::Graph& g, size_t i) {
  return i < op.operands.size() ? tensor(g.type(op.operands[i])) : nullptr;
}

const ir::Type* result_type(const ir::Op& op, const ir::Graph& g, size_t i) {
  return i < op.results.size() ? tensor(g.type(op.results[i])) : nullptr;
}

const ir::Type* moved_type(const ir::Op& op, const ir::Graph& g) {
  if (op.code == gpu_atomic_store) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (const ir::Type* t = operand_type(op, g, i); t && !t->is_scalar()) return t;
  }
  if (sort_of(op.code) == Sort::Store) return operand_type(op, g, 1);
  return result_type(op, g);
}

ir::Space space_of(const ir::Op& op, const ir::Graph& g) {
  if (op.operands.empty()) return ir::Space::Any;
  const ir::Type* t = g.type(op.operands[0]);
  return t ? t->space : ir::Space::Any;
}

double ProductShape::flops() const {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

static std::vector<int64_t> ints(const ir::Op& op, std::string_view key) {
  std::vector<int64_t> r;
  if (const ir::Attr* a = op.attr(key))
    for (const ir::Attr& x : a->items) r.push_back(x.i);
  return r;
}

// One of jax.lax.DotAlgorithmPreset, of operands of f32: a_b_sum, and in how many products of A and B it is split. What
// conversions of operands take is not known; where each is converted once the rate stays that of f32 in their place.
static void follow(std::string_view algorithm, ProductShape* p) {
  p->highest = p->highest || algorithm == "f32_f32_f32";
  for (const int n : {3, 6, 9})
    if (algorithm.ends_with("_x" + std::to_string(n))) p->passes = n;
  if (p->passes > 1 && algorithm.starts_with("bf16_")) p->dtype = ir::DType::BF16;
}

ProductShape product_shape(const ir::Op& op, const ir::Graph& g) {
  ProductShape p;
  const ir::Type *a = operand_type(op, g, 0), *b = operand_type(op, g, 1);
  if (!a || !b) return p;
  p.dtype = ir::bit_width(a->dtype) >= ir::bit_width(b->dtype) ? a->dtype : b->dtype;
  const auto lc = ints(op, "lhs_contract"), lb = ints(op, "lhs_batch"), rc = ints(op, "rhs_contract"),
             rb = ints(op, "rhs_batch");
  const auto in = [](const std::vector<int64_t>& v, size_t d) {
    return std::find(v.begin(), v.end(), static_cast<int64_t>(d)) != v.end();
  };
  for (size_t d = 0; d < a->dims.size(); ++d) (in(lc, d) ? p.k : in(lb, d) ? p.batch : p.m) *= a->dims[d].size;
  for (size_t d = 0; d < b->dims.size(); ++d)
    if (!in(rc, d) && !in(rb, d)) p.n *= b->dims[d].size;
  p.right_k_last = !b->dims.empty() && in(rc, b->dims.size() - 1);
  if (const ir::Attr* how = op.attr("precision")) {
    const auto highest = [](const ir::Attr& x) { return x.s == "HIGHEST" || x.s == "highest" || x.s == "fp32"; };
    p.highest = highest(*how) || std::any_of(how->items.begin(), how->items.end(), highest);
    if (p.dtype == ir::DType::F32) follow(how->s, &p);
  }
  return p;
}

std::unique_ptr<CostModel> cost_model(const ir::Module& m, const Profile& p, const TimingFigures& f, int64_t warps) {
  return p.family == Family::Gpu ? gpu_cost_model(m, p, f, warps) : tpu_cost_model(m, p, f);
}

}  // namespace pallasim::hw
