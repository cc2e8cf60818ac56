// A compiled module. Immutable after compile(); launches share it.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "body.h"
#include "pallasim/interp/launch.h"
#include "pallasim/memory/allocation.h"
#include "pallasim/memory/async.h"
#include "pallasim/memory/barriers.h"
#include "pallasim/memory/saturate.h"
#include "pallasim/memory/semaphores.h"
#include "pallasim/memory/window.h"
#include "value_places.h"

namespace pallasim::interp {

// What the threads of a launch find in memory.
struct PlanMemory {
  struct OuterSemaphores {  // that live outside the kernel
    int block;
    int operand;
    bool in_place;
  };

  std::vector<std::byte> constants;  // read-only array constants, buffer kConstBuffer
  memory::Allocations allocations;   // scratch and what run_scoped allocates; those of Launch lifetime begin as poison
  std::vector<size_t> elidable;      // those of the allocations whose bytes may stay where they came from
  uint32_t num_buffers = 0;          // length of Thread::bases
  // Buffers that stand for another one, which a step finds at run time, in ascending order.
  std::vector<uint32_t> aliases;
  std::vector<uint32_t> private_buffers;  // temporaries of further bodies, and of spawned threads
  int max_strips = 1;                     // that one elementwise step holds
  memory::SemaphoreLayout semaphores;
  std::vector<memory::BarrierBlock> barriers;
  std::vector<OuterSemaphores> outer_semaphores;
  int barrier_semaphore = -1;   // block of the launch's barrier semaphores; -1: nobody asks for it
  std::vector<int> own_inputs;  // operands that the kernel writes to though the caller keeps them: a launch copies them

  // The place of an allocation among `elidable`; -1: it is none of them.
  int32_t elidable_of(size_t allocation) const {
    const auto it = std::find(elidable.begin(), elidable.end(), allocation);
    return it == elidable.end() ? -1 : static_cast<int32_t>(it - elidable.begin());
  }
  // Whether every thread has a buffer for itself.
  bool is_private(uint32_t buffer) const {
    return buffer <= memory::kTempBuffer ||
           std::find(private_buffers.begin(), private_buffers.end(), buffer) != private_buffers.end();
  }
  bool is_alias(uint32_t buffer) const { return std::binary_search(aliases.begin(), aliases.end(), buffer); }
  uint32_t new_alias() {
    aliases.push_back(num_buffers);
    return num_buffers++;
  }
  // Whether threads may wait for what others do.
  bool waits() const { return !semaphores.empty() || !barriers.empty(); }
};

// Who runs it. Known before any step is emitted.
struct PlanThreads {
  struct DeviceAxis {
    std::string name;
    int64_t size;
  };

  // Of one device: the meshes of the kernel, or the cores that share its grid where they can be told from one.
  memory::Units units;
  int count = 1;                        // of one device
  int cores = 1;                        // TensorCores that share the grid
  int core_axis = -1;                   // along this axis, in equal runs
  bool concurrent = false;              // programs of the grid may wait for each other, or race on purpose (Triton)
  std::vector<DeviceAxis> device_axes;  // around the kernel, the last one fastest
  bool has_peers = false;               // devices reach into each other: all of them are one launch
  bool reach_cores = false;             // a core names another one, to signal it or to copy into its memory
  bool tensor_memory = false;           // they use it: each has streams of its engines

  int64_t num_devices() const {
    int64_t n = 1;
    for (const DeviceAxis& a : device_axes) n = memory::mul(n, a.size);
    return n;
  }
};

// How a launch may spread over workers.
struct PlanSplit {
  std::vector<int> axes;    // of the grid, along which units are independent
  std::string refused;      // why there are none; empty when something may be split
  double step_cost_ns = 0;  // rough cost of one grid point
};

class Plan;
struct StepFunctions;  // steps.h

// Payloads of steps, which live as long as the plan.
class Payloads {
 public:
  template <typename T>
  T* own(T value) {
    constexpr int64_t kBeside = 256;  // of vectors and names that a payload holds
    bytes_ += static_cast<int64_t>(sizeof(T)) + kBeside;
    auto p = std::make_shared<T>(std::move(value));
    T* raw = p.get();
    payloads_.push_back(std::move(p));
    return raw;
  }
  int64_t bytes() const { return bytes_; }  // about

