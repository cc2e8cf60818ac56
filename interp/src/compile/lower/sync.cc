// Semaphores and ids.
#include <algorithm>

#include "../../plan/steps.h"
#include "../compiler.h"

namespace pallasim::interp {

void Compiler::op_index(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  Val v;
  v.kind = Val::Kind::Scalar;
  v.dtype = t->dtype;
  const CType c = compute_type(t->dtype);
  if (c != CType::I32 && c != CType::I64 && c != CType::U32)
    unsupported(op, "index of type " + std::string(ir::name(t->dtype)));
  // Slots of coordinates hold i64 values; their low half is the i32.
  if (op.code == ir::OpCode::program_id || op.code == ir::OpCode::num_programs) {
    int64_t axis = op.attr("axis")->i;
    for (size_t g = 0; g < m_.grid.size(); ++g) {
      if (m_.grid[g].vmapped) continue;
      if (axis-- != 0) continue;
      v.slot = op.code == ir::OpCode::program_id ? body_.pid_slots[g] : body_.size_slots[g];
      return define(op.results[0], v);
    }
    unsupported(op, std::string(ir::name(op.code)) + " of axis " + std::to_string(op.attr("axis")->i) +
                        " in a grid of " + std::to_string(m_.grid.size()));
  }
  const Attr* axis = op.attr("axis");
  const bool size = op.code == ir::OpCode::axis_size;
  if (axis) {
    for (size_t g = 0; g < m_.grid.size(); ++g)
      if (!m_.grid[g].name.empty() && m_.grid[g].name == axis->s) {
        v.slot = size ? body_.size_slots[g] : body_.pid_slots[g];
        return define(op.results[0], v);
      }
    for (size_t i = 0; i < body_.axis_slots.size(); ++i)
      if (const ir::MeshAxis& a = m_.meshes[static_cast<size_t>(body_.mesh)].axes[i]; a.name == axis->s) {
        if (size) v = const_int(t->dtype, a.size);
        else v.slot = body_.axis_slots[i];
        return define(op.results[0], v);
      }
    for (size_t i = 0; i < body_.device_slots.size(); ++i)
      if (const Plan::DeviceAxis& a = plan_.device_axes[i]; a.name == axis->s) {
        if (size) v = const_int(t->dtype, a.size);
        else v.slot = body_.device_slots[i];
        return define(op.results[0], v);
      }
  }
  unsupported(op, std::string(ir::name(op.code)) + (axis ? " of axis \"" + axis->s + "\"" : ""));
}

void Compiler::op_semaphore(const Op& op) {
  about_to_write(everything());
  const Val ref = operand(op, 0);
  if (ref.semaphore < 0) unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(ref.dtype)));
  const Val target = apply_view(op, ref, op.attr("view"), ViewUse::Access).ref;
  SemPayload p;
  p.block = ref.semaphore;
  p.index = target.addr;
  auto amount = [&](const char* key) {
    const Attr* a = op.attr(key);
    if (!a) return;
    if (a->is_int()) {
      p.value = a->i;
    } else {
      const Val& v = operand(op, static_cast<size_t>(a->i));
      p.value_slot = scalar_slot(v);
      p.value_wide = compute_type(v.dtype) == CType::I64;
    }
  };
  if (op.code == ir::OpCode::sem_read) {
    p.polls = while_depth_ > 0;
    Step& s = emit(ops::kSemRead, plan_.own(p));
    Val v;
    v.kind = Val::Kind::Scalar;
    v.dtype = type(op.results[0])->dtype;
    v.slot = new_slot();
    s.dst = v.slot;
    return define(op.results[0], v);
  }
  if (op.code == ir::OpCode::sem_signal) {
    amount("inc");
    p.peer = peer(op);
    emit(ops::kSemSignal, plan_.own(p));
    return;
  }
  amount("value");
  if (const Attr* d = op.attr("decrement")) p.decrement = d->is_true();
  emit(ops::kSemWait, plan_.own(p));
}

// One per collective id. A launch has one collective id, so it is the launch's.
void Compiler::op_barrier_semaphore(const Op& op) {
  Val v;
  v.kind = Val::Kind::Ref;
  v.dtype = ir::DType::BarrierSem;
  v.name = "barrier semaphore";
  if (plan_.barrier_semaphore < 0) plan_.barrier_semaphore = plan_.semaphores.add(v.name, 1, memory::Level::Thread);
  v.semaphore = plan_.barrier_semaphore;
  define(op.results[0], v);
}

void Compiler::op_identity(const Op& op) {
  for (size_t i = 0; i < op.results.size(); ++i) define(op.results[i], operand(op, i));
}

}  // namespace pallasim::interp
