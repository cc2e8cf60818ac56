// Module -> Plan. One object per compilation; the op families are in the .cc files beside it.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../analysis/writes.h"
#include "../plan/array.h"
#include "../plan/steps.h"
#include "value.h"

namespace pallasim::interp {

// The integers of a list attribute; none where it is absent.
inline std::vector<int64_t> ints(const ir::Attr* a) {
  std::vector<int64_t> r;
  if (a)
    for (const ir::Attr& x : a->items) r.push_back(x.i);
  return r;
}

class Compiler {
 public:
  // Of one body. Its steps follow those that the plan has.
  Compiler(Plan&, Body&);
  // In this order, for all bodies before the next: where operands and scratch lie; what may be split, by which the
  // number of threads is known; the steps.
  void place_operands();
  static void place_scratch(std::span<const std::unique_ptr<Compiler>> bodies);
  void find_splittable();
  void compile_body();
  // Behind it: the targets of the steps' jumps, -1 none; of other bodies' too.
  const std::vector<int>& targets() const { return targets_; }
  void require_memory(int64_t bytes, const std::string& what);

 private:
  using Op = ir::Op;
  using Region = ir::Region;
  using Attr = ir::Attr;

  // A value that may still be used. Lazy is every one whose bytes are not its own: an operation that was not emitted, a
  // view of a ref, a second name of a slot.
  struct Live {
    Val val;
    int depth = 0;  // of the region that it was born in; regions that run exactly once, where they stand, do not count
  };

  // -- layout --
  uint32_t new_slot();
  uint32_t slot_block(int n);
  uint32_t const_slot(CType type, const void* bytes);
  Val const_scalar(ir::DType dtype, uint64_t memory_bits);
  Val const_int(ir::DType dtype, int64_t value);
  Val temp(ir::DType dtype, std::vector<int64_t> dims);

  // -- steps --
  Step& emit(StepFn fn, const void* payload = nullptr);
  Step& emit(const StepInfo&, const void* payload = nullptr);  // one that others reason about
  int here() const { return static_cast<int>(plan_.steps.size()); }
  void jump_to(int step, int target) { targets_[static_cast<size_t>(step)] = target; }

  // -- structure (compiler.cc, grid.cc) --
  void place_operand(size_t i);
  bool read_block(const ir::Operand&, Window*, Val* ref) const;
  void place_block(const ir::Operand&, bool whole, Window*, Val* ref);
  [[noreturn]] void fail_unsupported(const std::string& what) const;
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
  bool is_home_of(const ir::Scratch&) const;
  void place_alone(const ir::Scratch&, Val*);
  void note_far(const ir::Scratch&, const Val&, std::span<const std::unique_ptr<Compiler>> bodies);
  int far_body(const Val&) const;
  void check_reach(const Op&);
  int target_body(const Op&);
  void note_allocation(const Val&, ir::Space, memory::Level owner, memory::Allocation::Lifetime);
  void compile_index_map(Window&, const std::unordered_map<ir::ValueId, Live>& body_values);
  bool is_modelled(const ir::Operand&) const;  // pipeline.cc
  void model_window(const ir::Operand&, Window*, Val* ref);
  int slot_count(const ir::Operand&, const Window&, int64_t wanted);
  ops::PipelinePayload* begin_pipeline();
  void end_pipeline(const ops::PipelinePayload*, int maps);

  // -- regions (compiler.cc) --
  void compile_region_ops(const Region&);  // all ops but yield
  void compile_op(const Op&);
  void forget(const Region&);
  void compute_last_uses(const Region&);
  void set_graph(const ir::Graph&);

