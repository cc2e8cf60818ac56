// What lowerings write a body's steps with. One per body and compilation.
#pragma once
#include <utility>
#include <vector>

#include "code.h"
#include "context.h"
#include "into.h"
#include "live_values.h"
#include "reach.h"

namespace pallasim::interp {

class Emitter : public Context, public StepWriter, public Slots, protected Frame, protected LiveValues {
 public:
  Emitter(Plan& plan, Body& body) : Context(plan, body), StepWriter(context()), Slots(context()), Frame(context()) {
    if (plan.options.keeps_values) kept_ = std::make_unique<KeptValues>(context());
  }
  ~Emitter() { forget_states(); }  // they may have places in the frame
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  Frame& frame() { return *this; }
  using Frame::temp;
  LiveValues& live() { return *this; }
  const LiveValues& live() const { return *this; }
  using LiveValues::operand, LiveValues::operands, LiveValues::type, LiveValues::value;
  Reach& reach() { return reach_; }
  const Reach& reach() const { return reach_; }

  // Around the lowering of an operation; `outer`: the one around it.
  const Op* begin_op(const Op& op) {
    at(op);
    return std::exchange(now_, &op);
  }
  void end_op(const Op&, const Op* outer);

  void define(ir::ValueId v, Val value);
  // Whether a debugger may stop before the operation: constants are there from the start.
  bool stops_at(const Op& op) const { return kept_ && kept_->active && op.code != OpCode::constant; }
  // Whose slot the next step writes, and no later one of the operation: with `result`, which then is defined as it, the
  // slot of the carry that it becomes, where nobody looks at the carry any more.
  Val new_scalar(ir::DType, ir::ValueId result = kNoResult);

  // -- lazy values (lazy.cc, which has their invariant) --
  // The only way to a step that writes to memory which lazy values may show: makes those memory whose place is written.
  // The step's own operands come back as it may use them: as they were where they read nothing that is written, or
  // where `in_place` (the place of an elementwise result) is read at the element that is written; else as memory.
  std::vector<Val> about_to_write(const analysis::WriteSet&, std::vector<Val> operands = {},
                                  const Val* in_place = nullptr);
  // Before the regions of `op`, which run never, once or many times: what they read is memory that they do not write.
  void before_regions(const Op& op);

 private:
  Context& context() { return *this; }
  void learn_affine_array(const Op&);

  Reach reach_;
};

// -- the forms of a value (values.cc) --
Val strided(Emitter&, const Val&);       // Strided or Splat made memory; Pending emitted
Val dense(Emitter&, const Val&);         // contiguous row-major memory
Val materialized(Emitter&, const Val&);  // Strided in immutable memory, whatever layout
// Memory of its own where it shows what is written.
Val apart_from(Emitter&, const analysis::WriteSet&, const Val& operand);
void copy_value(Emitter&, const Val& dst_ref, const Val& v);  // dst: Strided or Ref memory of the same shape
void emit_pending(Emitter&, const Val& v, const Val& dst);    // v evaluated into dst, which it does not overlap
void emit_copy(Emitter&, const Val& dst, const Val& src, bool looks = false);  // CopyPayload::looks
void charge_copy(Emitter&, std::span<const int64_t> dims, ir::DType);          // to the rough cost of a grid point
// The operation's one result as something that is made once it is known where.
void define_into(Emitter&, ir::ValueId, std::vector<Val> args, Into);

// -- scalars (scalar.cc) --
uint32_t scalar_slot(Emitter&, const Val&);
bool is_wide(ir::DType);  // whether the slot of such a scalar holds 64 bits
Val load_scalar(Emitter&, const Val& memory, ir::ValueId result = kNoResult);  // rank-0 memory to slot
void move_scalar(Emitter&, uint32_t dst, uint32_t src, ir::DType);
Val scalar_result(Emitter&, OpCode, ir::DType operand, ir::DType result, const std::vector<Val>& args,
                  const StripParams&, ir::ValueId defines = kNoResult);
Val scalar_convert(Emitter&, const Val&, ir::DType to, ir::ValueId result = kNoResult);

// Fresh memory as Options::uninitialized says.
void emit_fill_uninitialized(Emitter&, const Val& ref);
// Tells the plan's table of allocations.
void note_allocation(Plan&, const Val&, ir::Space, memory::Level owner, memory::Allocation::Lifetime);
// Where arrays lie in whole tiles, copies may name the padding.
void add_tile_padding(const Context&, Val* ref, ir::Space);

}  // namespace pallasim::interp
