#include "compiler.h"

#include "compile.h"

#include <algorithm>

#include "../plan/steps.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/rules.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

void Compiler::compile_scratch() {
  uint32_t next_buffer = plan_.num_buffers;
  const ir::Graph& graph = m_.bodies[0].graph;
  const size_t first = graph.region.args.size() - m_.scratch.size();
  for (size_t i = 0; i < m_.scratch.size(); ++i) {
    const ir::Scratch& s = m_.scratch[i];
    Val v;
    v.kind = Val::Kind::Ref;
    v.dtype = s.type->dtype;
    v.dims = dims_of(s.type);
    v.strides = dense_strides(v.dims);
    v.name = s.name;
    v.origin = graph.region.args[first + i];
    const memory::Level owner = memory::owner_level(s.type->scope, s.type->space);
    if (ir::is_sync(v.dtype)) {
      v.semaphore = plan_.semaphores.add(v.name, v.elements(), owner, v.dtype == ir::DType::DmaSem);
    } else if (owner == memory::Level::Thread || owner == memory::Level::Warp) {
      v.storage = temps_.allocate(v.bytes());
      permanent_.push_back(v.storage);
      v.addr = {kTempBuffer, Addr::kNoSlot, v.storage->offset};
      note_allocation(v, s.type->space, owner, memory::Allocation::Lifetime::Launch);
    } else {
      v.addr = {next_buffer++, Addr::kNoSlot, 0};
      note_allocation(v, s.type->space, owner, memory::Allocation::Lifetime::Launch);
    }
    add_tile_padding(&v, s.type->space);
    bind(graph.region.args[first + i], v);
  }
  plan_.num_buffers = next_buffer;
}

// Cores of a device share a grid along its first `parallel` axis.
void Compiler::share_grid() {
  const int cores = plan_.options.cores > 0 ? plan_.options.cores : static_cast<int>(plan_.options.chip->device_cores);
  if (!model_.cores_share_grid || !m_.meshes.empty() || cores < 2) return;
  for (size_t g = 0; g < m_.grid.size() && plan_.core_axis < 0; ++g)
    if (m_.grid[g].semantics == "parallel" || m_.grid[g].semantics == "core_parallel")
      plan_.core_axis = static_cast<int>(g);
  if (plan_.core_axis < 0) return;
  plan_.cores = cores;
  memory::Mesh mesh;
  mesh.cores = {cores};
  plan_.set_units(memory::Units({mesh}));
}

// What users call the units of a mesh.
static memory::Mesh units_of(const ir::Mesh& mesh) {
  memory::Mesh r;
  r.cores.clear();
  for (const ir::MeshAxis& a : mesh.axes) r.cores.push_back(std::max<int64_t>(a.size, 1));
  if (mesh.kind == "scalar_subcore" || mesh.kind == "vector_subcore") r.core = "SparseCore", r.thread = "subcore";
  if (mesh.kind == "vector_subcore" && !r.cores.empty()) {
    r.threads = r.cores.back();
    r.cores.pop_back();
  }
  if (r.cores.empty()) r.cores = {1};
  return r;
}

void Compiler::compile() {
  // Slots of coordinates.
  for (size_t i = 0; i < m_.grid.size(); ++i) {
    plan_.pid_slots.push_back(new_slot());
    plan_.size_slots.push_back(new_slot());
    plan_.place_slots.push_back(new_slot());
  }
  for (const ir::Mesh& mesh : m_.meshes) {
    int64_t n = 1;
    for (const ir::MeshAxis& a : mesh.axes) {
      plan_.mesh_slots.push_back(new_slot());
      n = memory::mul(n, std::max<int64_t>(a.size, 0));
    }
    require_memory(memory::mul(n, 1024), "a mesh of " + std::to_string(n) + " threads");
    plan_.set_units(memory::Units({units_of(mesh)}));
  }
  if (const Attr* devices = ir::find(m_.attrs, "devices"))
    for (const Attr& d : devices->items)
      if (d.is_call("axis")) plan_.device_axes.push_back({d.items[0].s, d.items[1].i, new_slot()});
  share_grid();
  plan_.num_buffers = kFirstOperandBuffer + static_cast<uint32_t>(m_.operands.size());
  graph_ = &m_.bodies[0].graph;
  next_origin_ = static_cast<int>(graph_->types.size());
  compile_windows();
  compile_scratch();
  compile_body(m_.bodies[0]);
  prove_parallel(m_.bodies[0]);
  finish();
}

void Compiler::finish() {
  // Programs that exist at once are one thread each, and semaphores belong to threads of the whole grid.
  if (plan_.concurrent && (plan_.num_threads > 1 || !plan_.semaphores.empty()))
    interp::unsupported(
        m_, "programs that may wait for each other and have several threads, semaphores or a modelled pipeline");
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    plan_.steps[i].id = static_cast<int32_t>(i);
    if (targets_[i] >= 0) plan_.steps[i].jump = &plan_.steps[static_cast<size_t>(targets_[i])];
  }
  plan_.entry = plan_.steps.data();
  values_.clear();
  plan_.temp_bytes = temps_.high_water() + 64;
  int64_t bytes = memory::mul(plan_.temp_bytes + static_cast<int64_t>(plan_.image.size()), plan_.num_threads);
  bytes = memory::add(bytes, memory::mul(plan_.semaphores.total(1), 32));
  for (const memory::Allocation& a : plan_.allocations)
    if (!a.private_to_thread()) bytes = memory::add(bytes, memory::mul(a.bytes, plan_.units.per_device(a.owner)));
  require_memory(bytes, "scratch and temporaries of " + std::to_string(plan_.num_threads) +
                            (plan_.num_threads == 1 ? " thread" : " threads"));
}

std::shared_ptr<Plan> compile_plan(ir::Module module, const Options& options) {
  auto plan = std::make_shared<Plan>();
  plan->module = std::move(module);
  plan->options = options;
  if (options.numerics == Options::Numerics::Oracle) {
    plan->given = std::make_unique<ir::Module>(std::move(plan->module));
    plan->module = widened(*plan->given);
  }
  if (options.rules == Options::Rules::Error) plan->findings = hw::check_rules(module_of(*plan), *options.chip);
  if (options.rules == Options::Rules::Warn) plan->findings = hw::broken_rules(module_of(*plan), *options.chip);
  for (ir::Diagnostic& d : plan->findings)
    if (d.severity == ir::Severity::Error) d.severity = ir::Severity::Warning;
  if (plan->module.bodies.empty()) unsupported(plan->module, "a module without a body");
  if (plan->module.bodies.size() > 1 || plan->module.meshes.size() > 1)
    unsupported(plan->module, "several meshes in one launch (MPMD)");
  plan->model = options.model ? options.model : &hw::model(plan->module, plan->module.bodies.front());
  Compiler(*plan).compile();
  return plan;
}

}  // namespace pallasim::interp
