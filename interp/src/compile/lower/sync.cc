// Semaphores and ids.
#include <algorithm>
#include <functional>

#include "../../plan/payload/copies.h"
#include "../../plan/steps.h"
#include "access.h"
#include "sync.h"

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

// The core of the body's mesh that coordinates on its axes name; where an axis is not named, the own coordinate on an
// axis of that name. -1, which no core is, where a coordinate lies outside of its axis.
static Val core_of_axes(Emitter& e, const Op& op, int body, const Attr& named,
                        const std::function<Val(const Attr&)>& scalar) {
  const std::vector<ir::Mesh>& meshes = e.module().meshes;
  const int there = e.plan().bodies[static_cast<size_t>(body)]->mesh, here = e.body().mesh;
  if (there < 0) e.unsupported(op, "a core by axes, in a kernel without a mesh");
  const ir::Mesh& mesh = meshes[static_cast<size_t>(there)];
  const auto is_named = [&](const Attr& a, const std::string& name) {
    return a.is_call("axis") && a.items.size() == 2 && a.items[0].s == name;
  };
  for (const Attr& a : named.items)
    if (std::none_of(mesh.axes.begin(), mesh.axes.end(), [&](const ir::MeshAxis& x) { return is_named(a, x.name); }))
      e.unsupported(op, "a core by an axis that mesh \"" + mesh.name + "\" does not have");
  constexpr ir::DType kI32 = ir::DType::I32, kBool = ir::DType::Bool;
  const auto compute = [&](OpCode code, ir::DType result, const Val& a, const Val& b) {
    StripParams params;
    params.dtype = a.dtype;
    params.semantics = e.semantics();
    return scalar_result(e, code, a.dtype, result, {a, b}, params);
  };
  const auto coordinate = [&](const std::string& axis) {
    for (const Attr& a : named.items)
      if (is_named(a, axis)) return scalar(a.items[1]);
    for (size_t i = 0; i < e.body().axis_slots.size(); ++i)
      if (meshes[static_cast<size_t>(here)].axes[i].name == axis) return scalar_in(e.body().axis_slots[i], kI32);
    ir::Diagnostic("PS-TPU-006",
                   "a core of mesh \"" + mesh.name + "\" without a coordinate on its axis \"" + axis + "\"")
        .of(e.module().name)
        .at(ir::site_of(e.module(), op.loc))
        .with({"the kernel's own mesh has no axis of that name"})
        .hinted("from a mesh without the axis every core has to be named by all of its coordinates")
        .raise();
  };
  Val core = e.const_int(kI32, 0), outside = e.const_int(kI32, 0);
  for (const ir::MeshAxis& axis : mesh.axes) {
    const Val size = e.const_int(kI32, axis.size), at = coordinate(axis.name);
    core = compute(OpCode::add, kI32, compute(OpCode::mul, kI32, core, size), at);
    for (const Val& wrong :
         {compute(OpCode::lt, kBool, at, e.const_int(kI32, 0)), compute(OpCode::ge, kBool, at, size)})
      outside = compute(OpCode::add, kI32, outside, scalar_convert(e, wrong, kI32));
  }
  const Val mask = compute(OpCode::sub, kI32, e.const_int(kI32, 0), outside);
  return compute(OpCode::or_, kI32, core, mask);
}

// A logical device id counts the devices around the kernel; where there is one, its id is 0, by number or by
// coordinates. Ids are compared with what there is when the step runs.
Peer peer(Emitter& e, const Op& op) {
  Peer r;
  r.body = target_body(e, op);
  auto named = [&](const char* key) {  // null: nobody is named
    const Attr* a = op.attr(key);
    return a && a->is(Attr::Kind::Symbol) && a->s == "none" ? nullptr : a;
  };
  auto scalar = [&](const Attr& a, const char* key) {
    if (a.is(Attr::Kind::Operand)) return scalar_convert(e, e.operand(op, static_cast<size_t>(a.i)), ir::DType::I32);
    if (!a.is_int()) e.unsupported(op, std::string(ir::name(op.code)) + " with such a " + key);
    return e.const_int(ir::DType::I32, std::clamp<int64_t>(a.i, INT32_MIN, INT32_MAX));
  };
  auto slot = [&](const char* key) {
    const Attr* a = named(key);
    if (!a) return Addr::kNoSlot;
    if (a->is(Attr::Kind::List))
      return scalar_slot(e, core_of_axes(e, op, r.body, *a, [&](const Attr& c) { return scalar(c, key); }));
    return scalar_slot(e, scalar(*a, key));
  };
  r.core_slot = slot("core_index");
  if (r.core_slot == Addr::kNoSlot && r.body != e.body().index)  // the one at the own coordinates
    r.core_slot = scalar_slot(e, core_of_axes(e, op, r.body, Attr::list({}), {}));
  e.plan().threads.reach_cores |= r.core_slot != Addr::kNoSlot;
  const Attr* device = named("device_id");
  if (!device) return r;
  if (e.plan().threads.num_devices() > 1) {
    const Attr* kind = op.attr("device_id_type");
    if (kind && kind->s != "logical")
      e.unsupported(op, std::string(ir::name(op.code)) + " with a device id of type " + kind->s);
    r.device_slot = slot("device_id");
    return r;
  }
  StripParams params;
  params.dtype = ir::DType::I32;
  params.semantics = e.semantics();
  Val id = e.const_int(ir::DType::I32, 0);
  for (const Attr& coordinate : device->is(Attr::Kind::List) ? device->items : std::vector<Attr>{*device}) {
    const Val v = scalar(coordinate, "device_id");  // any coordinate but 0 shows in the bits of all of them
    const bool first = id.scalar().is_const && id.scalar().bits == 0;
    id = first ? v : scalar_result(e, ir::OpCode::or_, ir::DType::I32, ir::DType::I32, {id, v}, params);
  }
  const bool own = id.scalar().is_const && id.scalar().bits == 0;
  if (!own) r.device_slot = scalar_slot(e, id);
  return r;
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
    p.peer = peer(e, op);
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
