#include "units.h"

#include <algorithm>
#include <utility>

namespace pallasim::interp {

// The widest of the axes along which units are independent; -1: the box is one unit.
static int widest_axis(const Plan& p, const GridBox& b) {
  int axis = -1;
  int64_t most = 1;
  for (int a : p.split.axes) {
    const auto g = static_cast<size_t>(a);
    if (b.hi[g] - b.lo[g] > most) most = b.hi[g] - b.lo[g], axis = a;
  }
  return axis;
}

std::vector<GridBox> split_grid(const Plan& p, const std::vector<int64_t>& grid, size_t wanted) {
  std::vector<GridBox> boxes(1);
  boxes[0].lo.assign(grid.size(), 0);
  boxes[0].hi = grid;
  const auto points = [&](const GridBox& b) {
    if (widest_axis(p, b) < 0) return int64_t{0};
    int64_t n = 1;
    for (size_t g = 0; g < grid.size(); ++g) n = memory::mul(n, b.hi[g] - b.lo[g]);
    return n;
  };
  // The largest one in halves, which stay neighbours.
  while (boxes.size() < wanted) {
    const auto largest = std::max_element(boxes.begin(), boxes.end(),
                                          [&](const GridBox& a, const GridBox& b) { return points(a) < points(b); });
    const int axis = widest_axis(p, *largest);
    if (axis < 0) break;
    const auto g = static_cast<size_t>(axis);
    GridBox right = *largest;
    right.lo[g] = largest->hi[g] = largest->lo[g] + (largest->hi[g] - largest->lo[g]) / 2;
    boxes.insert(largest + 1, std::move(right));
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
