#include "split.h"

#include "affine.h"
#include "covered.h"
#include "pallasim/hw/machine.h"
#include "pallasim/interp/rewrites.h"
#include "places.h"
#include "refs.h"

namespace pallasim::interp::analysis {
namespace {

// program_id axis -> grid axis: vmapped axes are hidden from the kernel.
std::vector<size_t> visible_axes(const ir::Module& m) {
  std::vector<size_t> r;
  for (size_t g = 0; g < m.grid.size(); ++g)
    if (!m.grid[g].vmapped) r.push_back(g);
  return r;
}

bool has_one_point(const ir::GridAxis& a) { return a.dynamic < 0 && a.size <= 1; }

size_t array_dims(const Window& w) { return std::min(w.map.index.size(), w.dims.size()); }

// Whether blocks of two values of `axis` share no element, whatever the other axes are.
bool disjoint_along(const Window& w, size_t axis) {
  for (size_t d = 0; d < array_dims(w); ++d) {
    if (!moves_alone(w.map.index[d], axis)) continue;
    const int64_t step = memory::mul(w.map.index[d].coefficient[axis], w.map.scale[d]);
    if (step >= w.map.extent[d] || step <= memory::mul(-1, w.map.extent[d])) return true;
  }
  return false;
}

// Whether two values of `axis` never show the same block.
bool moved_by(const Window& w, size_t axis) {
  for (size_t d = 0; d < array_dims(w); ++d)
    if (moves_alone(w.map.index[d], axis) && w.map.scale[d] != 0) return true;
  return false;
}

bool same_blocks(const Window& a, const Window& b) {
  if (a.map.index.empty() || a.map.index.size() != b.map.index.size() || a.dims != b.dims ||
      a.map.extent != b.map.extent || a.map.scale != b.map.scale || a.map.pad_lo != b.map.pad_lo)
    return false;
  for (size_t d = 0; d < a.map.index.size(); ++d)
    if (!a.map.index[d].known || !b.map.index[d].known || a.map.index[d].constant != b.map.index[d].constant ||
        a.map.index[d].coefficient != b.map.index[d].coefficient)
      return false;
  return true;
}

class Proof {
 public:
  Proof(const ir::Module& m, const hw::MachineModel& model, const PlanOptions& o, std::span<const Window> windows)
      : m_(m),
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
      for (size_t g = 0; g < candidates.size(); ++g)
        candidates[g] = candidates[g] && (disjoint_along(w, g) || by_access[g]);
    }
    for (size_t g = 0; g < candidates.size(); ++g)
      if (candidates[g]) split_.axes.push_back(static_cast<int>(g));
    return !split_.axes.empty() || refuse("no grid axis moves every output's block, or all accesses to it");
  }
  // Per grid axis.
  std::vector<bool> accessed_apart(const Window& w) {
    if (w.stage() || options_.out_of_bounds != Options::Oob::Error ||
        !std::all_of(w.map.index.begin(), w.map.index.end(), [](const Affine& a) { return a.known && is_constant(a); }))
      return std::vector<bool>(m_.grid.size(), false);
    if (!forms_) forms_.emplace(graph_, m_.grid);
    const ir::ValueId ref = graph_.region.args[static_cast<size_t>(w.operand)];
    std::vector<bool> apart = axes_apart(graph_, *forms_, ref, m_.grid.size());
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
      std::erase_if(split_.axes, [&](int g) { return !moved_by(w, static_cast<size_t>(g)); });
      if (!keep_contiguous()) return refuse("a window may carry values between units");
    }
    return true;
  }

  // (3) Scratch is written before it is read inside every unit: at its first point, where all other axes are 0.
  bool scratch_starts_anew() {
    const std::vector<size_t> visible = visible_axes(m_);
    const ir::Region& region = graph_.region;
    for (size_t i = 0; i < m_.scratch.size(); ++i) {
      const ir::ValueId ref = region.args[region.args.size() - m_.scratch.size() + i];
      if (!touches(region, ref)) continue;
      std::vector<int> when;
      if (!full_store_first(graph_, region, ref, &when))
        return refuse("scratch " + m_.scratch[i].name + " may carry values between units");
      for (int k : when) {
        const size_t first = static_cast<size_t>(k) < visible.size() ? visible[static_cast<size_t>(k)] : 0;
        if (has_one_point(m_.grid[first])) continue;
        std::erase_if(split_.axes, [&](int g) { return static_cast<size_t>(g) >= first; });
      }
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
  const hw::MachineModel& model_;
  const PlanOptions& options_;
  std::span<const Window> windows_;
  const ir::Graph& graph_;
  const size_t inputs_;
  std::optional<Forms> forms_;  // where they are asked for
  Split split_;
};

}  // namespace

Split find_split(const ir::Module& m, const hw::MachineModel& model, const PlanOptions& o,
                 std::span<const Window> windows) {
  return Proof(m, model, o, windows).run();
}

// The elements of a block that the kernel sees.
static std::vector<int64_t> block_dims(const ir::Operand& o, const Window& w) {
  std::vector<int64_t> r;
  for (size_t d = 0; d < o.block.size(); ++d)
    if (o.block[d].kind != ir::BlockDim::Kind::Squeezed) r.push_back(w.map.extent[d]);
  return r;
}

bool fully_written(const ir::Module& m, const PlanOptions& options, const Window& w) {
  if (!w.is_output || w.stage() || m.bodies.size() != 1) return false;
  const ir::Graph& body = m.bodies[0].graph;
  const ir::ValueId ref = body.region.args[static_cast<size_t>(w.operand)];
  const ir::Operand& o = m.operands[static_cast<size_t>(w.operand)];
  std::vector<int> when;
  if (!full_store_first(body, body.region, ref, &when)) {
    if (options.out_of_bounds != Options::Oob::Error || !w.map.bounded.empty() ||
        !covered_by_stores(body, m.grid, ref, o.has_block ? block_dims(o, w) : w.dims, !o.has_block))
      return false;
    count(Rewrite::CoveredByStores);
    when.clear();
  }
  // Blocks cover the array when each dimension is one block, or an axis of its own walks over all of them.
  std::vector<bool> used(m.grid.size(), false);
  for (size_t d = 0; d < array_dims(w); ++d) {
    const Affine& a = w.map.index[d];
    if (!a.known || a.constant != 0) return false;
    if (is_constant(a) && w.dims[d] == w.map.extent[d]) continue;
    const auto moving = std::find_if(a.coefficient.begin(), a.coefficient.end(), [](int64_t c) { return c != 0; });
    const auto g = static_cast<size_t>(moving - a.coefficient.begin());
    if (g == m.grid.size() || used[g] || *moving != 1 || !moves_alone(a, g) || w.map.scale[d] != w.map.extent[d])
      return false;
    if (m.grid[g].dynamic >= 0 || memory::mul(m.grid[g].size, w.map.extent[d]) != w.dims[d]) return false;
    used[g] = true;
  }
  const std::vector<size_t> visible = visible_axes(m);
  return std::all_of(when.begin(), when.end(), [&](int k) {
    return static_cast<size_t>(k) < visible.size() && !used[visible[static_cast<size_t>(k)]];
  });
}

}  // namespace pallasim::interp::analysis
