// Rules of JAX's TPU lowering for TensorCores (jax _src/pallas/mosaic/lowering.py, 0.10.2) on operations and element
// types. What depends on the chip is what JAX's own tests say that a generation has (tests/pallas/tpu_*_test.py,
// 0.10.2). `jax_` ends the rules that are gone in the same file of 0.11.2 or 0.12.0.1.
#include <fmt/format.h>

#include <algorithm>

#include "pallasim/ir/equal.h"
#include "pallasim/ir/made.h"
#include "tpu_rules.h"
#include "tpu_types.h"

namespace pallasim::hw {
namespace {

using ir::DType;
using ir::OpCode;
using C = OpCode;

bool is_f8(DType t) { return ir::is_float(t) && ir::bit_width(t) == 8; }

// Products that the chip's matrix unit takes as they are (JAX's TpuInfo.is_matmul_supported, 0.10.2).
bool multiplies(int64_t generation, DType a, DType b) {
  auto in = [](DType t, std::initializer_list<DType> list) {
    return std::find(list.begin(), list.end(), t) != list.end();
  };
  if (generation <= 3) return a == DType::F32 && b == DType::F32;
  if (generation == 4) return in(a, {DType::F32, DType::BF16}) && in(b, {DType::F32, DType::BF16, DType::I8});
  if (generation <= 6) {
    const auto floats = {DType::F32, DType::BF16, DType::F8E5M2, DType::F8E4M3B11FNUZ};
    return (in(a, floats) && in(b, floats)) || (in(a, {DType::U8, DType::I8}) && in(b, {DType::U8, DType::I8})) ||
           (in(a, {DType::U4, DType::I4}) && in(b, {DType::U4, DType::I4}));
  }
  return in(a, {DType::F32, DType::BF16, DType::F8E5M2, DType::F8E4M3FN}) &&
         in(b, {DType::F32, DType::BF16, DType::F8E5M2, DType::F8E4M3FN}) &&
         (in(a, {DType::F32, DType::BF16}) || in(b, {DType::F8E5M2, DType::F8E4M3FN}));
}

// Of one integer twice, so that the compiler knows what comes of it.
bool is_trivial(const ir::Op& op, DType t) {
  if (op.operands.size() != 2 || op.operands[0] != op.operands[1] || ir::is_float(t)) return false;
  const auto codes = {C::max, C::min, C::and_, C::or_, C::xor_, C::sub, C::eq, C::ne, C::lt, C::le, C::gt, C::ge};
  return std::find(codes.begin(), codes.end(), op.code) != codes.end();
}

}  // namespace

void TpuRules::check() {
  for (const ir::Operand& o : m_.operands) memory_type(o.array->dtype, o.name, ir::made_at(m_.locs, o.attrs));
  for (const ir::Scratch& s : m_.scratch) memory_type(s.type->dtype, s.name, ir::made_at(m_.locs, s.attrs));
  for (const ir::Body& b : m_.bodies) {
    graph_ = &b.graph;
    defined_.clear(), loops_.clear(), folded_.clear(), squeezed_.clear(), divisors_.clear();
    note_blocks(b.graph);
    region(b.graph.region);
  }
  barrier();
}

// The barrier semaphore is chosen by collective_id (jax _src/tpu_custom_call.py, 0.10.2).
void TpuRules::barrier() {
  bool allowed = false;
  if (const ir::Attr* params = ir::find(m_.attrs, "params"))
    for (size_t i = 0; i < params->keys.size(); ++i)
      allowed =
          allowed || (params->keys[i] == "allow_collective_id_without_custom_barrier" && params->items[i].is_true());
  const bool has_id = ir::find(m_.attrs, "collective_id");
  if (has_barrier_ && !has_id)
    add("PS-TPU-002", "the barrier semaphore is used without a collective_id", -1,
        "compiler_params=pltpu.CompilerParams(collective_id=...): kernels that run at the same time have different "
        "ones");
  if (!has_barrier_ && has_id && !allowed)
    add("PS-TPU-002", "a collective_id, but the barrier semaphore is not used",
        ir::argument_at(m_, m_.locs, "collective_id"), "leave it out, or use pltpu.get_barrier_semaphore()");
}

// Every operand, once: what lies in memory as this type.
void TpuRules::memory_type(DType t, const std::string& name, ir::LocId made) {
  if (ir::is_sync(t) || ir::info(t).cls == ir::DTypeClass::Key) return;
  if (ir::is_complex(t) || ir::bit_width(t) > 32)
    add("PS-TPU-004", fmt::format("{} has elements of {}", name, ir::name(t)), made,
        "a TensorCore computes with elements of at most 32 bits, and none that are complex");
}

void TpuRules::region(const ir::Region& r) {
  for (const ir::Op& op : r.ops) {
    for (ir::ValueId v : op.results) defined_[v] = &op;
    if (op.code == C::for_) loops_[op.regions[0].args[0]] = &op;
    has_barrier_ |= op.code == C::get_barrier_semaphore;
    fold(op);
    operation(op);
    for (const ir::Region& inner : op.regions) region(inner);
  }
}

void TpuRules::form(const ir::Op& op, const std::string& what, std::string hint) {
  add("PS-TPU-003",
      "the TPU's compiler does not take " + std::string(ir::name(op.code)) + (what.empty() ? "" : ": " + what), op.loc,
      hint.empty()
          ? "write it with the operations that TensorCores have; `pallasim explain PS-TPU-003` lists what is missing"
          : std::move(hint));
}

const char* TpuRules::floats_that_compile() const { return jax_ >= 11 ? "f32 and bf16 only" : "f32 only"; }

void TpuRules::needs(const ir::Op& op, int64_t generation, const std::string& what) {
  if (p_.generation >= generation) return;
  add("PS-TPU-003",
      fmt::format("{} needs a TPU of generation {} or later, {} is of generation {}", what, generation, p_.name,
                  p_.generation),
      op.loc, "");
}

void TpuRules::operation(const ir::Op& op) {
  if (!tpu_has(op.code, jax_)) return form(op, "");
  if (op.attr("accuracy")) form(op, "with an accuracy");
  switch (op.code) {
    case C::get:
    case C::masked_load: return load(op);
    case C::store:
    case C::swap:
    case C::masked_store:
    case C::masked_swap: return store(op);
    case C::view: return transforms(op, op.operands[0], op.view(), false);
    case C::dma_start: return copy(op);
    case C::sem_signal: return receiver(op);
    case C::sem_wait:
      if (const ir::Attr* d = op.attr("decrement"); d && !d->is_true())
        add("PS-TPU-006", "a wait that should leave the semaphore as it is: the TPU subtracts all the same", op.loc,
            "JAX's rule for it never fires (0.10.2); signal again what the wait took, or look with pl.semaphore_read")
            .severity = ir::Severity::Warning;
      return;
    case C::run_scoped:
      if (const ir::Attr* c = op.attr("collective"); c && !c->items.empty()) form(op, "with collective axes");
      for (ir::ValueId a : op.regions[0].args)
        memory_type(graph_->type(a)->dtype, graph_->names[static_cast<size_t>(a)], op.loc);
      return;
    case C::for_:
      if (const ir::Attr* r = op.attr("reverse"); r && r->is_true()) form(op, "in reverse");
      return;
    case C::check:
      if (const ir::Attr* d = op.attr("debug"); !d || !d->is_true())
        form(op, "that is no debug check",
             "pl.debug_check within pl.enable_debug_checks(), or jax.experimental.checkify around the call");
      return;
    case C::debug_print: return print(op);
    case C::matmul_push_rhs:
    case C::matmul_acc_lhs:
    case C::matmul_pop: return needs(op, 7, "direct use of the matrix unit");
    default: return arithmetic(op);
  }
}

// What is made of constants the compiler knows before types matter.
void TpuRules::fold(const ir::Op& op) {
  const auto known = [&](ir::ValueId v) { return folded_.contains(v); };
  if (op.code == C::constant || (!op.operands.empty() && op.regions.empty() && op.code != C::optimization_barrier &&
                                 std::all_of(op.operands.begin(), op.operands.end(), known)))
    folded_.insert(op.results.begin(), op.results.end());
}

// The compiler itself, asked operation by operation (tests/tpu_compiler/type_table.py).
void TpuRules::lacks(const ir::Op& op) {
  if (op.operands.empty() || op.results.empty()) return;
  if (folded_.contains(op.results[0]) || is_trivial(op, in(op, 0).dtype)) return;
  const ir::Type& x = in(op, 0);
  std::string types(ir::name(x.dtype));
  if (op.code == C::convert) types.append(">").append(ir::name(out(op).dtype));
  if (op.code == C::dot_general)
    types.append("*").append(ir::name(in(op, 1).dtype)).append(">").append(ir::name(out(op).dtype));
  const bool scalar = x.is_scalar() && out(op).is_scalar();
  const std::string_view form = scalar ? "scalar" : "vector";
  if (!tpu_lacks(ir::name(op.code), form, types, p_.generation, jax_)) return;
  add("PS-TPU-004",
      fmt::format("{} of {}{}, which the compiler of {} does not take", ir::name(op.code), types,
                  scalar ? " scalars" : "", p_.name),
      op.loc, op.code == C::convert ? "by way of f32 or i32, say" : "convert to f32 or i32 first, and the result back");
}

void TpuRules::arithmetic(const ir::Op& op) {
  const size_t said = out_->size();
  forms(op);
  const auto is_error = [](const ir::Diagnostic& d) { return d.severity == ir::Severity::Error; };
  if (std::none_of(out_->begin() + static_cast<std::ptrdiff_t>(said), out_->end(), is_error)) lacks(op);
}

// Operations on values alone.
void TpuRules::forms(const ir::Op& op) {
  switch (op.code) {
    case C::reduce_sum:
    case C::reduce_max:
    case C::reduce_min: return reduction(op);
    case C::reduce_and:
    case C::reduce_or:
      if (in(op, 0).dtype != DType::Bool)
        form(op, fmt::format("of {}", ir::name(in(op, 0).dtype)), "bool alone: compare first, jnp.all and jnp.any");
      return;
    case C::slice:
      if (const ir::Attr* strides = op.attr("stride"))
        for (const ir::Attr& n : strides->items)
          if (n.i != 1)
            return form(op, "with a stride", "store it, and load with a stride: ref[::2]; or reshape and index");
      return;
    case C::argmax:
    case C::argmin:
      if (const DType t = in(op, 0).dtype; t != DType::F32 && !(jax_ >= 11 && t == DType::BF16))
        form(op, fmt::format("of {}; {}", ir::name(t), floats_that_compile()));
      else if (!op.attr("axis")->is_int()) form(op, "over several axes");
      else if (const DType i = out(op).dtype;
               i != DType::I32 && !(jax_ >= 11 && in(op, 0).dtype == DType::BF16 && i == DType::I16))
        form(op, fmt::format("with indices of {}; i32 only", ir::name(i)));
      return;
    case C::dot_general: return dot(op);
    case C::conv_general_dilated: return convolution(op);
    case C::convert:
      if (ir::bit_width(out(op).dtype) > 32)
        add("PS-TPU-004", fmt::format("a conversion to {}", ir::name(out(op).dtype)), op.loc,
            "TensorCores have no 64-bit values");
      return;
    case C::bitcast_convert:
      if (ir::bit_width(in(op, 0).dtype) != ir::bit_width(out(op).dtype))
        form(op, "to another width", "pltpu.bitcast changes widths");
      return;
    case C::random_wrap:
    case C::random_unwrap:
      if (in(op, 0).dtype == DType::KeyTpu || out(op).dtype == DType::KeyTpu)
        form(op, "of the TPU's own keys",
             "pltpu.wrap_pallas_seed and pltpu.unwrap_pallas_seed take and give their words");
      return;
    case C::population_count:
      if (out(op).is_scalar()) form(op, "of a scalar");
      return;
    case C::select_n:
      if (op.operands.size() > 3) form(op, "with more than two cases");
      return;
    case C::round:
      if (const ir::Attr* a = op.attr("method");
          a->s != "away_from_zero" && a->s != "to_nearest_even" && !(a->is_int() && a->i < 2))
        form(op, "by method " + a->s);
      return;
    case C::reciprocal:
      if (const DType t = in(op, 0).dtype; t != DType::F32 && !(jax_ >= 11 && t == DType::BF16))
        form(op, fmt::format("of {}; {}", ir::name(t), floats_that_compile()));
      return;
    case C::stochastic_round:
      needs(op, 5, "stochastic rounding");
      if (in(op, 0).dtype != DType::F32) form(op, fmt::format("of {}; f32 only", ir::name(in(op, 0).dtype)));
      else if (const DType t = out(op).dtype;
               t != DType::BF16 && t != DType::F8E5M2 && t != DType::F8E4M3FN && t != DType::F8E4M3B11FNUZ)
        form(op, fmt::format("to {}", ir::name(t)));
      return;
    case C::pad:
      if (in(op, 0).is_scalar()) form(op, "of a scalar");
      for (const ir::Attr& n : op.attr("interior")->items)
        if (n.i > 0) return form(op, "between elements");
      return;
    case C::gather: return gather(op);
    case C::roll:
      if (op.attr("stride")) needs(op, 5, "a roll with a stride");
      return;
    case C::prng_seed:
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (ir::is_float(in(op, i).dtype))
          return form(op, fmt::format("with a seed of {}", ir::name(in(op, i).dtype)), "seeds are 32-bit integers");
      return;
    case C::prng_random_bits:
      if (out(op).dims.size() <= 1) form(op, "of less than two dimensions");
      return;
    default: return;
  }
}

void TpuRules::reduction(const ir::Op& op) {
  const DType t = in(op, 0).dtype;
  if ((ir::is_float(t) && ir::bit_width(t) > 8) || t == DType::I32) return;
  if (out(op).is_scalar() && ir::is_signed_int(t)) return;  // summed with an axis kept, in i32
  form(op, fmt::format("of {}", ir::name(t)), "convert to f32 or i32 first");
}

void TpuRules::dot(const ir::Op& op) {
  const ir::Type &a = in(op, 0), &b = in(op, 1), &c = out(op);
  for (const ir::Type* t : {&a, &b})
    if (ir::is_unsigned_int(t->dtype))
      return form(op, fmt::format("of unsigned operands ({})", ir::to_string(*t)), "convert to a signed type first");
  if (c.is_scalar()) return form(op, "with a scalar as result", "keep a dimension: x[None, :] @ y[:, None]");
  const DType r = c.dtype;
  if (!ir::is_int(r) && r != DType::BF16 && r != DType::F32 && r != DType::F8E5M2 && r != DType::F8E4M3FN &&
      r != DType::F8E4M3B11FNUZ)
    return form(op, fmt::format("into {}", ir::name(r)), "ask for f32: preferred_element_type=jnp.float32");
  const auto contracts = [&](const char* key) {
    return op.attr(key)->items.size() == 1 && op.attr(key)->items[0].i == 1;
  };
  const bool vector = contracts("lhs_contract") && contracts("rhs_contract") && a.dims.size() == 2 &&
                      b.dims.size() == 2 && b.dims[0].size == 1 && (a.dtype != DType::F32 || b.dtype != DType::F32);
  if (vector) {
    if (r != DType::F32 && (a.dtype != r || b.dtype != r))
      form(op, fmt::format("of a matrix and a vector into {}", ir::name(r)));
    return;
  }
  if (const ir::Attr* precision = op.attr("precision")) {
    auto known = [&](const ir::Attr& x) {
      return x.s == "default" || x.s == "highest" || (jax_ >= 11 && x.s == "high");
    };
    if (precision->is(ir::Attr::Kind::List)) {
      if (precision->items.size() != 2 || !ir::equal(precision->items[0], precision->items[1]))
        return form(op, "with a precision per operand");
      if (!known(precision->items[0])) return form(op, "with precision " + precision->items[0].s);
    } else if (!known(*precision)) {
      return form(op, "with precision " + precision->s, "precision DEFAULT or HIGHEST");
    }
  }
  if (multiplies(p_.generation, a.dtype, b.dtype)) return;
  if (ir::is_int(a.dtype) && ir::is_int(b.dtype) && p_.generation < 5)
    return needs(op, 5, "a product of integer matrices");
  add("PS-TPU-004",
      fmt::format("the matrix unit of {} does not multiply {} by {}", p_.name, ir::name(a.dtype), ir::name(b.dtype)),
      op.loc,
      is_f8(a.dtype) || is_f8(b.dtype) ? "the compiler converts them first, at the price of the wider type"
                                       : "the compiler converts them first, or refuses")
      .severity = ir::Severity::Warning;
}

// Where it is compiled at all.
void TpuRules::convolution(const ir::Op& op) {
  for (size_t i = 0; i < 2; ++i)
    if (ir::is_unsigned_int(in(op, i).dtype))
      return form(op, fmt::format("of {}", ir::name(in(op, i).dtype)), "convert to a signed type first");
  const ir::Attr* precision = op.attr("precision");
  if (precision && precision->s != "none" && precision->s != "default" && precision->s != "highest")
    form(op, "with precision " + precision->s, "precision DEFAULT or HIGHEST");
}

void TpuRules::gather(const ir::Op& op) {
  const ir::Type &x = in(op, 0), &indices = in(op, 1), &r = out(op);
  const size_t rank = r.dims.size();
  bool alike = x.dims.size() == rank && indices.dims.size() == rank + 1 && indices.dims.back().size == 1;
  for (size_t d = 0; alike && d < rank; ++d) alike = indices.dims[d] == r.dims[d];
  auto list = [&](const char* key) { return op.attr(key) ? op.attr(key)->items : std::vector<ir::Attr>(); };
  const auto same = [](const std::vector<ir::Attr>& a, const std::vector<ir::Attr>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const ir::Attr& m, const ir::Attr& n) { return ir::equal(m, n); });
  };
  const auto sizes = list("slice_sizes"), collapsed = list("collapsed_slice_dims"),
             batching = list("operand_batching_dims");
  alike = alike && std::all_of(sizes.begin(), sizes.end(), [](const ir::Attr& n) { return n.i == 1; }) &&
          list("offset_dims").empty() && collapsed.size() == 1 && same(collapsed, list("start_index_map")) &&
          same(batching, list("start_indices_batching_dims")) && batching.size() + 1 == rank;
  if (const ir::Attr* mode = op.attr("mode"))
    alike = alike && (mode->s == "fill_or_drop" || mode->s == "promise_in_bounds");
  if (!alike) return form(op, "other than along one axis", "jnp.take_along_axis(x, i, axis) of equal shapes");
  const int64_t from_end = static_cast<int64_t>(rank) - collapsed[0].i;
  if (from_end > 2) return form(op, "along another axis than the two minor ones");
  if (from_end == 2) needs(op, 5, "a gather along the second minor axis");
}

