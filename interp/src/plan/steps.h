// What runs steps, as the plan compiler gets it: the function of each kind, and of the forms of kinds that have
// several. ops/ makes the one table there is and launch/ hands it to the compiler, so that neither knows the other.
#pragma once
#include <array>
#include <string_view>

#include "array.h"
#include "kinds.h"
#include "payload/print.h"

namespace pallasim::interp {

using AtomicFn = bool (*)(const struct AtomicRow&);  // false where memory keeps its values

// Whether a kind has several functions, so that it is emitted by one of its forms.
template <Kind>
inline constexpr bool kHasForms = false;
#define STEP(...)
#define STEP_FORMS(kind, ...) \
  template <>                 \
  inline constexpr bool kHasForms<Kind::kind> = true;
#include "steps.def"

struct StepFunctions {
  std::array<StepFn, kKinds> of_kind;  // by Kind; null: it has forms

  const StepForm &jump, &branch_if_false, &branch_table, &index_bounds;
  const StepForm &grid_next,
      &grid_end;  // dst: program id of the last axis, a: Body::row_end; of a grid without axes
  const StepForm &load_scalar, &store_scalar;  // any element
  const StepForm& barrier_wait;
  const StepForm& (*move_slot)(int bytes);              // of a compute type
  const StepForm& (*loop_begin)(bool wide, bool down);  // of i64 or i32, upwards or downwards; jumps over an empty loop
  const StepForm& (*loop_next)(bool wide, bool down);
  const StepForm* (*fast_load_scalar)(const ScalarAccess&);       // memory form == register form; or nullptr
  const StepForm* (*fast_store_scalar)(const ScalarAccess&);      // the same
  const StepForm& (*scalar_select)(int bytes);                    // of a compute type
  const StepForm* (*scalar)(ir::OpCode, CType operand);           // nullptr: scalar_strip does it
  const StepForm* (*scalar_mul_add)(CType);                       // integers of 32 and 64 bits
  const StepForm* (*scalar_by_power)(ir::OpCode, CType operand);  // division and remainder, or nullptr
  const StepForm* (*scalar_convert)(CType from, CType to);        // conversions that are plain C++ casts only
  // Of an arrival and a wait: in runs of scalar steps where the barrier is the thread's own.
  const StepForm& (*arrival)(const BarrierPayload&);
  const StepForm& (*passage)(const BarrierPayload&);
  // What ends a run: its own work, then back to the engine. Of plans whose runs may be observed it first says what it
  // touches.
  ThreadedFn end_threaded, end_observed;

  AtomicFn (*atomic_function)(std::string_view kind,
                              ir::DType);  // xchg add max min and or xor cas; null: the machine has none
  // False where Python's format() refuses `spec` for a value of this type.
  bool (*parse_format)(std::string_view spec, ir::DType, PrintPayload::Style*);

  ArrayFunctions arrays;
};

}  // namespace pallasim::interp
