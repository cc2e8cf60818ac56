// The functions of steps: one of each kind, of some several forms. The table of them is what the plan compiler sees.
#pragma once
#include "../plan/steps.h"

namespace pallasim::interp::ops {

const StepFunctions& functions();

#define STEP(kind, ...) const Step* kind(Thread&, const Step*);
#define STEP_FORMS(...)
#include "../plan/steps.def"

// The forms of kinds that have several.
extern const StepForm kJump, kBranchIfFalse, kBranchTable, kIndexBounds;
extern const StepForm kGridNext,
    kGridEnd;  // dst: program id of the last axis, a: Body::row_end; of a grid without axes
extern const StepForm kLoadScalar, kStoreScalar;  // any element
extern const StepForm kBarrierArrive, kBarrierWait;
const StepForm& move_slot(int bytes);              // of a compute type
const StepForm& loop_begin(bool wide, bool down);  // of i64 or i32, upwards or downwards; jumps over an empty loop
const StepForm& loop_next(bool wide, bool down);
const StepForm* fast_load_scalar(const ScalarAccess&);       // memory form == register form; or nullptr
const StepForm* fast_store_scalar(const ScalarAccess&);      // the same
const StepForm& scalar_select(int bytes);                    // of a compute type
const StepForm* scalar(ir::OpCode, CType operand);           // nullptr: scalar_strip does it
const StepForm* scalar_mul_add(CType);                       // integers of 32 and 64 bits
const StepForm* scalar_by_power(ir::OpCode, CType operand);  // division and remainder, or nullptr
const StepForm* scalar_convert(CType from, CType to);        // conversions that are plain C++ casts only
// Of an arrival and a wait: in runs of scalar steps where the barrier is the thread's own.
const StepForm& arrival(const BarrierPayload&);
const StepForm& passage(const BarrierPayload&);
// What ends a run: its own work, then back to the engine. Of plans whose runs may be observed it first says what it
// touches.
const Step* end_threaded(Thread&, const Step*, uint64_t);
const Step* end_observed(Thread&, const Step*, uint64_t);

AtomicFn atomic_function(std::string_view kind,
                         ir::DType);  // xchg add max min and or xor cas; null: the machine has none
// False where Python's format() refuses `spec` for a value of this type.
bool parse_format(std::string_view spec, ir::DType, PrintPayload::Style*);

}  // namespace pallasim::interp::ops
