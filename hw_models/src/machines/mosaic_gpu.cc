// GPUs as Mosaic GPU programs them: warpgroups of thread blocks in clusters, copies and barriers in the kernel's hands.
#include "machines.h"

namespace pallasim::hw {

const MachineModel& mosaic_gpu() {
  using ir::Scope, ir::Space;
  constexpr SpaceInfo kHbm{.name = "HBM",
                           .capacity = {.figure = "hbm_bytes", .holder = "a device", .advice = kArraysAdvice}};
  constexpr const char* kAdvice = "take smaller blocks, or leave the array in GMEM and copy parts of it";
  static const MachineModel m{
      .family = Family::Gpu,
      .arithmetic = {.fp8_saturates = true, .int_rem_zero_is_x = false, .sign_of_nan_is_one = true},
      .matrix = MatrixRule::TensorCores,
      .programs = Programs::Cooperative,
      .input_copies = true,
      .scratch_advice = "scratch in GMEM is an output that nobody looks at; an array that changes needs an alias",
      .grid_pipeline = false,
      .bounded_slices = false,
      .window_copies = 1,
      .window_copies_parameter = "max_concurrent_steps",
      // Multiples: what the compiler aligns each allocation to, and 4 of tensor memory's columns, which have 128 lanes
      // of 32 bits (JAX 0.10.2, pallas/mosaic_gpu).
      .spaces = {{},
                 {{Space::Gmem, kHbm},
                  {Space::Any, kHbm},
                  {Space::GpuSmem,
                   {.owner = Scope::Cta,
                    .name = "SMEM",
                    .granule = 1024,
                    .capacity = {.figure = "smem_per_block_bytes",
                                 .holder = "a thread block",
                                 .advice = kAdvice,
                                 .fewer = "hold fewer blocks at a time (max_concurrent_steps)",
                                 .known_as = "the kernel exceeds available shared memory, "}}},
                  {Space::Tmem,
                   {.owner = Scope::Cta,
                    .name = "TMEM",
                    .granule = 4 * 128 * 4,
                    .column = 128 * 4,
                    .capacity = {.figure = "tmem_per_sm_bytes",
                                 .holder = "an SM",
                                 .advice = "take smaller accumulators, or fewer of them at a time"}}},
                  {Space::Regs, {.owner = Scope::Thread}}}},
      .defaults = {.unnamed = Space::GpuSmem, .any = Space::Gmem, .constants = Space::Gmem},
      .arrays = Space::Gmem,
      .left_in_semaphores = ir::Severity::Note,  // XLA gives every launch semaphores that are 0
      .checks = {.copies_in_flight = true, .unwritten_outputs = true},
  };
  return m;
}

}  // namespace pallasim::hw