void TpuRules::print(const ir::Op& op) {
  const ir::Attr* asked = ir::find(m_.attrs, "prints");
  if (asked && asked->s == "anything") return;
  const ir::Attr *ordered = op.attr("ordered"), *placeholders = op.attr("placeholders"), *names = op.attr("names");
  if (ordered && ordered->is_true()) return form(op, "in order");
  const bool named =
      names && std::any_of(names->items.begin(), names->items.end(), [](const ir::Attr& n) { return !n.s.empty(); });
  if (named) return form(op, "with keyword arguments", "pass values by position");
  const size_t n = op.operands.size();
  size_t scalars = 0;
  for (size_t i = 0; i < n; ++i) scalars += in(op, i).is_scalar();
  const bool formatted = placeholders ? placeholders->is_true() : op.attr("format")->s.find('{') != std::string::npos;
  if (scalars < n) {
    if (n != 1) return form(op, "of several values, one of them an array", "print one array, or scalars");
    const std::string& text = op.attr("format")->s;
    if (!formatted || text.size() < 2 || text.compare(text.size() - 2, 2, "{}") != 0)
      form(op, "of an array, whose format does not end in {}");
    return;
  }
  for (size_t i = 0; formatted && i < n; ++i)
    if ((!ir::is_int(in(op, i).dtype) || ir::bit_width(in(op, i).dtype) != 32) &&
        !(jax_ >= 11 && in(op, i).dtype == DType::F32))
      return form(op, fmt::format("of {} in a placeholder", ir::name(in(op, i).dtype)),
                  "placeholders take 32-bit integers; without them any value is printed behind the text");
}

void check_tpu_operations(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  for (const ir::Mesh& mesh : m.meshes)
    if (mesh.kind != "tensorcore") return;  // SparseCores compile other operations
  TpuRules(m, p, out).check();
}

}  // namespace pallasim::hw
