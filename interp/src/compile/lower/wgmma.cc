// Matrix products of a warpgroup into accumulators: asynchronous operations, whose bytes change when they are issued
// unless a schedule says otherwise.
#include <cstring>

#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../values/elementwise.h"
#include "../views/views.h"
#include "access.h"
#include "matrix_unit.h"
#include "nans.h"

namespace pallasim::interp {
namespace {

// An operand that lies in shared memory, or in registers.
Val matrix(Emitter& e, const Op& op, const char* key) {
  Val v = op.viewed(key) ? viewed_operand(e, op, key, ViewUse::Access, Recast::Read)
                         : strided(e, e.operand(op, static_cast<size_t>(op.attr(key)->i)));
  if (v.is_recast()) v = open_ref(e, v, Recast::Read, nullptr);
  if (v.is_ref()) v = v.as_strided();
  if (v.dims.size() != 2)
    e.unsupported(op, std::string(ir::name(op.code)) + " with an operand of rank " + std::to_string(v.dims.size()));
  return v;
}

Contraction contraction_of(Emitter& e, const Op& op, const Val& acc, const Val& a, const Val& b) {
  Contraction c;
  c.m = a.dims[0], c.k = a.dims[1], c.n = b.dims[1];
  c.in = a.dtype, c.in_rhs = b.dtype, c.out = acc.dtype;
  c.a_row = a.memory().strides[0], c.a_col = a.memory().strides[1];
  c.b_row = b.memory().strides[0], c.b_col = b.memory().strides[1];
  c.c_row = acc.memory().strides[0];
  c.accumulate = true;
  if (b.dims[0] != c.k || acc.dims != std::vector<int64_t>{c.m, c.n})
    e.unsupported(op, std::string(ir::name(op.code)) + " of shapes that do not fit each other");
  return c;
}

// acc += a @ b in memory whose columns follow each other. `now`: not when a schedule says.
void accumulate(Emitter& e, const Op& op, const Val& acc, Val a, Val b, bool now) {
  std::vector<Val> operands = e.about_to_write(e.live().written(acc), {std::move(a), std::move(b)});
  AsyncProductPayload p;
  p.left_in_registers = !op.viewed("a"), p.right_in_registers = !op.viewed("b"), p.now = now;
  p.contraction = contraction_of(e, op, acc, operands[0], operands[1]);
  p.unit = accumulating_unit(e, p.contraction);
  p.reference = e.options().numerics == Options::Numerics::Reference;
  p.dst = acc.memory().addr, p.a = operands[0].memory().addr, p.b = operands[1].memory().addr;
  Contraction probe = p.contraction;
  probe.m = probe.n = probe.k = 0;
  if (p.unit.plain && !contract(probe, nullptr, nullptr, nullptr))
    e.unsupported(op, std::string(ir::name(op.code)) + " of " + std::string(ir::name(p.contraction.in)) + " and " +
                          std::string(ir::name(p.contraction.in_rhs)) + " into " + std::string(ir::name(acc.dtype)));
  e.plan().split.step_cost_ns +=
      host_cost::kMatrixUnit.of(static_cast<double>(p.contraction.m * p.contraction.n * p.contraction.k));
  Val before;
  if (looks_for_nans(e)) before = as_it_is(e, acc);
  e.emit<Kind::wgmma>(std::move(p));
  using Take = NanPayload::Lane::Take;
  if (looks_for_nans(e))
    look_for_nans(e, acc,
                  {{operands[0], {{Take::Same, 0}, {Take::All, 0}}},
                   {operands[1], {{Take::All, 0}, {Take::Same, 1}}},
                   {before, same_element(2)}});
}

// `slot`: i32, of how many products may be left.
void await(Emitter& e, int64_t most, uint32_t slot = Addr::kNoSlot) {
  Step& s = e.emit<Kind::await_products>();
  s.a = slot;
  s.imm = most;
}

void lower_wgmma_ref(Emitter& e, const Op& op) {
  const Val acc = viewed_operand(e, op, "acc", ViewUse::Access);
  if (acc.dims.size() != 2 || acc.memory().strides[1] != 1)
    e.unsupported(op, "wgmma_ref into an accumulator that is no matrix with neighbouring columns");
  accumulate(e, op, acc, matrix(e, op, "a"), matrix(e, op, "b"), false);
}

// The same with an accumulator that is a value: the sum is a new one, which may be moved before it is awaited.
void lower_wgmma(Emitter& e, const Op& op) {
  const Val a = matrix(e, op, "a"), b = matrix(e, op, "b"), before = matrix(e, op, "acc");
  const Val sum = e.temp(before.dtype, before.dims);
  emit_copy(e, sum, before);
  accumulate(e, op, sum, a, b, true);
  e.define(op.results[0], sum);
}

void lower_deref(Emitter& e, const Op& op) {
  if (const Attr* n = op.attr("wait_n"); n && n->is_int()) await(e, n->i);
  Val shown = e.operand(op, 0).as_strided();
  shown.memory().addr.loc = e.loc();  // whoever uses the value reads it here
  e.define(op.results[0], shown);
}

void lower_accumulator_store(Emitter& e, const Op& op) { store_value(e, op, e.operand(op, 0), e.operand(op, 1)); }

void lower_wait(Emitter& e, const Op& op) {
  await(e, 0, scalar_slot(e, scalar_convert(e, e.operand(op, 0), ir::DType::I32)));
}

}  // namespace

Rows wgmma_rows() {
  static constexpr Row kRows[] = {{OpCode::wgmma_ref, lower_wgmma_ref},
                                  {OpCode::wgmma, lower_wgmma},
                                  {OpCode::wgmma_wait, lower_wait},
                                  {OpCode::wgmma_accumulator_deref, lower_deref},
                                  {OpCode::wgmma_accumulator_store, lower_accumulator_store}};
  return kRows;
}

}  // namespace pallasim::interp
