#include "nans.h"
#include "../../plan/host_cost.h"

#include <algorithm>

#include "../../plan/steps.h"

namespace pallasim::interp {
namespace {

using Lane = NanPayload::Lane;
using Take = Lane::Take;

// Of finite numbers they make finite numbers, or are no arithmetic.
bool stays_finite(OpCode code) {
  switch (code) {
    case OpCode::abs:
    case OpCode::neg:
    case OpCode::sign:
    case OpCode::not_:
    case OpCode::ceil:
    case OpCode::floor:
    case OpCode::round:
    case OpCode::real:
    case OpCode::imag:
    case OpCode::conj:
    case OpCode::complex:
    case OpCode::stop_gradient:
    case OpCode::bitcast_convert:
    case OpCode::max:
    case OpCode::min:
    case OpCode::clamp:
    case OpCode::copysign:
    case OpCode::and_:
    case OpCode::or_:
    case OpCode::xor_:
    case OpCode::select_n: return true;
    default: return false;
  }
}

// What its type does not hold is cut off; unsigned integers are those that wrap on purpose.
bool may_overflow(OpCode code) {
  switch (code) {
    case OpCode::add:
    case OpCode::sub:
    case OpCode::mul:
    case OpCode::neg:
    case OpCode::abs:
    case OpCode::reduce_sum:
    case OpCode::reduce_prod:
    case OpCode::cumsum:
    case OpCode::cumprod:
    case OpCode::dot_general: return true;
    default: return false;
  }
}

bool makes_nans(const Emitter& e, const Op& op) {
  if (op.results.size() != 1) return false;
  const ir::Type* t = e.type(op.results[0]);
  if (t && ir::is_signed_int(t->dtype)) return may_overflow(op.code);
  if (!t || (!ir::is_float(t->dtype) && !ir::is_complex(t->dtype))) return false;
  switch (op.code) {
    case OpCode::reduce_sum:
    case OpCode::reduce_prod:
    case OpCode::cumsum:
    case OpCode::cumprod:
    case OpCode::cumlogsumexp:
    case OpCode::dot_general:
    case OpCode::conv_general_dilated:
    case OpCode::gather:  // of indices outside, where its mode says so
    case OpCode::scatter_add:
    case OpCode::scatter_sub:
    case OpCode::scatter_mul:
    case OpCode::stochastic_round:
    case OpCode::inline_asm: return true;
    default: return ir::info(op.code).family == ir::Family::Elementwise && !stays_finite(op.code);
  }
}

bool has(const std::vector<int64_t>& list, size_t d) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(d)) != list.end();
}

Lanes of_reduction(const Op& op, size_t rank) {
  const std::vector<int64_t> axes = ints(op.attr("axes"));
  Lanes r(rank);
  int kept = 0;
  for (size_t d = 0; d < rank; ++d)
    if (!has(axes, d)) r[d] = {Take::Same, kept++};
  return r;
}

Lanes of_scan(const Op& op, size_t rank) {
  Lanes r = same_element(rank);
  r[static_cast<size_t>(op.attr("axis")->i)].take = op.attr("reverse")->is_true() ? Take::From : Take::UpTo;
  return r;
}

// The result has batch dimensions, those of the left operand that are left, then the right one's. `first`: the result's
// dimension of the operand's first own one.
Lanes of_product(const Op& op, bool left, size_t rank, int first) {
  const std::vector<int64_t> batch = ints(op.attr(left ? "lhs_batch" : "rhs_batch")),
                             contract = ints(op.attr(left ? "lhs_contract" : "rhs_contract"));
  Lanes r(rank);
  for (size_t b = 0; b < batch.size(); ++b) r[static_cast<size_t>(batch[b])] = {Take::Same, static_cast<int>(b)};
  for (size_t c = 0; c < contract.size(); ++c) r[static_cast<size_t>(contract[c])].dim = static_cast<int>(c);
  for (size_t d = 0; d < rank; ++d)
    if (!has(batch, d) && !has(contract, d)) r[d] = {Take::Same, first++};
  return r;
}

Lanes lanes_of(Emitter& e, const Op& op, size_t i) {
  const size_t rank = dims_of(e.type(op.operands[i])).size();
  switch (op.code) {
    case OpCode::reduce_sum:
    case OpCode::reduce_prod: return of_reduction(op, rank);
    case OpCode::cumsum:
    case OpCode::cumprod:
    case OpCode::cumlogsumexp: return of_scan(op, rank);
    case OpCode::conv_general_dilated:
    case OpCode::gather:
    case OpCode::scatter_add:
    case OpCode::scatter_sub:
    case OpCode::scatter_mul: return Lanes(rank);
    case OpCode::dot_general: {
      const size_t batch = ints(op.attr("lhs_batch")).size(), contract = ints(op.attr("lhs_contract")).size();
      const size_t left = dims_of(e.type(op.operands[0])).size() - contract;
      return of_product(op, i == 0, rank, static_cast<int>(i == 0 ? batch : left));
    }
    default: return same_element(rank);
  }
}

NanPayload::Array array_of(const Val& v, Lanes lanes) {
  NanPayload::Array a;
  a.dtype = v.dtype;
  a.dims = v.dims;
  if (v.is_uniform()) {
    a.scalar = true;
    a.slot = v.scalar().slot;
    return a;
  }
  a.addr = v.memory().addr;
  a.strides = v.memory().strides;
  a.lanes = std::move(lanes);
  return a;
}

}  // namespace

bool looks_for_nans(const Emitter& e) { return e.options().nans != Options::Nans::Off; }

Lanes same_element(size_t rank) {
  Lanes r(rank);
  for (size_t d = 0; d < rank; ++d) r[d] = {Take::Same, static_cast<int>(d)};
  return r;
}

void look_for_nans(Emitter& e, const Val& result, const std::vector<MadeOf>& operands) {
  if (result.elements() == 0 || ir::is_unsigned_int(result.dtype)) return;
  NanPayload p;
  p.op = e.op()->code;
  p.result = array_of(result, {});
  for (const MadeOf& o : operands) p.operands.push_back(array_of(o.value, o.lanes));
  e.plan().split.step_cost_ns += host_cost::kLookForNans.of(static_cast<double>(result.elements()));
  e.emit<Kind::find_nans>(std::move(p));
}

Val as_it_is(Emitter& e, const Val& v) {
  const Val r = e.temp(v.dtype, v.dims);
  emit_copy(e, r, v, true);
  return r;
}

NanLook::NanLook(Emitter& e, const Op& op) : e_(e), op_(op) {
  if (looks_for_nans(e) && makes_nans(e, op)) operands_ = e.operands(op);
}

void NanLook::after_lowering() {
  if (operands_.empty()) return;
  const Val* result = e_.live().find(op_.results[0]);
  if (!result) return;  // nobody uses it
  std::vector<MadeOf> made_of;
  for (size_t i = 0; i < operands_.size(); ++i) made_of.push_back({operands_[i], lanes_of(e_, op_, i)});
  look_for_nans(e_, *result, made_of);
}

}  // namespace pallasim::interp