  // -- lazy values (lazy.cc); DESIGN section 3 has the invariant --
  static const analysis::WriteSet& everything();
  analysis::WriteSet written(const Val& ref) const;
  // The only way to a step that writes to memory which lazy values may show: makes those memory whose place is written.
  // The step's own operands come back as it may use them: as they were where they read nothing that is written, or
  // where `in_place` (the place of an elementwise result) is read at the element that is written; else as memory.
  std::vector<Val> about_to_write(const analysis::WriteSet&, std::vector<Val> operands = {},
                                  const Val* in_place = nullptr);
  Val apart_from(const analysis::WriteSet&, const Val& operand);  // memory of its own where it shows what is written
  // Before the regions of `op`, which run never, once or many times: what they read is memory that they do not write.
  void before_regions(const Op& op);
  bool shows(const Val&, const analysis::WriteSet&) const;  // does the lazy value read memory of the set?
  bool may_alias(int origin_a, int origin_b) const;
  bool overlaps_elsewhere(const Val& v, const Val& dst) const;
  bool dies_here(ir::ValueId) const;
  bool slot_is_read(uint32_t slot, ir::ValueId but_for) const;
  // The number of a scalar carry's slot may be the slot of its next value, computed there.
  struct Preassigned {
    uint32_t slot;
    ir::ValueId carry;
  };
  void preassign_carries(const Region& body, size_t first, const std::vector<Val>& carries);
  void take_preassigned_slot(ir::ValueId, Val*);
  void bind(ir::ValueId id, Val v) { values_[id] = {std::move(v), depth_}; }
  void define(ir::ValueId v, Val value);

  // -- values (values.cc) --
  const Val& operand(const Op& op, size_t i) { return values_[op.operands[i]].val; }
  Val strided(const Val& v);                          // Strided or Splat made memory; Pending emitted
  Val dense(const Val& v);                            // contiguous row-major memory
  Val materialized(const Val& v);                     // Strided in immutable memory, whatever layout
  void copy_value(const Val& dst_ref, const Val& v);  // dst: Strided or Ref memory of the same shape
  void emit_pending(const Val& v, const Val& dst);
  uint32_t scalar_slot(const Val& v);
  Val load_scalar(const Val& memory);  // rank-0 memory to slot
  void move_scalar(uint32_t dst, uint32_t src);
  void emit_copy(const Val& dst, const Val& src);
  void emit_fill_uninitialized(const Val& ref);
  void emit_elementwise(const Val& dst, const Val& v, bool writes_memory);

  // -- whole-array operations: arrays.cc random.cc --
  struct ArrayResult {
    ir::DType dtype;
    std::vector<int64_t> dims;
  };
  void require(const Op&, bool holds, const char* what);
  std::vector<Val> emit_array(const std::vector<Val>& args, const std::vector<ArrayResult>& results, ops::ArrayBody);
  void define_array(const Op&, ops::ArrayBody);
  void op_roll(const Op&);
  void op_sort(const Op&);
  void op_top_k(const Op&);
  void op_einshape(const Op&);
  void op_bitcast_tpu(const Op&);
  void op_pack(const Op&);
  void op_unpack(const Op&);
  void op_stochastic_round(const Op&);
  void op_gather(const Op&);
  void op_scatter(const Op&);
  void op_convolution(const Op&);
  void op_random(const Op&);
  Val reinterpreted(const Val&, const ir::Type*);

