// Structured control flow becomes jumps; carried values have fixed places.
#include <algorithm>

#include "../../analysis/refs.h"
#include "../../plan/steps.h"
#include "../compiler.h"

namespace pallasim::interp {

void Compiler::op_cond(const Op& op) {
  before_regions(op);
  std::vector<Val> results;
  for (ir::ValueId r : op.results) {
    const ir::Type* t = type(r);
    if (t->is_ref) unsupported(op, "cond that yields a ref");
    if (t->is_scalar()) {
      Val v;
      v.kind = Val::Kind::Scalar;
      v.dtype = t->dtype;
      v.slot = new_slot();
      results.push_back(v);
    } else {
      results.push_back(temp(t->dtype, dims_of(t)));
    }
  }
  const Val pred = operand(op, 0);
  const uint32_t slot = scalar_slot(pred);
  const int n = static_cast<int>(op.regions.size());
  std::vector<int> ends;
  auto compile_branch = [&](const Region& region) {
    ++depth_;
    compile_region_ops(region);
    const Op& yield = region.ops.back();
    loc_ = op.loc;
    for (size_t i = 0; i < results.size(); ++i) {
      const Val& v = operand(yield, i);
      if (results[i].is_scalar()) move_scalar(results[i].slot, scalar_slot(v));
      else copy_value(results[i], v);
    }
    forget(region);
    --depth_;
  };
  if (n == 2 && pred.dtype == ir::DType::Bool) {
    // Region 1 is the taken one: fall through into it.
    const int branch = here();
    emit(ops::branch_if_false).a = slot;
    compile_branch(op.regions[1]);
    const bool has_else = op.regions[0].ops.size() > 1 || !results.empty();
    int over = -1;
    if (has_else) {
      over = here();
      emit(ops::kJump);
    }
    jump_to(branch, here());
    if (has_else) {
      compile_branch(op.regions[0]);
      jump_to(over, here());
    }
  } else {
    auto* table = plan_.own(std::vector<int32_t>());
    Step& s = emit(ops::kBranchTable, table);
    s.a = slot;
    s.imm = pred.dtype == ir::DType::Bool ? 1 : compute_type(pred.dtype) == CType::I64 ? 8 : 4;
    for (const Region& region : op.regions) {
      table->push_back(here());
      compile_branch(region);
      ends.push_back(here());
      emit(ops::kJump);
    }
    for (int e : ends) jump_to(e, here());
  }
  for (size_t i = 0; i < results.size(); ++i) define(op.results[i], results[i]);
}

std::vector<Val> Compiler::allocate_carries(const std::vector<Val>& init) {
  std::vector<Val> carries;
  for (const Val& v : init) {
    Val c;
    if (v.is_scalar()) {
      c.kind = Val::Kind::Scalar;
      c.dtype = v.dtype;
      c.slot = new_slot();
      move_scalar(c.slot, v.slot);
    } else {
      c = temp(v.dtype, v.dims);
      copy_value(c, v);
    }
    carries.push_back(c);
  }
  return carries;
}

void Compiler::enter_carries(const Region& region, size_t first, const std::vector<Val>& carries) {
  for (size_t i = 0; i < carries.size(); ++i) bind(region.args[first + i], carries[i]);
}

// Parallel assignment of a region's results to the carries.
void Compiler::assign_carries(const std::vector<Val>& carries, const Op& yield) {
  std::vector<Val> next;
  for (size_t i = 0; i < carries.size(); ++i) next.push_back(operand(yield, i));
  auto reads = [&](const Val& v, size_t j) {  // does v read carry j's place?
    std::function<bool(const Val&)> visit = [&](const Val& x) {
      if (x.kind == Val::Kind::Pending) return std::any_of(x.node->args.begin(), x.node->args.end(), visit);
      if (x.kind == Val::Kind::Scalar || x.kind == Val::Kind::Splat)
        return carries[j].is_scalar() && x.slot == carries[j].slot;
      return !carries[j].is_scalar() && x.storage && x.storage == carries[j].storage;
    };
    return visit(v);
  };
  // A value that reads a carry which is assigned before its turn is saved first.
  for (size_t i = 0; i < carries.size(); ++i) {
    bool clash = false;
    for (size_t j = 0; j < carries.size() && !clash; ++j) clash = j < i && reads(next[i], j);
    if (!clash) continue;
    if (next[i].is_scalar()) {
      const uint32_t s = new_slot();
      move_scalar(s, next[i].slot);
      next[i].slot = s;
    } else {
      Val t = temp(next[i].dtype, next[i].dims);
      emit_pending(next[i], t);
      next[i] = t;
    }
  }
  for (size_t i = 0; i < carries.size(); ++i) {
    if (carries[i].is_scalar()) {
      move_scalar(carries[i].slot, scalar_slot(next[i]));
      continue;
    }
    if (next[i].kind == Val::Kind::Strided && same_place(next[i], carries[i])) continue;
    const bool own = reads(next[i], i);
    if (!own) {
      copy_value(carries[i], next[i]);
      continue;
    }
    // In-place elementwise updates are safe where the carry is read at the same element only.
    Val dst = carries[i];
    std::function<bool(const Val&)> shifted = [&](const Val& x) -> bool {
      if (x.kind == Val::Kind::Pending)
        return (x.node->kind == Node::Kind::Contraction && reads(x, i)) ||
               std::any_of(x.node->args.begin(), x.node->args.end(), shifted);
      return x.kind == Val::Kind::Strided && x.storage == dst.storage && !same_place(x, dst);
    };
    if (shifted(next[i])) {
      Val t = temp(next[i].dtype, next[i].dims);
      emit_pending(next[i], t);
      emit_copy(dst, t);
    } else {
      emit_pending(next[i], dst);
    }
  }
}

void Compiler::op_while(const Op& op) {
  before_regions(op);
  std::vector<Val> init;
  for (size_t i = 0; i < op.operands.size(); ++i) init.push_back(operand(op, i));
  const std::vector<Val> carries = allocate_carries(init);
  const Region &cond = op.regions[0], &body = op.regions[1];
  const int top = here();
  ++while_depth_, ++depth_;
  enter_carries(cond, 0, carries);
  compile_region_ops(cond);
  const uint32_t test = scalar_slot(operand(cond.ops.back(), 0));
  const int branch = here();
  emit(ops::branch_if_false).a = test;
  forget(cond);
  enter_carries(body, 0, carries);
  compile_region_ops(body);
  loc_ = op.loc;
  assign_carries(carries, body.ops.back());
  const int back = here();
  emit(ops::kJump);
  --while_depth_, --depth_;
  jump_to(back, top);
  jump_to(branch, here());
  for (size_t i = 0; i < carries.size(); ++i) define(op.results[i], carries[i]);
}

void Compiler::op_for(const Op& op) {
  before_regions(op);
  std::vector<Val> init;
  for (size_t i = 3; i < op.operands.size(); ++i) init.push_back(operand(op, i));
  const Attr* reverse = op.attr("reverse");
  const bool down = reverse && reverse->is_true();
  const Val lower = operand(op, 0), upper = operand(op, 1), step = operand(op, 2);
  const bool wide = compute_type(lower.dtype) == CType::I64 || compute_type(lower.dtype) == CType::U64;
  if (!wide && compute_type(lower.dtype) != CType::I32 && compute_type(lower.dtype) != CType::U32)
    unsupported(op, "for over " + std::string(ir::name(lower.dtype)));
  const std::vector<Val> carries = allocate_carries(init);
  Val index;
  index.kind = Val::Kind::Scalar;
  index.dtype = lower.dtype;
  index.slot = new_slot();
  const Region& body = op.regions[0];
  // The bounds stay where they are: a slot is written again by the loop that carries it alone, and theirs are born
  // outside.
  const uint32_t lo = scalar_slot(lower), hi = scalar_slot(upper), by = scalar_slot(step);
  const int begin = here();
  Step& b = emit(ops::loop_begin);
  b.dst = index.slot, b.a = lo, b.b = hi, b.c = by;
  b.imm = (wide ? 1 : 0) | (down ? 2 : 0);
  ++depth_;
  bind(body.args[0], index);
  enter_carries(body, 1, carries);
  const int top = here();
  preassign_carries(body, 1, carries);
  compile_region_ops(body);
  loc_ = op.loc;
  assign_carries(carries, body.ops.back());
  --depth_;
  Step& e = emit(ops::loop_next);
  e.dst = index.slot, e.a = lo, e.b = hi, e.c = by;
  e.imm = (wide ? 1 : 0) | (down ? 2 : 0);
  jump_to(here() - 1, top);
  jump_to(begin, here());
  for (size_t i = 0; i < carries.size(); ++i) define(op.results[i], carries[i]);
}

void Compiler::op_call(const Op& op) {
  const Region& body = op.regions[0];
  for (size_t i = 0; i < body.args.size(); ++i) define(body.args[i], operand(op, i));
  compile_region_ops(body);
  for (size_t i = 0; i < op.results.size(); ++i) define(op.results[i], operand(body.ops.back(), i));
}

// Memory or semaphores of the thread for a ref value; what it took is noted in `scope`.
Val Compiler::allocate_ref(const Op& op, ir::ValueId id, ScopePayload* scope) {
  const ir::Type* t = type(id);
  Val v;
  v.kind = Val::Kind::Ref;
  v.dtype = t->dtype;
  v.dims = dims_of(t);
  v.strides = dense_strides(v.dims);
  v.name = graph_->names[static_cast<size_t>(id)];
  v.origin = id;
  if (ir::is_sync(t->dtype)) {
    if (t->dtype == ir::DType::Mbarrier || t->dtype == ir::DType::ClusterBarrier)
      unsupported(op, std::string(ir::name(op.code)) + " of " + std::string(ir::name(t->dtype)));
    v.semaphore = plan_.semaphores.add(v.name, v.elements(), memory::Level::Thread, t->dtype == ir::DType::DmaSem);
    v.addr = {};
    scope->semaphores.push_back(v.semaphore);
    return v;
  }
  require_memory(v.bytes(), "an allocation");
  const bool of_device = t->space == ir::Space::Hbm || t->space == ir::Space::Any || t->space == ir::Space::Gmem;
  const memory::Level owner = of_device ? memory::Level::Device : memory::owner_level(ir::Scope::Thread, t->space);
  if (plan_.num_threads > 1 && owner != memory::Level::Thread) {
    // One allocation for all below its owner, who reach it at different times.
    v.addr = {plan_.num_buffers++, Addr::kNoSlot, 0};
    note_allocation(v, t->space, owner, memory::Allocation::Lifetime::Launch);
    return v;
  }
  v.storage = temps_.allocate(v.bytes());
  v.addr = {body_.temps, Addr::kNoSlot, v.storage->offset};
  scope->memory.push_back({v.storage->offset, v.bytes()});
  note_allocation(v, t->space, memory::Level::Thread, memory::Allocation::Lifetime::Scope);
  add_tile_padding(&v, t->space);
  return v;
}

// Refs that live from here to the end of the kernel.
void Compiler::op_new_ref(const Op& op) {
  ScopePayload scope;
  const Val v = allocate_ref(op, op.results[0], &scope);
  if (v.storage) permanent_.push_back(v.storage);
  if (op.code == ir::OpCode::new_ref) store_value(op, v, operand(op, 0));
  else if (v.storage) emit_fill_uninitialized(v);
  define(op.results[0], v);
}

void Compiler::op_freeze(const Op& op) {
  Val v = operand(op, 0);
  if (v.semaphore >= 0) unsupported(op, "freeze of semaphores");
  if (v.through) v = open_ref(v, Lens::Read, nullptr);
  v.kind = Val::Kind::Strided;
  define(op.results[0], v.dims.empty() ? load_scalar(v) : v);
}

void Compiler::op_scoped(const Op& op) {
  const Region& body = op.regions[0];
  if (!op.operands.empty()) unsupported(op, "run_scoped with initial values");
  ScopePayload scope;
  for (ir::ValueId a : body.args) {
    const Val v = allocate_ref(op, a, &scope);
    if (v.storage && !analysis::full_store_first(*graph_, body, a, nullptr)) emit_fill_uninitialized(v);
    bind(a, v);
  }
  compile_region_ops(body);
  loc_ = op.loc;
  std::vector<Val> results;
  for (ir::ValueId y : body.ops.back().operands) {
    const Val& v = values_[y].val;
    if (v.kind == Val::Kind::Ref) unsupported(op, "run_scoped that yields a ref");
    results.push_back(v.is_scalar() ? v : materialized(v));
  }
  // Only copies and semaphores can outlast a scope.
  if (writes_->of(op).everything) emit(ops::scope_end, plan_.own(std::move(scope)));
  for (size_t i = 0; i < op.results.size(); ++i) define(op.results[i], results[i]);
}

}  // namespace pallasim::interp
