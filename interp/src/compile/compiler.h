// Module -> Plan: windows, scratch, index maps, the grid and its body. Operations are lowered by lower/.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emitter.h"

namespace pallasim::interp {

class Compiler : private Emitter {
 public:
  explicit Compiler(Plan& plan) : Emitter(plan) {}
  void compile();

 private:
  void share_grid();
  void compile_windows();
  void add_moving_window(const Window&);
  bool may_leave_array(const Window&) const;
  bool is_aliased(int input) const;
  bool by_pointer(const ir::Operand&) const;
  bool needs_window(int input, const Window&) const;
  void copy_prefetch(Val* ref);
  bool watches_revisits(const Window&) const;
  bool of_cores(const ir::Operand&) const;
  void place_in_cores(const Window&, Val* ref);
  void refuse_block_kind(const ir::Operand&, const ir::BlockDim&) const;
  void outer_semaphores(const ir::Operand&, const Window&, Val* ref);
  void compile_scratch();
  void compile_body(const ir::Body&);
  void compile_index_map(Window&, const std::unordered_map<ir::ValueId, Live>& body_values);
  bool is_modelled(const ir::Operand&) const;  // pipeline.cc
  void model_window(const ir::Operand&, Window*, Val* ref);
  int slot_count(const ir::Operand&, const Window&, int64_t wanted);
  ops::PipelinePayload* begin_pipeline();
  void end_pipeline(const ops::PipelinePayload*, int maps);
  void prove_parallel(const ir::Body&);
  void find_splittable();
  void finish();

  std::vector<std::pair<Val, Val>> prefetch_copies_;  // to, from
};

}  // namespace pallasim::interp
