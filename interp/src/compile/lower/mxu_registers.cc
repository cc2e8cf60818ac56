// Matrix units that the kernel drives itself: staging registers, weights, accumulators. All of it is static in the
// kernel (which unit, which register, which address), so each is a place in the core's memory.
#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../../plan/payload/array.h"
#include "../../plan/steps.h"
#include "arrays.h"
#include "nans.h"

namespace pallasim::interp {

namespace {

struct Mxu {
  struct Accumulator {
    Val memory;
    uint32_t live = Addr::kNoSlot;  // i64: 0 until something was accumulated since the last pop
  };
  std::map<std::pair<int64_t, int64_t>, Val> staged;                // (unit, staging register)
  std::map<int64_t, Val> weights;                                   // unit
  std::map<std::pair<int64_t, int64_t>, Accumulator> accumulators;  // (unit, address)
};

}  // namespace

static void lower_mxu(Emitter& e, const Op& op) {
  using C = ir::OpCode;
  Mxu& mxu = e.state<Mxu>();
  auto number = [&](const char* key, int64_t otherwise) {
    const Attr* a = op.attr(key);
    return a && a->is_int() ? a->i : otherwise;
  };
  const int64_t unit = number("mxu_index", 0);
  auto place = [&](ir::DType dtype, const std::vector<int64_t>& dims) {
    Val v = e.temp(dtype, dims);
    e.frame().keep(v);
    return v;
  };
  if (op.code == C::matmul_push_rhs) {
    Val rhs = strided(e, e.operand(op, 0));
    require(e, op, rhs.dims.size() == 2, "an operand that is no matrix");
    const Attr* t = op.attr("transpose");
    if (t && t->is_true())
      std::swap(rhs.dims[0], rhs.dims[1]), std::swap(rhs.memory().strides[0], rhs.memory().strides[1]);
    Val& to = mxu.staged[{unit, number("staging_register", 0)}];
    if (to.kind() == Val::Kind::None) to = place(rhs.dtype, rhs.dims);
    require(e, op, to.dims == rhs.dims && to.dtype == rhs.dtype, "a staging register that held another shape or dtype");
    return emit_copy(e, to, rhs);
  }
  const std::pair<int64_t, int64_t> at{unit, number("acc_addr", 0)};
  // The accumulator at an address, cleared where nothing was added since the last pop.
  auto accumulator = [&](ir::DType dtype, const std::vector<int64_t>& dims) -> Mxu::Accumulator& {
    Mxu::Accumulator& acc = mxu.accumulators[at];
    if (acc.memory.kind() == Val::Kind::None) {
      acc.memory = place(dtype, dims);
      acc.live = e.new_slot();
    }
    require(e, op, acc.memory.dims == dims && acc.memory.dtype == dtype, "an accumulator of another shape or dtype");
    ArrayPayload clear;
    clear.out.push_back({acc.memory.memory().addr, acc.memory.elements(), 4});
    clear.body = [live = acc.live, bytes = acc.memory.bytes()](const ArrayCall& call) {
      auto& used = call.thread.slot<int64_t>(live);
      if (!used) std::memset(call.out[0], 0, static_cast<size_t>(bytes));
      used = 1;
    };
    e.emit<Kind::array_op>(std::move(clear));
    return acc;
  };
  if (op.code == C::matmul_acc_lhs) {
    Val& weights = mxu.weights[unit];
    if (const Attr* load = op.attr("load_staged_rhs"); load && load->is_int()) {
      const auto staged = mxu.staged.find({unit, load->i});
      require(e, op, staged != mxu.staged.end(), "a staging register that nothing was pushed to");
      if (weights.kind() == Val::Kind::None) weights = place(staged->second.dtype, staged->second.dims);
      require(e, op, weights.dims == staged->second.dims && weights.dtype == staged->second.dtype,
              "weights of another shape or dtype than before");
      emit_copy(e, weights, staged->second);
    }
    require(e, op, weights.kind() != Val::Kind::None, "no weights in the unit");
    const Val lhs = dense(e, e.operand(op, 0));
    require(e, op, lhs.dims.size() == 2 && lhs.dims[1] == weights.dims[0], "operands that do not contract");
    Contraction c;
    c.m = lhs.dims[0], c.k = lhs.dims[1], c.n = weights.dims[1];
    c.in = lhs.dtype, c.in_rhs = weights.dtype;
    c.out = ir::is_float(lhs.dtype) ? ir::DType::F32 : ir::DType::I32;
    c.a_row = c.k, c.a_col = 1, c.b_row = c.n, c.b_col = 1, c.c_row = c.n;
    c.accumulate = true;
    Contraction probe = c;
    probe.m = probe.n = probe.k = 0;
    require(e, op, contract(probe, nullptr, nullptr, nullptr), "dtypes that do not multiply");
    const Mxu::Accumulator& acc = accumulator(c.out, {c.m, c.n});
    ContractPayload p;
    p.dst = acc.memory.memory().addr, p.a = lhs.memory().addr, p.b = weights.memory().addr;
    p.contraction = c;
    e.plan().split.step_cost_ns += host_cost::kMatrixUnit.of(static_cast<double>(c.m * c.n * c.k));
    if (!looks_for_nans(e)) return void(e.emit<Kind::contraction>(p));
    const Val before = as_it_is(e, acc.memory);
    e.emit<Kind::contraction>(p);
    using Take = NanPayload::Lane::Take;
    return look_for_nans(e, acc.memory,
                         {{lhs, {{Take::Same, 0}, {Take::All, 0}}},
                          {weights, {{Take::All, 0}, {Take::Same, 1}}},
                          {before, same_element(2)}});
  }
  const ir::Type* t = e.type(op.results[0]);
  const Mxu::Accumulator& acc = accumulator(t->dtype, dims_of(t));
  Val r = e.temp(t->dtype, acc.memory.dims);
  emit_copy(e, r, acc.memory);
  move_scalar(e, acc.live, e.const_int(ir::DType::I64, 0).scalar().slot, ir::DType::I64);
  e.define(op.results[0], r);
}

Rows mxu_rows() {
  static constexpr Row kRows[] = {
      {OpCode::matmul_push_rhs, lower_mxu}, {OpCode::matmul_acc_lhs, lower_mxu}, {OpCode::matmul_pop, lower_mxu}};
  return kRows;
}

}  // namespace pallasim::interp
