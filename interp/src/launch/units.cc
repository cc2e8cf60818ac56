#include "units.h"

#include <utility>

namespace pallasim::interp {

std::vector<GridBox> split_grid(const Plan& p, const std::vector<int64_t>& grid, size_t wanted) {
  std::vector<GridBox> boxes(1);
  boxes[0].lo.assign(grid.size(), 0);
  boxes[0].hi = grid;
  for (size_t i = 0; boxes.size() < wanted && i < boxes.size();) {
    GridBox& b = boxes[i];
    int axis = -1;
    for (int a : p.split.axes) {
      const auto g = static_cast<size_t>(a);
      if (b.hi[g] - b.lo[g] > 1 &&
          (axis < 0 || b.hi[g] - b.lo[g] > b.hi[static_cast<size_t>(axis)] - b.lo[static_cast<size_t>(axis)]))
        axis = a;
    }
    if (axis < 0) {
      ++i;
      continue;
    }
    const auto g = static_cast<size_t>(axis);
    GridBox right = b;
    right.lo[g] = b.hi[g] = b.lo[g] + (b.hi[g] - b.lo[g]) / 2;
    boxes.push_back(std::move(right));
    i = (i + 1) % boxes.size();
  }
  return boxes;
}

std::vector<GridBox> units_of(const Plan& p, const std::vector<int64_t>& grid) {
  std::vector<GridBox> units(1);
  units[0].lo.assign(grid.size(), 0);
  units[0].hi = grid;
  for (int a : p.split.axes) {
    const auto g = static_cast<size_t>(a);
    std::vector<GridBox> finer;
    for (const GridBox& u : units)
      for (int64_t i = 0; i < grid[g]; ++i) {
        finer.push_back(u);
        finer.back().lo[g] = i;
        finer.back().hi[g] = i + 1;
      }
    units = std::move(finer);
  }
  return units;
}

}  // namespace pallasim::interp
