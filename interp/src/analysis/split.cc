#include "split.h"

#include "access.h"
#include "pallasim/hw/machine.h"
#include "pallasim/interp/rewrites.h"
#include "refs.h"

namespace pallasim::interp::analysis {
namespace {

bool has_one_point(const ir::GridAxis& a) { return a.dynamic < 0 && a.size <= 1; }

// Whether two values of `axis` never show the same block.
bool moved_by(const Access& block, size_t axis) {
  return std::any_of(block.begin(), block.end(), [&](const auto& e) { return e && e->moves_alone_along(axis); });
}

bool same_blocks(const Window& a, const Window& b) {
  if (a.map.index.empty() || a.map.index.size() != b.map.index.size() || a.dims != b.dims ||
      a.map.extent != b.map.extent || a.map.scale != b.map.scale || a.map.pad_lo != b.map.pad_lo)
    return false;
  return a.map.index == b.map.index &&
         std::all_of(a.map.index.begin(), a.map.index.end(), [](const Affine& i) { return i.known; });
}

class Proof {
 public:
  Proof(const ir::Module& m, const Expressions& values, const hw::MachineModel& model, const PlanOptions& o,
        std::span<const Window> windows)
      : m_(m),
        values_(values),
        model_(model),
        options_(o),
        windows_(windows),
        graph_(m.bodies[0].graph),
        inputs_(windows.size() - static_cast<size_t>(m.count(ir::Operand::Kind::Output))) {}

  Split run() {
    const bool proven = grid_can_be_split() && no_shared_effects() && outputs_disjoint() && aliases_stay_inside() &&
                        windows_start_anew() && scratch_starts_anew();
    if (!proven) split_.axes.clear();
    return split_;
  }

 private:
  bool refuse(std::string why) {
    split_.refused = std::move(why);
    return false;
  }
  bool is_aliased(const Window& w) const {
    const auto i = static_cast<size_t>(w.operand);
    return m_.is_aliased_input(i) || m_.is_aliased_output(i);
  }
  bool written(const Window& w) const {
    return w.is_output || may_write(graph_.region, graph_.region.args[static_cast<size_t>(w.operand)]);
  }

  bool grid_can_be_split() {
    if (m_.grid.empty()) return refuse("the grid has one point");
    if (m_.bodies.size() != 1) return refuse("the kernel has several bodies");
    return true;
  }

  // (4) Nothing but memory passes between grid points.
  bool no_shared_effects() {
    uint16_t effects = effects_of(graph_.region);
    for (const ir::Operand& o : m_.operands)
      if (o.index_map) effects |= effects_of(o.index_map->region);
    if (effects & (ir::kEffectSync | ir::kEffectAsync | ir::kEffectAtomic | ir::kEffectRandom))
      return refuse("the kernel synchronises, or draws from a stateful generator");
    for (const Window& w : windows_)
      if (!m_.operands[static_cast<size_t>(w.operand)].has_block && !w.is_output && !is_aliased(w) && written(w))
        return refuse("the kernel writes to an input that all grid points share");
    // A pointer that left its block goes on to its neighbours'.
    if (model_.spaces.has(hw::BlockAccess::Pointer) && options_.out_of_bounds == Options::Oob::Machine)
      return refuse("an access may leave its block for another one's");
    return true;
  }

  // (1) An axis is a candidate where it moves a dimension of every output's block alone, by a block at least; or the
  // body's accesses to the output, where its window is always the same and no copy.
  bool outputs_disjoint() {
    std::vector<bool> candidates(m_.grid.size(), true);
    for (const Window& w : windows_) {
      if (!w.is_output) continue;
      const std::vector<bool> by_access = accessed_apart(w);
      const Access block = access_of(w, m_.grid);
      const Access* const one[] = {&block};
      for (size_t g = 0; g < candidates.size(); ++g)
        candidates[g] = candidates[g] && (disjoint_along(g, one) || by_access[g]);
    }
    for (size_t g = 0; g < candidates.size(); ++g)
      if (candidates[g]) split_.axes.push_back(static_cast<int>(g));
    return !split_.axes.empty() || refuse("no grid axis moves every output's block, or all accesses to it");
  }
  // Per grid axis.
  std::vector<bool> accessed_apart(const Window& w) {
    if (w.stage() || options_.out_of_bounds == Options::Oob::Machine ||
        !std::all_of(w.map.index.begin(), w.map.index.end(), [](const Affine& a) { return a.is_constant(); }))
      return std::vector<bool>(m_.grid.size(), false);
    const ir::ValueId ref = graph_.region.args[static_cast<size_t>(w.operand)];
    std::vector<bool> apart = disjoint_axes(graph_, values_, ref, m_.grid.size());
    count(Rewrite::ApartByAccess, std::count(apart.begin(), apart.end(), true));
    return apart;
  }

