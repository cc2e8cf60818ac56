// Module -> Plan: windows, scratch, index maps, the grid and its body. Operations are lowered by lower/.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../passes/passes.h"
#include "../../plan/payload/grid.h"
#include "../values/emitter.h"

namespace pallasim::interp {

namespace analysis {
class Expressions;
}

class Compiler : private Emitter {
 public:
  // Of one body. Its steps follow those that the plan has.
  using Emitter::Emitter;
  void forwards(passes::CopyForwarding f) { state<passes::CopyForwarding>() = std::move(f); }
  // In this order, each for all bodies before the next: where operands and scratch lie; what may be split, by which the
  // number of threads is known; the steps.
  void place_operands();
  static void place_scratch(std::span<const std::unique_ptr<Compiler>> bodies);
  void find_splittable(const analysis::Expressions&);
  void compile_body();
  // What it knows of values: memory of one body may lie in the frame of another.
  void forget_values() { values_.clear(), forget_states(); }
  // Behind it: the targets of the steps' jumps, -1 none; of steps before its own, too.
  void require_memory(int64_t bytes, const std::string& what) const { interp::require_memory(*this, bytes, what); }
  using StepWriter::targets;

 private:
  void place_operand(size_t i);
  void emit_grid_next(int top);
  struct BlockNeeds {
    bool whole = true;  // the array, at every grid point
    bool copy = false;  // memory of its own: blocks at the array's edge, padding
  };
  BlockNeeds read_block(const ir::Operand&, Window*, Val* ref) const;
  void place_block(const ir::Operand&, BlockNeeds, Window*, Val* ref);
  void add_moving_window(const Window&, uint32_t offset);
  bool may_leave_array(const Window&) const;
  bool by_pointer(const ir::Operand&) const;
  bool needs_window(int input, const Window&) const;
  bool writes_callers_buffer(int input) const;
  bool may_be_unread(const ir::Operand&, const Window&) const;
  void copy_prefetch(Val* ref);
  void keep_callers_array(int input, Val* ref);
  bool watches_revisits(const Window&) const;
  bool of_cores(const ir::Operand&) const;
  void place_in_cores(const Window&, Val* ref);
  void refuse_block_kind(const ir::Operand&, const ir::BlockDim&) const;
  void outer_semaphores(const ir::Operand&, const Window&, Val* ref);
  bool is_home_of(const ir::Scratch&) const;
  void place_alone(const ir::Scratch&, Val*);
  void note_far(const ir::Scratch&, const Val&, std::span<const std::unique_ptr<Compiler>> bodies);
  void compile_index_map(Window&, const Map& body_values);
  bool is_modelled(const ir::Operand&) const;  // pipeline.cc
  void model_window(const ir::Operand&, Window*, Val* ref);
  int slot_count(const ir::Operand&, const Window&, int64_t wanted);
  PipelinePayload* begin_pipeline();
  void end_pipeline(const PipelinePayload*, int maps);

  std::vector<std::pair<Val, Val>> prefetch_copies_;  // to, from
};

}  // namespace pallasim::interp
