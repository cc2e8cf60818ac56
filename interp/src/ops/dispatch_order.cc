#include "dispatch_order.h"

#include <vector>

namespace pallasim::interp {
namespace {

bool turned_round(const Plan& p, std::span<const int64_t> grid) {
  const Body& b = p.first();
  return b.mesh < 0 && b.model->programs == hw::Programs::Concurrent && grid.size() > 1;
}

// The fastest axis first.
std::vector<size_t> axes_of(const Plan& p, size_t count) {
  std::vector<size_t> r;
  for (size_t g = 0; g < count; ++g)
    if (!p.module.grid[g].vmapped) r.push_back(g);
  for (size_t g = count; g-- > 0;)
    if (p.module.grid[g].vmapped) r.push_back(g);
  return r;
}

// Of a number over the axes `from`, that over the axes `to`; the fastest first.
int64_t renumbered(int64_t number, std::span<const size_t> from, std::span<const size_t> to,
                   std::span<const int64_t> grid) {
  std::vector<int64_t> at(grid.size());
  for (const size_t g : from) at[g] = number % grid[g], number /= grid[g];
  int64_t r = 0, unit = 1;
  for (const size_t g : to) r += at[g] * unit, unit *= grid[g];
  return r;
}

std::vector<size_t> row_major(size_t count) {
  std::vector<size_t> r;
  for (size_t g = count; g-- > 0;) r.push_back(g);
  return r;
}

}  // namespace

int64_t program_at(const Plan& p, std::span<const int64_t> grid, int64_t turn) {
  if (!turned_round(p, grid)) return turn;
  return renumbered(turn, axes_of(p, grid.size()), row_major(grid.size()), grid);
}

int64_t turn_of(const Plan& p, std::span<const int64_t> grid, int64_t program) {
  if (!turned_round(p, grid)) return program;
  return renumbered(program, row_major(grid.size()), axes_of(p, grid.size()), grid);
}

}  // namespace pallasim::interp