  // -- op families: elementwise.cc scalar.cc shape.cc memory.cc control.cc reduce.cc contract.cc sync.cc --
  void op_elementwise(const Op&);
  Val elementwise_value(ir::OpCode, ir::DType operand, const ir::Type& result, std::vector<Val> args,
                        const StripParams&);
  void op_inline_asm(const Op&);
  Val scalar_result(ir::OpCode, ir::DType operand, ir::DType result, const std::vector<Val>& args, const StripParams&);
  Val scalar_convert(const Val&, ir::DType to);
  Val node(ir::OpCode, ir::DType operand, ir::DType result, std::vector<Val> args, std::vector<int64_t> dims,
           const StripParams&);
  Val convert_value(const Val&, ir::DType to);
  void op_select(const Op&);
  void op_convert(const Op&);
  void op_bitcast(const Op&);
  void op_constant(const Op&);
  void op_dim_value(const Op&);
  void op_iota(const Op&);
  void op_broadcast(const Op&);
  void op_reshape(const Op&);
  void op_transpose(const Op&);
  void op_slice(const Op&);
  IndexPayload clamped_starts(const Op&, size_t first, const Val&, const std::vector<int64_t>& sizes);
  void op_dynamic_slice(const Op&);
  void op_dynamic_update(const Op&);
  void op_concatenate(const Op&);
  void op_pad(const Op&);
  void op_rev(const Op&);
  void op_tile(const Op&);
  void op_split(const Op&);
  void op_stack(const Op&);
  void op_unstack(const Op&);
  void op_reduce(const Op&);
  void op_reduce_region(const Op&);
  void op_arg_reduce(const Op&);
  void op_cumulative(const Op&);
  void op_dot(const Op&);
  MatrixUnit matrix_unit(const Op&, const Contraction&) const;
  void op_get(const Op&);
  void op_store(const Op&);
  void op_swap(const Op&);
  void op_addupdate(const Op&);
  void op_masked(const Op&);
  void op_atomic(const Op&);
  void op_view(const Op&);
  void op_mxu(const Op&);
  void op_cond(const Op&);
  void op_while(const Op&);
  void op_for(const Op&);
  void op_scoped(const Op&);
  void op_new_ref(const Op&);
  void op_freeze(const Op&);
  Val allocate_ref(const Op&, ir::ValueId, ScopePayload* scope);
  void op_call(const Op&);
  void op_index(const Op&);
  void op_print(const Op&);
  PrintPayload printed(const Op&, const std::string& format, bool placeholders, size_t first);
  PrintPayload::Arg shown(const Op&, size_t i);
  void op_check(const Op&);
  void op_host_call(const Op&);
  void op_semaphore(const Op&);
  void op_barrier_semaphore(const Op&);
  void op_dma_start(const Op&);
  void op_dma_wait(const Op&);
  void op_select_ref(const Op&);
  void op_identity(const Op&);

  // memory helpers
  struct OpenedRef {
    Val base, copy;                     // memory, and its dense copy as other elements
    const LensPayload* lens = nullptr;  // where not all of the base is shown
  };
  struct ViewResult {
    std::vector<OpenedRef> opened;
    Val ref;
    bool gather = false;
    std::vector<GatherDim> dims;
    std::vector<int64_t> result_dims;
    std::vector<std::shared_ptr<Storage>> keep;
  };
  // What a view is for: an access to memory, one that may have array indices, the source or the destination of a copy
  // (extents may be known at run time only), or the extents alone (nothing is accessed: bounds do not matter).
  enum class ViewUse : uint8_t { Access, Gather, Copy, CopyTo, Shape };
  // What becomes of a ref that is seen through a copy: refused, opened to read or to write, or left closed.
  // Overwrite: all elements of the view are written, none is read. Some: which ones are written is known at run time.
  enum class Lens : uint8_t { Refuse, Read, Write, Overwrite, Some, Keep };
  ViewResult apply_view(const Op&, const Val& ref, const Attr* view, ViewUse, Lens = Lens::Refuse);
  Val see_through(const Op&, const Val& ref, ir::DType, std::vector<int64_t> dims);  // refs.cc
  Attr push_index(const Op&, Val* ref, const Attr& index);
  Val open_ref(const Val& ref, Lens, std::vector<OpenedRef>*);
  Val open_part(const Val& ref, Lens, std::vector<OpenedRef>*);
  void write_back(const std::vector<OpenedRef>&);
  Val index_dynamic(const Val& ref, std::vector<IndexTerm> terms, bool write = false);
  Val apply_view_to_each(const Op&, const Val& ref, const Attr* view, ViewUse, Lens = Lens::Refuse);
  // An attribute view($k, [transforms]).
  Val viewed_operand(const Op&, const char* key, ViewUse use, Lens lens = Lens::Refuse);
  void copy_through(const Op&, const Val& src, const Val& dst, SemPayload sem);
  void add_tile_padding(Val* ref, ir::Space) const;
  bool copies_read_on() const;
  uint32_t valid_slot(const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size, uint32_t size_slot);
  SemPayload semaphore_of(const Op&, const Val&);
  Peer peer(const Op&);
  // Runs `body` once per alternative of `v`, where the plan then branches.
  void for_each_choice(const Val& v, const std::function<void(const Val&)>& body);
  void store_value(const Op&, const Val& ref, const Val& v);
  ViewResult view_to_write(const Op&, const Val& ref, Lens);
  void check_writable(const Op&, const Val& ref);
  struct ElementAccess {
    GatherPayload::Mode mode;
    const Val *value = nullptr, *mask = nullptr, *other = nullptr, *compare = nullptr;
    AtomicFn atomic = nullptr;
    bool spins = false;
  };
  bool may_leave(const Val& ref, const Attr* view, bool read) const;
  ViewResult element_view(const Op&, const Val& ref, const Attr* view, Lens = Lens::Refuse);
  bool pick_elements(const Op&, Val* ref, const Attr& front, std::vector<GatherDim>*);
  void add_block(ViewResult*) const;
  AtomicFn atomic_function(const Op&, const std::string& kind, ir::DType);
  // `result`: where the read or former value goes; null where nobody wants it.
  void gather_access(const Op&, const ViewResult&, const ElementAccess&, Val* result);

