// In which order a device takes up a grid's programs.
#pragma once
#include <cstdint>
#include <span>

#include "../plan/plan.h"

namespace pallasim::interp {

// Programs are numbered row-major over the grid. The number of the one that is taken up as the `turn`-th, and back:
// the last axis is the fastest, but in a launch of Triton the first one, and axes of vmap are the slowest (JAX 0.10.2:
// jax/_src/pallas/triton/lowering.py:213-279; Mosaic GPU turns the grid round, mosaic_gpu/lowering.py:929-931).
int64_t program_at(const Plan&, std::span<const int64_t> grid, int64_t turn);
int64_t turn_of(const Plan&, std::span<const int64_t> grid, int64_t program);

}  // namespace pallasim::interp
