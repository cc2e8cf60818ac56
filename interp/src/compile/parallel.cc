// Which grid axes may be split over workers without anybody being able to tell (DESIGN.md section 3).
#include <algorithm>

#include "compiler.h"

namespace pallasim::interp {

bool touches(const ir::Op& op, ir::ValueId ref) {
  if (std::find(op.operands.begin(), op.operands.end(), ref) != op.operands.end()) return true;
  for (const ir::Region& r : op.regions)
    for (const ir::Op& o : r.ops)
      if (touches(o, ref)) return true;
  return false;
}

bool touches(const ir::Region& r, ir::ValueId ref) {
  return std::any_of(r.ops.begin(), r.ops.end(), [&](const ir::Op& o) { return touches(o, ref); });
}

namespace {

const ir::Op* definition(const ir::Region& r, ir::ValueId v) {
  for (const ir::Op& op : r.ops)
    for (ir::ValueId x : op.results)
      if (x == v) return &op;
  return nullptr;
}

// The axis k of a predicate `program_id(k) == 0`, looked up in `region`; -1 otherwise.
int when_zero_axis(const ir::Region& region, ir::ValueId pred) {
  const ir::Op* op = definition(region, pred);
  while (op && (op->code == ir::OpCode::convert || op->code == ir::OpCode::ne)) {
    // `when` writes convert(bool -> i32), and older traces `ne x, 0`.
    op = definition(region, op->operands[0]);
  }
  if (!op || op->code != ir::OpCode::eq) return -1;
  const ir::Op *a = definition(region, op->operands[0]), *b = definition(region, op->operands[1]);
  if (a && a->code == ir::OpCode::constant) std::swap(a, b);
  if (!a || !b || a->code != ir::OpCode::program_id || b->code != ir::OpCode::constant) return -1;
  const ir::Attr& v = *b->attr("value");
  return v.is(ir::Attr::Kind::Bits) && v.i == 0 ? static_cast<int>(a->attr("axis")->i) : -1;
}

void scan_effects(const ir::Region& r, uint16_t* effects) {
  for (const ir::Op& op : r.ops) {
    *effects |= ir::info(op.code).effects;
    for (const ir::Region& inner : op.regions) scan_effects(inner, effects);
  }
}

bool depends_on(const Affine& a, size_t axis) { return a.coefficient[axis] != 0; }

}  // namespace

// Whether the first thing that happens to `ref` in every run of `region` is a store of the whole. `when_axes` collects axes k
// of stores under `when(program_id(k) == 0)`; null refuses those.
bool Compiler::full_store_first(const Region& region, ir::ValueId ref, int, std::vector<int>* when_axes) {
  for (const Op& op : region.ops) {
    if (!touches(op, ref)) continue;
    if (op.code == ir::OpCode::store && op.operands[0] == ref && op.operands[1] != ref) {
      const Attr* view = op.attr("view");
      return !view || view->items.empty();
    }
    if (op.code == ir::OpCode::cond && op.regions.size() == 2 && when_axes && !touches(op.regions[0], ref)) {
      const int axis = when_zero_axis(region, op.operands[0]);
      if (axis < 0 || !full_store_first(op.regions[1], ref, 0, nullptr)) return false;
      when_axes->push_back(axis);
      return true;
    }
    if (op.code == ir::OpCode::run_scoped) return full_store_first(op.regions[0], ref, 0, nullptr);
    return false;
  }
  return false;
}

// Cores that share the grid along an axis whose units are independent cannot be told from one core.
void Compiler::prove_parallel(const ir::Body& body) {
  find_splittable(body);
  if (plan_.core_axis < 0) return;
  if (std::count(plan_.splittable.begin(), plan_.splittable.end(), plan_.core_axis)) {
    plan_.num_threads = 1;
    return;
  }
  plan_.splittable.clear();
  plan_.sequential_because = "cores share the grid, and " + (plan_.sequential_because.empty() ? "its parallel axis moves no block" : plan_.sequential_because);
}

void Compiler::find_splittable(const ir::Body& body) {
  const size_t axes = m_.grid.size();
  const Region& region = body.graph.region;
  std::vector<int> visible;  // program_id axis -> grid axis
  for (size_t g = 0; g < axes; ++g)
    if (!m_.grid[g].vmapped) visible.push_back(static_cast<int>(g));

  // Outputs that are stored completely before anything reads them need no poison.
  for (Window& w : plan_.windows) {
    if (!w.is_output || w.staged) continue;
    std::vector<int> when;
    if (!full_store_first(region, region.args[static_cast<size_t>(w.operand)], 0, &when)) continue;
    std::vector<bool> used(axes, false);
    bool covered = true;
    for (size_t d = 0; d < std::min(w.index.size(), w.dims.size()) && covered; ++d) {
      const Affine& a = w.index[d];
      if (!a.known) covered = false;
      if (!covered || w.dims[d] == w.extent[d]) continue;
      int axis = -1;
      for (size_t g = 0; g < axes; ++g)
        if (a.coefficient[g]) covered &= axis < 0 && a.coefficient[g] == 1, axis = static_cast<int>(g);
      covered &= axis >= 0 && a.constant == 0 && w.scale[d] == w.extent[d];
      if (!covered) break;
      const auto g = static_cast<size_t>(axis);
      covered = !used[g] && m_.grid[g].dynamic < 0 && m_.grid[g].size * w.extent[d] == w.dims[d];
      used[g] = true;
    }
    for (int k : when) covered = covered && static_cast<size_t>(k) < visible.size() && !used[static_cast<size_t>(visible[static_cast<size_t>(k)])];
    w.fully_written = covered;
  }

  uint16_t effects = 0;
  scan_effects(region, &effects);
  auto refuse = [&](std::string why) { plan_.sequential_because = std::move(why); };
  if (axes == 0) return refuse("the grid has one point");
  if (plan_.num_threads > 1 && plan_.core_axis < 0) return refuse("the kernel runs on a mesh");
  if (plan_.modelled) return refuse("the pipeline is modelled");
  if (plan_.concurrent) return refuse("programs may wait for each other");
  if (effects & (ir::kEffectSync | ir::kEffectAsync | ir::kEffectAtomic | ir::kEffectRandom))
    return refuse("the kernel synchronises, or draws from a stateful generator");
  if (!prefetch_copies_.empty()) return refuse("the kernel writes to its prefetched scalars");
  if (!plan_.shared.empty() || !plan_.semaphores.empty()) return refuse("scratch is shared by the grid");

  // (1) An axis is a candidate when every output has a dimension whose block index moves with that axis alone.
  std::vector<int> split;
  for (size_t g = 0; g < axes; ++g) {
    bool legal = true;
    for (const Window& w : plan_.windows) {
      if (!w.is_output) continue;
      bool disjoint = false;
      for (size_t d = 0; d < std::min(w.index.size(), w.dims.size()); ++d) {
        const Affine& a = w.index[d];
        if (!a.known || !depends_on(a, g)) continue;
        bool alone = true;
        for (size_t o = 0; o < axes; ++o) alone &= o == g || !depends_on(a, o);
        disjoint |= alone && std::abs(a.coefficient[g]) * w.scale[d] >= w.extent[d];
      }
      legal &= disjoint;
    }
    if (legal) split.push_back(static_cast<int>(g));
  }
  if (split.empty()) return refuse("no grid axis moves every output's block");
  // (2) Reads of an aliased operand must stay inside the unit's own blocks: the same index map as the output's.
  const size_t inputs = plan_.windows.size() - static_cast<size_t>(m_.count(ir::Operand::Kind::Output));
  for (const ir::Alias& a : m_.aliases) {
    const Window &in = plan_.windows[static_cast<size_t>(a.input)], &out = plan_.windows[inputs + static_cast<size_t>(a.output)];
    bool same = in.index.size() == out.index.size() && in.extent == out.extent && in.scale == out.scale && !in.index.empty();
    for (size_t d = 0; same && d < in.index.size(); ++d)
      same = in.index[d].known && out.index[d].known && in.index[d].constant == out.index[d].constant &&
             in.index[d].coefficient == out.index[d].coefficient;
    if (!same) return refuse("an aliased input is read through another window than its output");
  }
  // (3) Scratch must be written before it is read inside every unit; units are then contiguous in grid order.
  if (!m_.scratch.empty()) {
    plan_.prefix_only = true;
    size_t first_when = axes;
    for (size_t i = 0; i < m_.scratch.size(); ++i) {
      const ir::ValueId ref = region.args[region.args.size() - m_.scratch.size() + i];
      if (!touches(region, ref)) continue;
      std::vector<int> when;
      if (!full_store_first(region, ref, 0, &when)) return refuse("scratch " + m_.scratch[i].name + " may carry values between units");
      for (int k : when)
        first_when = std::min(first_when, static_cast<size_t>(k) < visible.size() ? static_cast<size_t>(visible[static_cast<size_t>(k)]) : 0);
    }
    split.erase(std::remove_if(split.begin(), split.end(), [&](int g) { return static_cast<size_t>(g) >= first_when; }), split.end());
    // Only a leading run of axes keeps units contiguous.
    size_t prefix = 0;
    while (prefix < split.size() && split[prefix] == static_cast<int>(prefix)) ++prefix;
    split.resize(prefix);
    if (split.empty()) return refuse("scratch is initialised along the only axes that could be split");
  }
  plan_.splittable = split;
}

}  // namespace pallasim::interp
