#include "facts.h"

#include <algorithm>
#include <functional>

#include "writes.h"

namespace pallasim::interp::analysis {
namespace {

// Whether `f` holds for an operation of the region or of one inside it.
bool any_op(const ir::Region& region, const std::function<bool(const ir::Op&)>& f) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& op) {
    return f(op) ||
           std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) { return any_op(r, f); });
  });
}

bool is_of_devices(const ir::View& v) {
  return std::holds_alternative<ir::view::Peer>(v) || std::holds_alternative<ir::view::Multicast>(v);
}

bool names_device(const ir::Op& op) {
  using C = ir::OpCode;
  if (op.code == C::multimem_load_reduce || op.code == C::multimem_store || op.code == C::gpu_sem_signal_multicast)
    return true;
  if (op.code == C::gpu_sem_signal_parallel)
    for (const ir::Attr& signal : op.attr("signals")->items)
      if (signal.items.size() > 2) return true;
  for (const auto& [key, a] : op.attrs)
    if (a.view && std::any_of(a.view->transforms.begin(), a.view->transforms.end(), is_of_devices)) return true;
  if (op.code != C::sem_signal && op.code != C::gpu_sem_signal && op.code != C::dma_start) return false;
  const ir::Attr* a = op.attr("device_id");
  return a && !(a->is(ir::Attr::Kind::Symbol) && a->s == "none");
}

// Whether another program may write to what the operand with this index shows. `alone`: an input that no output shares.
bool written_by_others(const ir::Module& m, const hw::MachineModel& model, size_t operand) {
  const ir::Operand& o = m.operands[operand];
  if (o.kind == ir::Operand::Kind::Output) return true;
  return m.is_aliased_input(operand) && (!o.has_block || model.spaces[o.space].blocks == hw::BlockAccess::Pointer);
}

}  // namespace

bool reaches_devices(const ir::Module& m) {
  return std::any_of(m.bodies.begin(), m.bodies.end(),
                     [](const ir::Body& b) { return any_op(b.graph.region, names_device); });
}

bool programs_may_wait(const ir::Module& m, const ir::Body& body, const hw::MachineModel& model) {
  if (model.in_order()) return false;
  const ir::Graph& g = body.graph;
  const Writes writes(g);
  const auto reads_others = [&](const ir::Op& op) {
    if (op.code != ir::OpCode::get && op.code != ir::OpCode::masked_load) return false;
    if (!g.type(op.results[0])->is_scalar()) return false;
    const WriteSet& shown = writes.origins(op.operands[0]);
    return shown.everything || std::any_of(shown.origins.begin(), shown.origins.end(), [&](ir::ValueId o) {
             const auto& args = g.region.args;
             const auto at = std::find(args.begin(), args.end(), o);
             const auto i = static_cast<size_t>(at - args.begin());
             return i >= m.operands.size() || written_by_others(m, model, i);
           });
  };
  return any_op(g.region, [&](const ir::Op& op) {
    if (op.code == ir::OpCode::atomic_rmw || op.code == ir::OpCode::atomic_cas) return true;
    return op.code == ir::OpCode::while_ && std::any_of(op.regions.begin(), op.regions.end(),
                                                        [&](const ir::Region& r) { return any_op(r, reads_others); });
  });
}

bool makes_semaphores(const ir::Body& body) {
  const ir::Graph& g = body.graph;
  return any_op(g.region, [&](const ir::Op& op) {
    if (op.code == ir::OpCode::get_barrier_semaphore) return true;
    const bool scoped = op.code == ir::OpCode::run_scoped;
    const auto& born = scoped ? op.regions[0].args : op.results;
    if (!scoped && !(ir::info(op.code).effects & ir::kEffectAlloc)) return false;
    return std::any_of(born.begin(), born.end(),
                       [&](ir::ValueId v) { return g.type(v)->is_ref && ir::is_sync(g.type(v)->dtype); });
  });
}

}  // namespace pallasim::interp::analysis