  // control helpers
  std::vector<Val> allocate_carries(const std::vector<Val>& init);
  void assign_carries(const std::vector<Val>& carries, const Op& yield);
  void enter_carries(const Region&, size_t first, const std::vector<Val>& carries);

  [[noreturn]] void too_much_memory(int64_t bytes, const std::string& what);
  [[noreturn]] void unsupported(const Op&, const std::string& what);

  const ir::Type* type(ir::ValueId v) const { return graph_->type(v); }
  std::vector<int64_t> dims_of(const ir::Type*) const;

  Plan& plan_;
  Body& body_;
  const ir::Module& m_;
  const ir::Body& ir_body_;
  const hw::MachineModel& model_;
  const ir::Graph* graph_ = nullptr;
  const KernelTable& k_;
  Semantics semantics_;
  TempAllocator temps_;
  std::unordered_map<ir::ValueId, Live> values_;
  int depth_ = 0;  // of regions that run any number of times
  std::unordered_map<ir::ValueId, int> uses_;
  std::unordered_map<const Op*, std::vector<ir::ValueId>> dies_;
  std::vector<int> targets_;  // per step, -1 none
  std::map<std::pair<int, uint64_t>, uint32_t> const_slots_;
  std::unique_ptr<analysis::Writes> writes_;  // of graph_
  std::set<std::pair<int, int>> aliases_;     // pairs of origins that are one buffer
  std::vector<std::shared_ptr<Storage>> permanent_;
  std::vector<std::pair<Val, Val>> prefetch_copies_;          // to, from
  std::unordered_map<ir::ValueId, Preassigned> preassigned_;  // by the value that may take the slot
  struct Current {                                            // the operation under compilation
    const Op* op = nullptr;
    size_t first_slot = 0, first_step = 0;  // of its own
  } now_;
  std::vector<Val> printed_;  // arrays of the text under construction: their memory is not reused
  struct Mxu;                 // mxu.cc
  std::shared_ptr<Mxu> mxu_;
  uint32_t prng_slot_ = Addr::kNoSlot;  // the core's generator, where it is used
  std::map<int, int> far_semaphores_;   // blocks that other meshes' threads have for themselves, and whose they are
  std::map<uint32_t, int> far_memory_;  // buffers of that kind
  int next_origin_ = 0;                 // of memory that no ref of the graph was born with
  ir::LocId loc_ = -1;
  bool in_index_map_ = false;
  int while_depth_ = 0;
};

}  // namespace pallasim::interp