 private:
  std::vector<std::shared_ptr<void>> payloads_;
  int64_t bytes_ = 0;
};

// Which operations of the module the steps of a plan stand for: of each a range of one table. The last one of a range
// is whose line the step's reports name.
class StepOps {
 public:
  using Range = std::span<const ir::Op* const>;
  void add(const ir::Op* op) {  // of one more step; null: it stands for none
    begin_.push_back(ops_.size());
    lines_.push_back(op ? op->loc : -1);
    if (op) ops_.push_back(op);
  }
  void replace(Range ops) {  // of the last step
    ops_.resize(begin_.back());
    ops_.insert(ops_.end(), ops.begin(), ops.end());
    lines_.back() = ops.empty() ? -1 : ops.back()->loc;
  }
  Range of(const Step& s) const {
    const auto i = static_cast<size_t>(s.id);
    return Range(ops_).subspan(begin_[i], (i + 1 < begin_.size() ? begin_[i + 1] : ops_.size()) - begin_[i]);
  }
  ir::LocId line_of(const Step& s) const { return lines_[static_cast<size_t>(s.id)]; }

 private:
  std::vector<const ir::Op*> ops_;
  std::vector<size_t> begin_;     // per step
  std::vector<ir::LocId> lines_;  // of the last one of each step
};

class Plan {
 public:
  ir::Module module;
  std::unique_ptr<ir::Module> given;  // Numerics::Oracle: the module as it came
  PlanOptions options;
  const StepFunctions* functions = nullptr;  // that its steps run by
  std::vector<Step> steps;                   // of all bodies
  StepOps step_ops;
  bool joined = false;            // scalar steps may run by themselves: Step::threaded is set
  bool observed_threads = false;  // what ends a run of them says what it touches
  Payloads payloads;              // of the steps
  // One per mesh that has one, in the module's order; all run beside each other. None where shape parameters are not
  // bound.
  std::vector<std::unique_ptr<Body>> bodies;
  const Body& first() const { return *bodies.front(); }

  PlanMemory memory;
  PlanThreads threads;
  PlanSplit split;
  std::vector<ir::Diagnostic> findings;  // of the chip's rules, and no errors; every launch reports them
  std::vector<ValuePlace> values;        // PlanOptions::keeps_values
  std::span<const ir::Op* const> ops_of(const Step& s) const { return step_ops.of(s); }
  // The line that its reports name; -1: none.
  ir::LocId loc_of(const Step& s) const { return step_ops.line_of(s); }

  // Whether all that parts of a launch share are arrays that can be as before: what else lies in the memory of a unit
  // of that level or above, or is counted there, is there once.
  bool shares_arrays_only(memory::Level) const;
  // Whether points of the grid wait for each other, or may: each is a thread then, and what they do has an order only
  // where they make one.
  bool programs_meet() const;
  // Whether a launch may run programs, or the threads of a mesh, in parts that note what they use of the arrays. While
  // bodies are compiled it may become false, never true.
  bool may_speculate() const;
  int64_t bytes() const;  // that the plan holds, about

  // What launches learnt about it (launch/learnt.h), which ends before the rest of the plan does.
  mutable std::shared_ptr<void> beside;
};

using memory::kConstBuffer, memory::kFirstOperandBuffer, memory::kSlotBuffer, memory::kTempBuffer;

// Texts and plans that compile_cached() keeps, bytes.
inline constexpr int64_t kPlanCacheBytes = 512LL << 20;

}  // namespace pallasim::interp
