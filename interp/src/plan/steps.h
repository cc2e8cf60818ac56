// The functions that steps call: declared here for the plan compiler, defined in ops/.
#pragma once
#include <string_view>

#include "payload.h"
#include "step_info.h"

namespace pallasim::interp::ops {

// Steps that others reason about (step_info.h). kBranchTable: a: i32 slot, payload: std::vector<int32_t> of step ids.
extern const StepInfo kBranchIfFalse;  // a: bool slot
extern const StepInfo kIndexBounds;    // payload IndexPayload; a: base dyn slot or none, dst: dyn slot
// jump: first step of the body; dst: program id of the last axis, a: Body::row_end. kGridEnd: of a grid without axes.
extern const StepInfo kGridNext, kGridEnd;
extern const StepInfo kJump, kBranchTable, kFinish, kSemSignal, kSemWait, kSemRead, kDmaStart, kDmaWait, kTrips;

// control
const StepInfo& move_slot(int bytes);  // dst <- a, of a compute type
// for: dst: index, a: lower, b: upper, c: step; of i64 or i32, upwards or downwards.
const StepInfo& loop_begin(bool wide, bool down);  // jumps over an empty loop
const StepInfo& loop_next(bool wide, bool down);   // jump: body
// Of a loop whose trips have no order, for who listens; imm: enum Trips.
const Step* trips(Thread&, const Step*);
const Step* finish(Thread&, const Step*);
// grid
const Step* grid_begin(Thread&, const Step*);
const Step* window_indexed(Thread&, const Step*);  // payload: const Window; not affine
const Step* window_staged(Thread&, const Step*);
const Step* window_edge(Thread&, const Step*);  // payload: const Window; start and offset, unchecked
const Step* window_flush(Thread&, const Step*);
const Step* output_visit(Thread&, const Step*);  // payload: const Window; behind its index map
inline constexpr int kPipelineFields = 4;        // of Window::state, besides block starts and bytes per slot
struct PipelinePayload {
  std::vector<const Window*> windows;
  uint32_t started = 0, more = 0;  // i64 slots: a step has begun; there is a step after it
  uint32_t saved = 0;  // i64 slots per grid axis: the step's position while the program ids are those of the next
};
const Step* pipeline_fetch(Thread&,
                           const Step*);  // payload PipelinePayload; behind the index maps; jump: the index maps
const Step* pipeline_await(Thread&, const Step*);  // payload const Window; until its slot can be used
const Step* pipeline_leave(Thread&, const Step*);  // payload PipelinePayload; behind the body: writes blocks back
const Step* pipeline_next(Thread&, const Step*);   // payload PipelinePayload; the next step; jump: the index maps
const Step* pipeline_drain(Thread&, const Step*);  // payload const Window; until its blocks are in the array
// memory
const Step* clamp_index(Thread&, const Step*);  // payload IndexPayload: starts clamped as lax does
const Step* load_scalar(Thread&, const Step*);  // payload ScalarAccess
const Step* store_scalar(Thread&, const Step*);
const StepInfo* fast_load_scalar(const ScalarAccess&);   // memory form == register form, and nobody listens; or nullptr
const StepInfo* fast_store_scalar(const ScalarAccess&);  // the same
const Step* copy(Thread&, const Step*);                  // payload CopyPayload
const Step* fill(Thread&, const Step*);
const Step* lens(Thread&, const Step*);           // payload LensPayload
const Step* gather(Thread&, const Step*);         // payload GatherPayload: array indices, masks, bounds per element
const Step* atomic(Thread&, const Step*);         // payload GatherPayload with `atomic`
const Step* load_in_place(Thread&, const Step*);  // payload LoadedInPlace; dst: i64, the way from `own`
const Step* store_rows(Thread&, const Step*);     // payload StoredRows
AtomicFn atomic_function(std::string_view kind,
                         ir::DType);  // xchg add max min and or xor cas; null: the machine has none
// arithmetic
const Step* elementwise(Thread&, const Step*);  // payload EltProgram
const Step* reduce(Thread&, const Step*);
const Step* arg_reduce(Thread&, const Step*);
const Step* cumulative(Thread&, const Step*);
const Step* contraction(Thread&, const Step*);  // payload ContractPayload
struct ScalarStrip {
  StripFn fn;
  ConvertFn convert;
  StripParams params;
};
const Step* scalar_strip(Thread&, const Step*);  // payload ScalarStrip; slots a, b, c -> dst
const StepInfo& scalar_select(int bytes);        // a: bool, b: false, c: true; of a compute type
// The inline body of a scalar operation, or nullptr (then scalar_strip does it).
const StepInfo* scalar(ir::OpCode, CType operand);
const StepInfo* scalar_mul_add(CType);  // a * b + c of integers of 32 and 64 bits
// Division or remainder by 2 to the power of `imm`, or nullptr.
const StepInfo* scalar_by_power(ir::OpCode, CType operand);
const StepInfo* scalar_convert(CType from, CType to);  // conversions that are plain C++ casts only
// What ends a run: its own work, then back to the engine.
const Step* end_run(Thread&, const Step*, uint64_t);
// synchronisation and debugging
const Step* sem_signal(Thread&, const Step*);  // payload SemPayload
const Step* sem_wait(Thread&, const Step*);
const Step* sem_read(Thread&, const Step*);
const Step* valid_extent(Thread&, const Step*);    // payload ValidPayload; dst: i64 slot
const Step* dma_start(Thread&, const Step*);       // payload DmaPayload
const Step* dma_wait(Thread&, const Step*);        // payload DmaWaitPayload
const Step* departs(Thread&, const Step*);         // payload DepartPayload; jump: where copies do not move at issue
const Step* landing_begin(Thread&, const Step*);   // payload LandingPayload: nothing arrived there yet
const Step* landing_settle(Thread&, const Step*);  // the same: all of it lies there
const Step* landing_find(Thread&, const Step*);    // the same; dst: i64 slot that leads from `addr` to the bytes
const Step* scope_begin(Thread&, const Step*);     // payload ScopePayload; for who listens
const Step* scope_end(Thread&, const Step*);       // payload ScopePayload
const Step* print(Thread&, const Step*);           // payload PrintPayload
const Step* host_call(Thread&, const Step*);       // payload PrintPayload, values only; imm: which callback
// False where Python's format() refuses `spec` for a value of this type.
bool parse_format(std::string_view spec, ir::DType, PrintPayload::Style*);
struct CheckPayload {
  PrintPayload message;
};
const Step* check(Thread&, const Step*);  // a: bool slot

}  // namespace pallasim::interp::ops