  // (2) Reads of an aliased operand must stay inside the unit's own blocks: the same index map as the output's.
  bool aliases_stay_inside() {
    for (const ir::Alias& a : m_.aliases)
      if (!same_blocks(windows_[static_cast<size_t>(a.input)], windows_[inputs_ + static_cast<size_t>(a.output)]))
        return refuse("an aliased input is read through another window than its output");
    return true;
  }

  // (3) A copy of a block stays as it is until the block moves. Where its bytes may differ from those of the array (the
  // kernel wrote to the copy or to the array, or the block ends outside), a unit must meet the same moves as in the
  // whole grid.
  bool windows_start_anew() {
    for (const Window& w : windows_) {
      if (!w.stage() || !(is_aliased(w) || written(w))) continue;
      const Access block = access_of(w, m_.grid);
      std::erase_if(split_.axes, [&](int g) { return !moved_by(block, static_cast<size_t>(g)); });
      if (!keep_contiguous()) return refuse("a window may carry values between units");
    }
    return true;
  }

  // (3) Scratch is written before it is read inside every unit: at its first point, where all other axes are 0.
  bool scratch_starts_anew() {
    const ir::Region& region = graph_.region;
    for (size_t i = 0; i < m_.scratch.size(); ++i) {
      const ir::ValueId ref = region.args[region.args.size() - m_.scratch.size() + i];
      if (!touches(region, ref)) continue;
      std::vector<int> when;
      if (!full_store_first(region, ref, &values_, &when))
        return refuse("scratch " + m_.scratch[i].name + " may carry values between units");
      for (int first : when)
        if (!has_one_point(m_.grid[static_cast<size_t>(first)]))
          std::erase_if(split_.axes, [&](int g) { return g >= first; });
      if (!keep_contiguous()) return refuse("scratch is initialised along the only axes that could be split");
    }
    return true;
  }

  // Keeps the leading axes: units are then runs of the grid's order. False where none is left.
  bool keep_contiguous() {
    size_t kept = 0;
    for (size_t g = 0; g < m_.grid.size() && kept < split_.axes.size(); ++g) {
      if (split_.axes[kept] == static_cast<int>(g)) ++kept;
      else if (!has_one_point(m_.grid[g])) break;
    }
    split_.axes.resize(kept);
    return kept > 0;
  }

  const ir::Module& m_;
  const Expressions& values_;
  const hw::MachineModel& model_;
  const PlanOptions& options_;
  std::span<const Window> windows_;
  const ir::Graph& graph_;
  const size_t inputs_;
  Split split_;
};

}  // namespace

Split find_split(const ir::Module& m, const Expressions& values, const hw::MachineModel& model, const PlanOptions& o,
                 std::span<const Window> windows) {
  return Proof(m, values, model, o, windows).run();
}

// The elements of a block that the kernel sees.
static std::vector<int64_t> block_dims(const ir::Operand& o, const Window& w) {
  std::vector<int64_t> r;
  for (size_t d = 0; d < o.block.size(); ++d)
    if (o.block[d].kind != ir::BlockDim::Kind::Squeezed) r.push_back(w.map.extent[d]);
  return r;
}

bool fully_written(const ir::Module& m, const Expressions& values, const PlanOptions& options, const Window& w) {
  if (!w.is_output || w.stage() || m.bodies.size() != 1) return false;
  const ir::Graph& body = m.bodies[0].graph;
  const ir::ValueId ref = body.region.args[static_cast<size_t>(w.operand)];
  const ir::Operand& o = m.operands[static_cast<size_t>(w.operand)];
  std::vector<int> when;
  std::vector<bool> used(m.grid.size(), false);
  if (!full_store_first(body.region, ref, &values, &when)) {
    if (options.out_of_bounds == Options::Oob::Machine || !w.map.bounded.empty() ||
        !covered_by_stores(body, values, ref, o.has_block ? block_dims(o, w) : w.dims, o.has_block ? nullptr : &used))
      return false;
    count(Rewrite::CoveredByStores);
    when.clear();
  }
  // Blocks cover the array, and lie inside, when each dimension is one block, or axes of its own walk over all of them.
  const Access block = access_of(w, m.grid);
  if (!block.empty() && !covers(block, w.dims, &used)) return false;
  for (size_t d = 0; d < block.size(); ++d)
    if (block[d]->range() != Interval{0, w.dims[d] - 1}) return false;
  return std::all_of(when.begin(), when.end(), [&](int g) { return !used[static_cast<size_t>(g)]; });
}

}  // namespace pallasim::interp::analysis
