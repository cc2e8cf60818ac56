// GPUs as Triton programs them: a program per grid point, its blocks reached by pointers. Its compiler decides what
// lies in shared memory; loaded operands of products do (measured on an H100, JAX 0.11.2).
#include "machines.h"

namespace pallasim::hw {

const MachineModel& triton() {
  using ir::Space;
  constexpr SpaceInfo kPointers{.blocks = BlockAccess::Pointer};
  constexpr SpaceInfo kHbm{.blocks = BlockAccess::Pointer,
                           .name = "HBM",
                           .capacity = {.figure = "hbm_bytes", .holder = "a device", .advice = kArraysAdvice}};
  static const MachineModel m{
      .family = Family::Gpu,
      .arithmetic = {.nan_propagates_in_minmax = false, .fp8_saturates = true, .int_rem_zero_is_x = false},
      .matrix = MatrixRule::TensorCores,
      .programs = Programs::Concurrent,
      .grid_pipeline = false,
      .bounded_slices = false,
      .atomic_addupdate = true,
      .spaces = {kPointers,
                 {{Space::Gmem, kHbm},
                  {Space::Any, kHbm},
                  {Space::GpuSmem,
                   {.owner = ir::Scope::Cta,
                    .blocks = BlockAccess::Pointer,
                    .name = "shared memory",
                    .capacity = {.figure = "smem_per_block_bytes",
                                 .holder = "a thread block",
                                 .advice = "take smaller blocks"}}}}},
      .defaults = {.unnamed = Space::Gmem, .any = Space::Gmem, .constants = Space::Gmem},
      .arrays = Space::Gmem,
      .products = Space::GpuSmem,
      // XLA's allocator gives arrays a multiple of 256 bytes (xla/tsl/framework/allocator.h, kAllocatorAlignment and
      // the BFC allocator's least chunk).
      .outside = {.loads = Outside::Undefined, .granule = 256},
      .checks = {.unwritten_outputs = true},
  };
  return m;
}

}  // namespace pallasim::hw
