// What lowerings write a plan with: slots, constants, steps, values and their memory. One per compilation.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../analysis/writes.h"
#include "../plan/array.h"
#include "../plan/steps.h"
#include "value.h"

namespace pallasim::interp {

using ir::Attr, ir::Op, ir::OpCode, ir::Region;

std::vector<int64_t> dims_of(const ir::Type*);
inline bool is_barrier(ir::DType t) { return t == ir::DType::Mbarrier || t == ir::DType::ClusterBarrier; }

// The integers of a list attribute; none where it is absent.
std::vector<int64_t> ints(const Attr*);

// PS-UNSUP-001 of a launch as a whole.
[[noreturn]] void unsupported(const ir::Module&, const std::string& what);

class Emitter {
 public:
  Emitter(Plan&, Body&);
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  // -- what the plan is made for --
  Plan& plan() { return plan_; }
  Body& body() { return body_; }
  const Options& options() const { return plan_.options; }
  const ir::Module& module() const { return m_; }
  const hw::MachineModel& model() const { return model_; }
  const KernelTable& kernels() const { return k_; }
  const Semantics& semantics() const { return semantics_; }
  const ir::Graph& graph() const { return *graph_; }
  const ir::Type* type(ir::ValueId v) const { return graph_->type(v); }
  // What a family of lowerings remembers from one operation to the next: made when it is first asked for.
  template <typename T>
  T& state() {
    std::shared_ptr<void>& s = states_[typeid(T)];
    if (!s) s = std::make_shared<T>();
    return *static_cast<T*>(s.get());
  }

  // -- refusals --
  [[noreturn]] void unsupported(const Op&, const std::string& what) const;
  // Before anything of that size is allocated; `what` takes the memory.
  void require_memory(int64_t bytes, const std::string& what) const;
  [[noreturn]] void too_much_memory(int64_t bytes, const std::string& what) const;

  // -- slots (scalar.cc) --
  uint32_t new_slot();
  uint32_t slot_block(int n);
  uint32_t const_slot(CType type, const void* bytes);
  Val const_scalar(ir::DType dtype, uint64_t memory_bits);
  Val const_int(ir::DType dtype, int64_t value);

  // -- steps --
  Step& emit(StepFn fn, const void* payload = nullptr);
  Step& emit(const StepInfo&, const void* payload = nullptr);  // one that others reason about
  template <typename T>
  T* own(T payload) {
    return plan_.own(std::move(payload));
  }
  int here() const { return static_cast<int>(plan_.steps.size()); }
  void jump_to(int step, int target) { targets_[static_cast<size_t>(step)] = target; }
  ir::LocId loc() const { return loc_; }
  void at(ir::LocId loc) { loc_ = loc; }  // of the steps that follow

  // -- memory --
  Val temp(ir::DType dtype, std::vector<int64_t> dims);
  void allocate(Val*);                                                   // a place among the thread's temporaries
  void keep(const Val& v) { permanent_.push_back(v.memory().storage); }  // to the end of the kernel
  int fresh_origin() { return next_origin_++; }  // of memory that no ref of the graph was born with
  // The block of a ref to barriers; `facts`: what its type does not say, {num_arrivals = 2}.
  int add_barrier(const Val&, const ir::Type&, const Attr* facts);
  void note_allocation(const Val&, ir::Space, memory::Level owner, memory::Allocation::Lifetime);
  void add_tile_padding(Val* ref, ir::Space) const;
  void emit_fill_uninitialized(const Val& ref);

  // -- threads that threads spawn --
  struct InnerAxis {  // of the mesh inside; slot: i64, the thread's place
    std::string name;
    int64_t size;
    uint32_t slot;
  };
  // While it lives, what is emitted is run by spawned threads: temporaries lie in their buffer, and `bytes` receives at
  // last how many they are.
  class Spawned {
   public:
    Spawned(Emitter&, uint32_t buffer, std::vector<InnerAxis>, int64_t* bytes);
    ~Spawned();
    Spawned(const Spawned&) = delete;
    Spawned& operator=(const Spawned&) = delete;

   private:
    Emitter& e_;
    int64_t* bytes_;
  };
  bool in_spawn() const { return place_ != &temps_; }
  const std::vector<InnerAxis>& inner_axes() const { return inner_axes_; }

  // -- several bodies (reach.cc) --
  // The body whose core `core_index` names: that of the mesh which has the destination, or the semaphore, for itself.
  int target_body(const Op&);

  // -- regions --
  void compile_region_ops(const Region&);  // all ops but yield
  void forget(const Region&);              // its values end with it: what follows may run without it
  // While it lives, what is emitted runs any number of times; `waits`: perhaps until another thread writes something.
  class Conditional {
   public:
    explicit Conditional(Emitter& e, bool waits = false) : e_(e), waits_(waits) {
      ++e_.depth_, e_.while_depth_ += waits;
    }
    ~Conditional() { --e_.depth_, e_.while_depth_ -= waits_; }
    Conditional(const Conditional&) = delete;
    Conditional& operator=(const Conditional&) = delete;

