#include "compiler.h"

#include <algorithm>

#include "../plan/steps.h"
#include "pallasim/hw/machine.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

namespace {

// Every flag is named: a new one has to be handed on.
Semantics semantics_of(const hw::Arithmetic& a) {
  const auto& [nan_propagates_in_minmax, fp8_saturates, int_rem_zero_is_x, sign_of_nan_is_one] = a;
  return {nan_propagates_in_minmax, fp8_saturates, int_rem_zero_is_x, sign_of_nan_is_one};
}

}  // namespace

Compiler::Compiler(Plan& plan, Body& body)
    : plan_(plan),
      body_(body),
      m_(plan.module),
      ir_body_(m_.bodies[static_cast<size_t>(body.index)]),
      model_(*body.model),
      k_(plan.options.numerics == Options::Numerics::Reference ? reference_kernels() : kernels()),
      semantics_(semantics_of(model_.arithmetic)) {}

std::vector<int64_t> Compiler::dims_of(const ir::Type* t) const {
  std::vector<int64_t> r;
  for (const ir::Dim& d : t->dims) r.push_back(d.size);
  return r;
}

Step& Compiler::emit(StepFn fn, const void* payload) {
  Step s;
  s.fn = fn;
  s.payload = payload;
  s.loc = loc_;
  s.id = here();
  s.info = &kPlainStep;
  plan_.steps.push_back(s);
  targets_.push_back(-1);
  return plan_.steps.back();
}

Step& Compiler::emit(const StepInfo& info, const void* payload) {
  Step& s = emit(info.fn, payload);
  s.info = &info;
  return s;
}

void Compiler::unsupported(const Op& op, const std::string& what) {
  ir::Diagnostic d;
  d.code = "PS-UNSUP-001";
  d.kernel = m_.name;
  d.message = "unsupported: " + what;
  d.site = ir::site_of(m_, op.loc);
  d.numbers.push_back("operation " + std::string(ir::name(op.code)) + " on machine " +
                      std::string(ir::name(m_.machine)));
  d.hint = "nothing ran; docs/ops.md lists what every operation means, `pallasim info` what a kernel needs";
  throw ir::DiagnosticError(std::move(d));
}

// Before anything of that size is allocated.
void Compiler::require_memory(int64_t bytes, const std::string& what) {
  if (bytes > plan_.options.max_memory) too_much_memory(bytes, what);
}

void Compiler::too_much_memory(int64_t bytes, const std::string& what) {
  ir::Diagnostic d;
  d.code = "PS-SIZE-001";
  d.kernel = m_.name;
  d.message = "too much memory: " + what + ", " + std::to_string(bytes) + " bytes; the limit is " +
              std::to_string(plan_.options.max_memory);
  d.site = ir::site_of(m_, loc_);
  d.hint = "smaller blocks, or a higher max_memory";
  throw ir::DiagnosticError(std::move(d));
}

// ---- regions ----

namespace {
template <typename F>
void for_each_use(const ir::Op& op, const F& f) {
  for (ir::ValueId v : op.operands) f(v);
  for (const ir::Region& r : op.regions)
    for (const ir::Op& o : r.ops) for_each_use(o, f);
}
}  // namespace

// For every value: how often it is used, and after which operation of its own region it is dead.
void Compiler::compute_last_uses(const Region& region) {
  std::unordered_map<ir::ValueId, const Op*> last;
  for (const Op& op : region.ops) {
    for_each_use(op, [&](ir::ValueId v) { last[v] = &op; });
    for (ir::ValueId v : op.operands) ++uses_[v];
    for (const Region& r : op.regions) compute_last_uses(r);
  }
  for (const Op& op : region.ops)
    for (ir::ValueId v : op.results) {
      auto it = last.find(v);
      dies_[it == last.end() ? &op : it->second].push_back(v);
    }
}

void Compiler::compile_region_ops(const Region& region) {
  for (size_t i = 0; i + 1 < region.ops.size(); ++i) {
    const Op& op = region.ops[i];
    loc_ = op.loc;
    const Current outer = now_;
    now_ = {&op, body_.image.size(), plan_.steps.size()};
    if (plan_.bodies.size() > 1) check_reach(op);
    compile_op(op);
    now_ = outer;
    for (const Region& r : op.regions) forget(r);
    if (auto it = dies_.find(&op); it != dies_.end())
      for (ir::ValueId v : it->second) values_.erase(v);
  }
  loc_ = region.ops.back().loc;
}

// The values of a region end with it: what follows may run without it.
void Compiler::forget(const Region& region) {
  for (ir::ValueId a : region.args) values_.erase(a);
  for (const Op& op : region.ops)
    for (ir::ValueId v : op.results) values_.erase(v);
}

void Compiler::set_graph(const ir::Graph& graph) {
  graph_ = &graph;
  writes_ = std::make_unique<analysis::Writes>(graph);
  uses_.clear(), dies_.clear();
  compute_last_uses(graph.region);
}

// ---- structure ----

