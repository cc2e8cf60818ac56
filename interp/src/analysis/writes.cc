#include "writes.h"

#include <algorithm>

namespace pallasim::interp::analysis {

void WriteSet::add(ir::ValueId origin) {
  const auto at = std::lower_bound(origins.begin(), origins.end(), origin);
  if (at == origins.end() || *at != origin) origins.insert(at, origin);
}

void WriteSet::add(const WriteSet& other) {
  everything |= other.everything;
  for (ir::ValueId o : other.origins) add(o);
}

Writes::Writes(const ir::Graph& graph) : graph_(graph) {
  for (ir::ValueId a : graph.region.args)
    if (graph.type(a)->is_ref) origins_[a].add(a);
  visit(graph.region);
}

const WriteSet& Writes::origins(ir::ValueId ref) const {
  static const WriteSet unknown{true, {}};
  const auto it = origins_.find(ref);
  return it == origins_.end() ? unknown : it->second;
}

const WriteSet& Writes::of(const ir::Op& op) const {
  static const WriteSet nothing;
  const auto it = writes_.find(&op);
  return it == writes_.end() ? nothing : it->second;
}

WriteSet Writes::shown_by_operands(const ir::Op& op) const {
  WriteSet r;
  for (ir::ValueId v : op.operands)
    if (graph_.type(v)->is_ref) r.add(origins(v));
  return r;
}

void Writes::visit(const ir::Region& region) {
  for (const ir::Op& op : region.ops) visit(op);
}

void Writes::visit(const ir::Op& op) {
  using C = ir::OpCode;
  const ir::OpInfo& info = ir::info(op.code);
  for (const ir::Region& r : op.regions) {
    for (size_t i = 0; i < r.args.size(); ++i) {
      if (!graph_.type(r.args[i])->is_ref) continue;
      WriteSet& o = origins_[r.args[i]];
      if (op.code == C::run_scoped) o.add(r.args[i]);
      else if (op.code == C::call && i < op.operands.size()) o = origins(op.operands[i]);
      else o.everything = true;  // a carried ref may be another one each time
    }
    visit(r);
  }
  WriteSet w;
  w.everything = (info.effects & (ir::kEffectSync | ir::kEffectAsync | ir::kEffectAtomic)) != 0;
  if (info.effects & ir::kEffectWrite) w.add(shown_by_operands(op));
  for (const ir::Region& r : op.regions)
    for (const ir::Op& o : r.ops) w.add(of(o));
  if (!w.empty()) writes_[&op] = std::move(w);
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!graph_.type(op.results[i])->is_ref) continue;
    WriteSet shown;
    if (info.effects & ir::kEffectAlloc || op.code == C::get_barrier_semaphore) shown.add(op.results[i]);
    else if (op.regions.empty()) shown = shown_by_operands(op);
    else if (op.code == C::call || op.code == C::run_scoped) shown = origins(op.regions[0].ops.back().operands[i]);
    else shown.everything = true;
    origins_[op.results[i]] = std::move(shown);
  }
}

}  // namespace pallasim::interp::analysis
