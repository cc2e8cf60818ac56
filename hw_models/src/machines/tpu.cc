// The TensorCores of a TPU.
#include "machines.h"

namespace pallasim::hw {

const MachineModel& tpu() {
  using ir::Scope, ir::Space;
  constexpr const char* kCore = "a TensorCore";
  constexpr SpaceInfo kTiles{.layout = Layout::Tiles};
  constexpr const char* kAdvice = "take smaller blocks, or leave the array in HBM and copy parts of it";
  constexpr const char* kFewer = "hold one copy of a window (pipeline_mode=pl.Buffered(1))";
  constexpr SpaceInfo kHbm{.layout = Layout::Tiles,
                           .name = "HBM",
                           .capacity = {.figure = "hbm_bytes", .holder = "a device", .advice = kArraysAdvice}};
  static const MachineModel m{
      .family = Family::Tpu,
      .matrix = MatrixRule::Bfloat16Parts,
      .cores_share_grid = true,
      .input_copies = true,
      .scratch_advice =
          "scratch in HBM is pltpu.HBM(shape, dtype) among scratch_shapes; an array that changes needs an alias",
      .core_arrays = true,
      .spaces = {kTiles,
                 {{Space::Hbm, kHbm},
                  {Space::Any, kHbm},
                  {Space::Vmem,
                   {.owner = Scope::Thread,
                    .layout = Layout::Tiles,
                    .name = "VMEM",
                    .capacity = {.figure = "vmem_bytes",
                                 .holder = kCore,
                                 .limit = "vmem_limit_bytes",
                                 .advice = kAdvice,
                                 .scoped = "scoped_vmem_bytes",
                                 .fewer = kFewer}}},
                  {Space::Smem,
                   {.owner = Scope::Thread,
                    .name = "SMEM",
                    .capacity = {.figure = "smem_bytes", .holder = kCore, .advice = kAdvice, .fewer = kFewer}}},
                  {Space::Cmem,
                   {.layout = Layout::Tiles,
                    .name = "CMEM",
                    .capacity = {.figure = "cmem_bytes", .holder = kCore, .advice = kAdvice, .fewer = kFewer}}},
                  {Space::VmemShared, {.owner = Scope::SubcoreGroup, .layout = Layout::Tiles}},
                  {Space::Semaphore, {.owner = Scope::Thread, .layout = Layout::Count, .name = "semaphores"}}}},
      .defaults = {.unnamed = Space::Vmem, .constants = Space::Vmem, .scalars = Space::Smem},
      .outside = {.loads = Outside::Undefined, .copy_sources = Outside::Undefined},
      .prints = PrintStyle::Literals,
      .checks = {.copies_in_flight = true, .written_before_read = true, .revisited_outputs = true},
  };
  return m;
}

}  // namespace pallasim::hw
