#include "functions.h"

#include "array.h"

namespace pallasim::interp::ops {

const StepFunctions& functions() {
  static const StepFunctions all{
      .of_kind =
          {
#define STEP(kind, ...) kind,
#define STEP_FORMS(...) nullptr,
#include "../plan/steps.def"
          },
      .jump = kJump,
      .branch_if_false = kBranchIfFalse,
      .branch_table = kBranchTable,
      .index_bounds = kIndexBounds,
      .grid_next = kGridNext,
      .grid_end = kGridEnd,
      .load_scalar = kLoadScalar,
      .store_scalar = kStoreScalar,
      .barrier_wait = kBarrierWait,
      .move_slot = move_slot,
      .loop_begin = loop_begin,
      .loop_next = loop_next,
      .fast_load_scalar = fast_load_scalar,
      .fast_store_scalar = fast_store_scalar,
      .scalar_select = scalar_select,
      .scalar = scalar,
      .scalar_mul_add = scalar_mul_add,
      .scalar_by_power = scalar_by_power,
      .scalar_convert = scalar_convert,
      .arrival = arrival,
      .passage = passage,
      .end_threaded = end_threaded,
      .end_observed = end_observed,
      .atomic_function = atomic_function,
      .parse_format = parse_format,
      .arrays =
          {
              .roll = roll,
              .regroup = regroup,
              .pack = pack,
              .unpack = unpack,
              .stochastic_round = stochastic_round,
              .sort = sort,
              .top_k = top_k,
              .gather_slices = gather_slices,
              .scatter_slices = scatter_slices,
              .convolution = convolution,
              .threefry2x32 = threefry2x32,
              .iota_2x32 = iota_2x32,
              .rng_bits = rng_bits,
              .prng_seed = prng_seed,
              .prng_draw = prng_draw,
          },
  };
  return all;
}

}  // namespace pallasim::interp::ops