void Compiler::emit_fill_uninitialized(const Val& ref) {
  FillPayload p{};
  p.dst = ref.addr;
  p.dims = {ref.elements()};
  p.strides = {1};
  p.size = ir::byte_size(ref.dtype);
  p.element = memory::uninitialized(ref.dtype, plan_.options.uninitialized);
  p.name = ref.name.empty() ? "an allocation" : ref.name;
  emit(ops::fill, plan_.own(std::move(p)));
}

void Compiler::compile_op(const Op& op) {
  using C = ir::OpCode;
  switch (op.code) {
    case C::constant: return op_constant(op);
    case C::dim_value: return op_dim_value(op);
    case C::iota: return op_iota(op);
    case C::broadcast_in_dim: return op_broadcast(op);
    case C::reshape: return op_reshape(op);
    case C::transpose: return op_transpose(op);
    case C::slice: return op_slice(op);
    case C::dynamic_slice: return op_dynamic_slice(op);
    case C::dynamic_update_slice: return op_dynamic_update(op);
    case C::concatenate: return op_concatenate(op);
    case C::pad: return op_pad(op);
    case C::rev: return op_rev(op);
    case C::tile:
    case C::repeat: return op_tile(op);
    case C::roll: return op_roll(op);
    case C::einshape: return op_einshape(op);
    case C::bitcast_tpu: return op_bitcast_tpu(op);
    case C::pack_elementwise: return op_pack(op);
    case C::unpack_elementwise: return op_unpack(op);
    case C::stochastic_round: return op_stochastic_round(op);
    case C::sort: return op_sort(op);
    case C::top_k: return op_top_k(op);
    case C::gather: return op_gather(op);
    case C::scatter:
    case C::scatter_add:
    case C::scatter_sub:
    case C::scatter_mul:
    case C::scatter_min:
    case C::scatter_max: return op_scatter(op);
    case C::split: return op_split(op);
    case C::stack: return op_stack(op);
    case C::unstack: return op_unstack(op);
    case C::convert: return op_convert(op);
    case C::bitcast_convert: return op_bitcast(op);
    case C::select_n: return op_select(op);
    case C::reduce_sum:
    case C::reduce_prod:
    case C::reduce_max:
    case C::reduce_min:
    case C::reduce_and:
    case C::reduce_or:
    case C::reduce_xor: return op_reduce(op);
    case C::reduce: return op_reduce_region(op);
    case C::argmax:
    case C::argmin: return op_arg_reduce(op);
    case C::cumsum:
    case C::cumprod:
    case C::cummax:
    case C::cummin:
    case C::cumlogsumexp: return op_cumulative(op);
    case C::dot_general: return op_dot(op);
    case C::conv_general_dilated: return op_convolution(op);
    case C::get: return op_get(op);
    case C::store: return op_store(op);
    case C::swap: return op_swap(op);
    case C::addupdate: return op_addupdate(op);
    case C::masked_load:
    case C::masked_store:
    case C::masked_swap: return op_masked(op);
    case C::atomic_rmw:
    case C::atomic_cas: return op_atomic(op);
    case C::inline_asm: return op_inline_asm(op);
    case C::view: return op_view(op);
    case C::matmul_push_rhs:
    case C::matmul_acc_lhs:
    case C::matmul_pop: return op_mxu(op);
    case C::prng_seed:
    case C::prng_random_bits:
    case C::rng_bit_generator:
    case C::threefry2x32:
    case C::iota_2x32:
    case C::random_wrap:
    case C::random_unwrap:
    case C::random_clone:
    case C::prng_join:
    case C::prng_split: return op_random(op);
    case C::cond: return op_cond(op);
    case C::while_: return op_while(op);
    case C::for_: return op_for(op);
    case C::run_scoped: return op_scoped(op);
    case C::empty_ref:
    case C::new_ref: return op_new_ref(op);
    case C::freeze: return op_freeze(op);
    case C::call: return op_call(op);
    case C::program_id:
    case C::num_programs:
    case C::axis_index:
    case C::axis_size: return op_index(op);
    case C::sem_signal:
    case C::sem_wait:
    case C::sem_read: return op_semaphore(op);
    case C::get_barrier_semaphore: return op_barrier_semaphore(op);
    case C::dma_start: return op_dma_start(op);
    case C::dma_wait: return op_dma_wait(op);
    case C::select_ref: return op_select_ref(op);
    case C::debug_print: return op_print(op);
    case C::check: return op_check(op);
    case C::debug_callback: return op_host_call(op);
    case C::multiple_of:
    case C::max_contiguous:
    case C::optimization_barrier:
    case C::layout_cast:
    case C::stop_gradient:
    case C::memory_space_constraint: return op_identity(op);
    case C::touch:
    case C::trace_mark:
    case C::trace_value:
    case C::print_layout:
    case C::set_max_registers:
    case C::delay:
    case C::debug_barrier: return;
    default: break;
  }
  if (ir::info(op.code).family == ir::Family::Elementwise) return op_elementwise(op);
  unsupported(op, op.code == C::extern_ ? "primitive " + (op.attr("name") ? op.attr("name")->s : "?")
                                        : std::string(ir::name(op.code)));
}

}  // namespace pallasim::interp