   private:
    Emitter& e_;
    bool waits_;
  };
  bool in_while() const { return while_depth_ > 0; }

  // -- values (values.cc) --
  const Val& operand(const Op& op, size_t i) { return values_[op.operands[i]].val; }
  const Val& value(ir::ValueId v) { return values_[v].val; }
  int uses(ir::ValueId v) const;
  void bind(ir::ValueId id, Val v) { values_[id] = {std::move(v), depth_}; }
  void define(ir::ValueId v, Val value);
  Val strided(const Val& v);                          // Strided or Splat made memory; Pending emitted
  Val dense(const Val& v);                            // contiguous row-major memory
  Val materialized(const Val& v);                     // Strided in immutable memory, whatever layout
  void copy_value(const Val& dst_ref, const Val& v);  // dst: Strided or Ref memory of the same shape
  void emit_pending(const Val& v, const Val& dst);
  void emit_copy(const Val& dst, const Val& src);
  uint32_t scalar_slot(const Val& v);
  Val load_scalar(const Val& memory);  // rank-0 memory to slot
  void move_scalar(uint32_t dst, uint32_t src);
  Val scalar_result(OpCode, ir::DType operand, ir::DType result, const std::vector<Val>& args, const StripParams&);
  Val scalar_convert(const Val&, ir::DType to);

  // -- lazy values (lazy.cc); DESIGN section 3 has the invariant --
  static const analysis::WriteSet& everything();
  analysis::WriteSet written(const Val& ref) const;
  const analysis::WriteSet& writes_of(const Op& op) { return writes_->of(op); }
  // The only way to a step that writes to memory which lazy values may show: makes those memory whose place is written.
  // The step's own operands come back as it may use them: as they were where they read nothing that is written, or
  // where `in_place` (the place of an elementwise result) is read at the element that is written; else as memory.
  std::vector<Val> about_to_write(const analysis::WriteSet&, std::vector<Val> operands = {},
                                  const Val* in_place = nullptr);
  Val apart_from(const analysis::WriteSet&, const Val& operand);  // memory of its own where it shows what is written
  // Before the regions of `op`, which run never, once or many times: what they read is memory that they do not write.
  void before_regions(const Op& op);
  void preassign_carries(const Region& body, size_t first, const std::vector<Val>& carries);

 protected:
  // A value that may still be used. Lazy is every one whose bytes are not its own: an operation that was not emitted, a
  // view of a ref, a second name of a slot.
  struct Live {
    Val val;
    int depth = 0;  // of the region that it was born in; regions that run exactly once, where they stand, do not count
  };

  void check_reach(const Op&);
  int far_body(const Val&) const;
  void set_graph(const ir::Graph&);
  void compute_last_uses(const Region&);
  bool shows(const Val&, const analysis::WriteSet&) const;  // does the lazy value read memory of the set?
  bool may_alias(int origin_a, int origin_b) const;
  bool overlaps_elsewhere(const Val& v, const Val& dst) const;
  bool dies_here(ir::ValueId) const;
  bool slot_is_read(uint32_t slot, ir::ValueId but_for) const;
  void take_preassigned_slot(ir::ValueId, Val*);

  Plan& plan_;
  Body& body_;
  const ir::Module& m_;
  const ir::Body& ir_body_;
  const hw::MachineModel& model_;
  uint32_t buffer_;  // of the temporaries of what is emitted now
  const ir::Graph* graph_ = nullptr;
  const KernelTable& k_;
  Semantics semantics_;
  TempAllocator temps_;
  std::deque<TempAllocator> child_temps_;  // of spawned threads, by spawn
  TempAllocator* place_ = &temps_;         // of what is emitted now
  std::vector<InnerAxis> inner_axes_;
  std::unordered_map<ir::ValueId, Live> values_;
  int depth_ = 0;  // of regions that run any number of times
  int while_depth_ = 0;
  std::unordered_map<ir::ValueId, int> uses_;
  std::unordered_map<const Op*, std::vector<ir::ValueId>> dies_;
  std::vector<int> targets_;  // per step, -1 none
  std::map<std::pair<int, uint64_t>, uint32_t> const_slots_;
  std::unique_ptr<analysis::Writes> writes_;  // of graph_
  std::set<std::pair<int, int>> aliases_;     // pairs of origins that are one buffer
  std::vector<std::shared_ptr<Storage>> permanent_;
  // The number of a scalar carry's slot may be the slot of its next value, computed there.
  struct Preassigned {
    uint32_t slot;
    ir::ValueId carry;
  };
  std::unordered_map<ir::ValueId, Preassigned> preassigned_;  // by the value that may take the slot
  struct Current {                                            // the operation under compilation
    const Op* op = nullptr;
    size_t first_slot = 0, first_step = 0;  // of its own
  } now_;
  int next_origin_ = 0;
  std::map<int, int> far_semaphores_;   // blocks that other meshes' threads have for themselves, and whose they are
  std::map<uint32_t, int> far_memory_;  // buffers of that kind
  ir::LocId loc_ = -1;
  std::unordered_map<std::type_index, std::shared_ptr<void>> states_;
};

}  // namespace pallasim::interp
