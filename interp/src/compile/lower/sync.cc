// Semaphores and ids.
#include "sync.h"
#include "../../plan/payload/copies.h"
#include "../../plan/steps.h"
#include "access.h"
#include "units.h"

namespace pallasim::interp {

static void lower_index(Emitter& e, const Op& op) {
  const ir::Type* t = e.type(op.results[0]);
  const auto in = [&](uint32_t slot) { return scalar_in(slot, t->dtype); };
  const CType c = compute_type(t->dtype);
  if (c != CType::I32 && c != CType::I64 && c != CType::U32)
    e.unsupported(op, "index of type " + std::string(ir::name(t->dtype)));
  // Slots of coordinates hold i64 values; their low half is the i32.
  if (op.code == ir::OpCode::program_id || op.code == ir::OpCode::num_programs) {
    int64_t axis = op.attr("axis")->i;
    for (size_t g = 0; g < e.module().grid.size(); ++g) {
      if (e.module().grid[g].vmapped) continue;
      if (axis-- != 0) continue;
      return e.define(op.results[0],
                      in(op.code == ir::OpCode::program_id ? e.body().pid_slots[g] : e.body().size_slots[g]));
    }
    e.unsupported(op, std::string(ir::name(op.code)) + " of axis " + std::to_string(op.attr("axis")->i) +
                          " in a grid of " + std::to_string(e.module().grid.size()));
  }
  const Attr* axis = op.attr("axis");
  const bool size = op.code == ir::OpCode::axis_size;
  if (axis) {
    for (size_t g = 0; g < e.module().grid.size(); ++g)
      if (!e.module().grid[g].name.empty() && e.module().grid[g].name == axis->s) {
        return e.define(op.results[0], in(size ? e.body().size_slots[g] : e.body().pid_slots[g]));
      }
    // Of an axis that counts threads: how many there are, or which one this is.
    const auto of = [&](int64_t extent, uint32_t slot) {
      e.define(op.results[0], size ? e.const_int(t->dtype, extent) : in(slot));
    };
    for (const Frame::InnerAxis& a : e.frame().inner_axes())
      if (a.name == axis->s) return of(a.size, a.slot);
    const Body& b = e.body();
    for (size_t i = 0; i < b.axis_slots.size(); ++i)
      if (const ir::MeshAxis& a = e.module().meshes[static_cast<size_t>(b.mesh)].axes[i]; a.name == axis->s)
        return of(a.size, b.axis_slots[i]);
    for (size_t i = 0; i < b.device_slots.size(); ++i)
      if (const PlanThreads::DeviceAxis& a = e.plan().threads.device_axes[i]; a.name == axis->s)
        return of(a.size, b.device_slots[i]);
  }
  e.unsupported(op, std::string(ir::name(op.code)) + (axis ? " of axis \"" + axis->s + "\"" : ""));
}

SemPayload semaphore_of(Emitter& e, const Op& op, const Val& v) {
  if (!v.is_semaphore())
    e.unsupported(op, std::string(ir::name(op.code)) + " with a semaphore of type " + std::string(ir::name(v.dtype)));
  SemPayload p;
  p.block = v.ref().semaphore;
  p.index = v.memory().addr;
  return p;
}

static void lower_semaphore(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val ref = e.operand(op, 0);
  if (!ref.is_semaphore())
    e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(ref.dtype)));
  const Val target = apply_view(e, op, ref, op.view(), ViewUse::Access).ref;
  SemPayload p;
  p.block = ref.ref().semaphore;
  p.index = target.memory().addr;
  auto amount = [&](const char* key) {
    const Attr* a = op.attr(key);
    if (!a) return;
    if (a->is_int()) {
      p.value = a->i;
    } else {
      const Val& v = e.operand(op, static_cast<size_t>(a->i));
      p.value_slot = scalar_slot(e, v);
      p.value_wide = compute_type(v.dtype) == CType::I64;
    }
  };
  if (op.code == ir::OpCode::sem_read) {
    p.polls = e.live().in_while();
    Step& s = e.emit<Kind::sem_read>(p);
    const Val v = scalar_in(e.new_slot(), e.type(op.results[0])->dtype);
    s.dst = v.scalar().slot;
    return e.define(op.results[0], v);
  }
  if (op.code == ir::OpCode::sem_signal || op.code == ir::OpCode::gpu_sem_signal) {
    amount("inc");
    p.peer = named_unit(e, op);
    e.emit<Kind::sem_signal>(p);
    return;
  }
  amount("value");
  if (const Attr* d = op.attr("decrement")) p.decrement = d->is_true();
  e.emit<Kind::sem_wait>(p);
}

// One per collective id. A launch has one collective id, so it is the launch's.
static void lower_barrier_semaphore(Emitter& e, const Op& op) {
  Val v(ir::DType::BarrierSem, {}, Val::Ref{});
  v.memory().name = "barrier semaphore";
  int& block = e.plan().memory.barrier_semaphore;
  if (block < 0) block = e.plan().memory.semaphores.add(v.memory().name, 1, memory::Level::Thread);
  v.ref().semaphore = block;
  e.define(op.results[0], v);
}

// Semaphores that all threads of the device share, of each such operation others. They begin at 0.
static void lower_global(Emitter& e, const Op& op) {
  const ir::Type& t = *e.type(op.results[0]);
  if (!ir::is_sync(t.dtype) || is_barrier(t.dtype)) e.unsupported(op, "get_global of what is no semaphore");
  Val v(t.dtype, {}, Val::Ref{});
  for (const ir::Dim& d : t.dims) v.dims.push_back(d.size);
  v.memory().name = "a global semaphore";
  v.memory().strides = dense_strides(v.dims);
  v.ref().semaphore = e.plan().memory.semaphores.add(v.memory().name, v.elements(), memory::Level::Device);
  e.define(op.results[0], v);
}

Rows sync_rows() {
  static constexpr Row kRows[] = {
      {OpCode::program_id, lower_index},         {OpCode::num_programs, lower_index},
      {OpCode::axis_index, lower_index},         {OpCode::axis_size, lower_index},
      {OpCode::sem_signal, lower_semaphore},     {OpCode::sem_wait, lower_semaphore},
      {OpCode::sem_read, lower_semaphore},       {OpCode::get_barrier_semaphore, lower_barrier_semaphore},
      {OpCode::gpu_sem_signal, lower_semaphore}, {OpCode::gpu_sem_wait, lower_semaphore},
      {OpCode::get_global, lower_global}};
  return kRows;
}

}  // namespace pallasim::interp
