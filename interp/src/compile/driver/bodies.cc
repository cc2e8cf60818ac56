// A plan of all bodies of a launch: what they share, and in which order it becomes known.
#include <fmt/format.h>

#include <algorithm>

#include "../../analysis/expressions.h"
#include "../../analysis/facts.h"
#include "../../analysis/split.h"
#include "../../passes/passes.h"
#include "../../plan/steps.h"
#include "../lower/barriers.h"
#include "../lower/copy_forwarding.h"
#include "compile.h"
#include "compiler.h"
#include "pallasim/hw/rules.h"
#include "units.h"

namespace pallasim::interp {

namespace {

void make_bodies(Plan& p) {
  const ir::Module& m = p.module;
  if (m.bodies.empty()) unsupported(m, "a module without a body");
  if (m.bodies.size() > 1 && !m.grid.empty()) unsupported(m, "a grid in a launch of several bodies");
  for (const ir::Body& body : m.bodies) {
    auto b = std::make_unique<Body>();
    b->index = static_cast<int>(p.bodies.size());
    for (size_t i = 0; i < m.meshes.size(); ++i)
      if (m.meshes[i].name == body.mesh) b->mesh = static_cast<int>(i);
    b->model = p.options.model ? p.options.model : &hw::model(m, body);
    p.bodies.push_back(std::move(b));
  }
  if (const ir::Attr* devices = ir::find(m.attrs, "devices"))
    for (const ir::Attr& d : devices->items)
      if (d.is_call("axis")) p.threads.device_axes.push_back({d.items[0].s, d.items[1].i});
  p.memory.num_buffers = kFirstOperandBuffer + static_cast<uint32_t>(m.operands.size());
  for (size_t i = 1; i < p.bodies.size(); ++i)
    p.memory.private_buffers.push_back(p.bodies[i]->temps = p.memory.num_buffers++);
}

void learn_facts(Plan& p) {
  p.threads.has_peers = p.threads.num_devices() > 1 && analysis::reaches_devices(p.module);
  for (const auto& b : p.bodies)
    p.threads.concurrent |=
        analysis::programs_may_wait(p.module, p.module.bodies[static_cast<size_t>(b->index)], *b->model);
}

// Cores of a device share a grid along its first `parallel` axis. Where the units of that axis are independent they
// cannot be told from one core.
void share_grid(Plan& p) {
  const int cores = p.options.cores > 0 ? p.options.cores : static_cast<int>(p.options.chip->device_cores);
  if (!p.first().model->cores_share_grid || !p.module.meshes.empty() || cores < 2) return;
  for (size_t g = 0; g < p.module.grid.size() && p.threads.core_axis < 0; ++g)
    if (p.module.grid[g].semantics == "parallel" || p.module.grid[g].semantics == "core_parallel")
      p.threads.core_axis = static_cast<int>(g);
  if (p.threads.core_axis < 0) return;
  p.threads.cores = cores;
  if (std::count(p.split.axes.begin(), p.split.axes.end(), p.threads.core_axis)) return;
  place_cores(p, cores);
  p.split.axes.clear();
  p.split.refused =
      "cores share the grid, and " + (p.split.refused.empty() ? "its parallel axis moves no block" : p.split.refused);
}

// Steps lie where they stay from here on: jumps and entries become pointers.
void link(Plan& p, const std::vector<int>& targets, const std::vector<size_t>& entries) {
  for (size_t i = 0; i < p.steps.size(); ++i) {
    p.steps[i].id = static_cast<int32_t>(i);
    if (targets[i] >= 0) p.steps[i].jump = &p.steps[static_cast<size_t>(targets[i])];
  }
  p.observed_threads = p.may_speculate();
  for (size_t b = 0; b < p.bodies.size(); ++b) p.bodies[b]->entry = p.steps.data() + entries[b];
}

// Clusters of thread blocks that need not be there at the same time.
int64_t clusters_of(const Plan& p) {
  int64_t n = 1;
  if (!p.first().model->in_order() && p.bodies.size() == 1)
    for (int64_t c : p.threads.units.meshes().front().clusters) n = memory::mul(n, c);
  return n;
}

// What has to be there at a time.
int64_t memory_of(const Plan& p) {
  const int64_t clusters = clusters_of(p);
  int64_t bytes = memory::mul(p.memory.semaphores.total(1), 32) / clusters;
  for (const auto& b : p.bodies) {
    const auto slots = static_cast<int64_t>(b->image.size());
    const int64_t children = memory::mul(memory::add(b->child_bytes, slots), b->max_children);
    const int64_t each = memory::add(memory::add(b->temp_bytes, slots), children);
    bytes = memory::add(bytes, memory::mul(each, b->threads / clusters));
  }
  for (const memory::Allocation& a : p.memory.allocations) {
    if (a.private_to_thread()) continue;
    const int64_t owners = p.threads.units.per_device(a.owner);
    bytes = memory::add(bytes, memory::mul(a.bytes, a.owner == memory::Level::Device ? owners : owners / clusters));
  }
  return bytes;
}

// Values go before the frames of all bodies, also where a refusal ends the compilation.
struct ValuesOf {
  const std::vector<std::unique_ptr<Compiler>>& compilers;
  ~ValuesOf() {
    for (const auto& c : compilers) c->forget_values();
  }
};

void compile_bodies(Plan& p, passes::CopyForwarding forwarding) {
  place_threads(p);
  std::vector<std::unique_ptr<Compiler>> compilers;
  const ValuesOf ending{compilers};
  for (const auto& b : p.bodies) compilers.push_back(std::make_unique<Compiler>(p, *b));
  compilers.front()->forwards(std::move(forwarding));
  int64_t threads = 0;
  for (const auto& b : p.bodies)
    if (b->mesh >= 0) threads = memory::add(threads, b->threads / clusters_of(p));
  compilers.front()->require_memory(memory::mul(threads, 1024), fmt::format("a mesh of {} threads", threads));
  for (const auto& c : compilers) c->place_operands();
  Compiler::place_scratch(compilers);
  const analysis::Expressions values(p.module.bodies[0].graph, p.module.grid);
  for (const auto& b : p.bodies)
    for (Window& w : b->windows) w.fully_written = analysis::fully_written(p.module, values, p.options, w);
  compilers.front()->find_splittable(values);
  share_grid(p);
  p.threads.count = static_cast<int>(p.threads.units.per_device(memory::Level::Thread));
  p.memory.semaphores.set_units(p.threads.units);
  std::vector<size_t> entries;
  std::vector<int> targets;
  for (const auto& c : compilers) {
    entries.push_back(p.steps.size());
    c->compile_body();
    targets.insert(targets.end(), c->targets().begin() + static_cast<std::ptrdiff_t>(entries.back()),
                   c->targets().end());
  }
  // Grid points that exist at once are one thread each, and semaphores belong to threads of the whole grid; clusters
  // have theirs.
  if (p.threads.concurrent && p.first().mesh < 0 && (p.threads.count > 1 || !p.memory.semaphores.empty()))
    unsupported(p.module,
                "programs that may wait for each other and have several threads, semaphores or a modelled pipeline");
  link(p, targets, entries);
  compilers.front()->require_memory(memory_of(p), fmt::format("scratch and temporaries of {} thread{}", p.threads.count,
                                                              p.threads.count == 1 ? "" : "s"));
}

}  // namespace

// Whether the body's threads have an allocation that threads have for themselves: it names their mesh, or none.
bool Compiler::is_home_of(const ir::Scratch& s) const { return s.type->mesh.empty() || s.type->mesh == ir_body_.mesh; }

void Compiler::place_alone(const ir::Scratch& s, Val* v) {
  allocate(v);
  keep(*v);
  note_allocation(plan_, *v, s.type->space, memory::owner_level(s.type->scope, s.type->space),
                  memory::Allocation::Lifetime::Launch);
}

// Remembers whose the allocation is, where no thread of this body has it.
void Compiler::note_far(const ir::Scratch& s, const Val& v, std::span<const std::unique_ptr<Compiler>> bodies) {
  const memory::Level owner = memory::owner_level(s.type->scope, s.type->space);
  for (const auto& c : bodies) {
    if (c.get() == this || s.type->mesh != c->ir_body_.mesh || owner == memory::Level::Device) continue;
    // A SparseCore has its memory for the subcores of all kinds.
    if (owner != memory::Level::Thread && c->body_.units_mesh == body_.units_mesh) continue;
    reach().note(v, c->body_.index);
  }
}

// One allocation is one for all bodies. Memory that threads have for themselves is that of the mesh which its type
// names; the other bodies know it as the far side of copies and signals. Without a mesh each body has its own.
void Compiler::place_scratch(std::span<const std::unique_ptr<Compiler>> bodies) {
  Compiler& any = *bodies.front();
  Plan& plan = any.plan_;
  for (size_t i = 0; i < plan.module.scratch.size(); ++i) {
    const ir::Scratch& s = plan.module.scratch[i];
    const memory::Level owner = memory::owner_level(s.type->scope, s.type->space);
    Val v(s.type->dtype, dims_of(s.type), Val::Ref{});
    v.memory().strides = dense_strides(v.dims);
    v.memory().name = s.name;
    Attr facts;
    for (const auto& [key, value] : s.attrs) facts.keys.push_back(key), facts.items.push_back(value);
    const bool alone = !ir::is_sync(v.dtype) && (owner == memory::Level::Thread || owner == memory::Level::Warp);
    if (is_barrier(v.dtype)) {
      v.ref().semaphore = add_barrier(any, v, *s.type, &facts);
    } else if (ir::is_sync(v.dtype)) {
      v.ref().semaphore =
          plan.memory.semaphores.add(v.memory().name, v.elements(), owner, v.dtype == ir::DType::DmaSem);
    } else if (!alone) {
      v.memory().addr = {plan.memory.num_buffers++, Addr::kNoSlot, 0};
      interp::note_allocation(plan, v, s.type->space, owner, memory::Allocation::Lifetime::Launch);
    } else {
      if (std::none_of(bodies.begin(), bodies.end(), [&](const auto& c) { return c->is_home_of(s); }))
        interp::unsupported(plan.module, fmt::format("{} of mesh \"{}\", which has no body", s.name, s.type->mesh));
      for (const auto& c : bodies)
        if (!s.type->mesh.empty() && c->is_home_of(s)) c->place_alone(s, &v);
    }
    for (const auto& c : bodies) {
      const ir::Region& region = c->ir_body_.graph.region;
      Val own = v;
      own.memory().origin = region.args[region.args.size() - plan.module.scratch.size() + i];
      if (alone && s.type->mesh.empty()) c->place_alone(s, &own);
      elide_copies(*c, own);
      c->note_far(s, own, bodies);
      add_tile_padding(*c, &own, s.type->space);
      c->bind(own.origin(), own);
    }
  }
}

bool runs(ir::OpCode code) { return lowering(code) != nullptr; }

std::shared_ptr<Plan> compile_plan(ir::Module module, const PlanOptions& options, const StepFunctions& functions,
                                   PassObserver* watch) {
  auto plan = std::make_shared<Plan>();
  plan->functions = &functions;
  plan->module = std::move(module);
  plan->options = options;
  // Every operation has its result somewhere.
  if (options.nans != Options::Nans::Off || options.keeps_values) plan->options.fuse = false;
  if (options.numerics == Options::Numerics::Oracle) {
    plan->given = std::make_unique<ir::Module>(std::move(plan->module));
    plan->module = widened(*plan->given);
  }
  if (options.rules == Options::Rules::Error)
    plan->findings = hw::check_rules(module_of(*plan), *options.chip, options.strict);
  if (options.rules == Options::Rules::Warn) plan->findings = hw::broken_rules(module_of(*plan), *options.chip);
  for (ir::Diagnostic& d : plan->findings)
    if (d.severity == ir::Severity::Error) d.severity = ir::Severity::Warning;
  passes::CopyForwarding forwarding;
  passes::rewrite(plan->module, &forwarding, plan->options, watch);
  make_bodies(*plan);
  learn_facts(*plan);
  compile_bodies(*plan, std::move(forwarding));
  passes::rewrite(*plan, watch);
  return plan;
}

}  // namespace pallasim::interp
