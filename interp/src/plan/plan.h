// A compiled module. Immutable after compile(); launches share it.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/memory/allocation.h"
#include "pallasim/memory/async.h"
#include "pallasim/memory/saturate.h"
#include "pallasim/memory/semaphores.h"
#include "pallasim/memory/window.h"
#include "step.h"

namespace pallasim::interp {

// How a block of an operand is found at a grid point.
struct Affine {  // index = constant + sum coefficient[axis] * program id
  bool known = false;
  int64_t constant = 0;
  std::vector<int64_t> coefficient;
};

// The window of one operand: the part of the array that the body's ref shows at a grid point.
struct Window {
  int operand = 0;               // index into module.operands
  uint32_t buffer = 0;           // base of the array
  uint32_t dyn = Addr::kNoSlot;  // slot of the byte offset of a direct window; none: the whole array
  bool edge = false;         // pointers (Triton): the block may reach beyond the array, bounds are checked per access;
                             // index_slots hold the block's start
  bool staged = false;       // a copy in the arena (edge blocks, padding), moved when the block index changes
  int64_t stage_offset = 0;  // arena offset of the copy
  uint32_t index_slots = 0;  // edge, staged: first of `places` i64 slots with the current place, then one "valid" slot
  std::vector<int64_t> dims, strides;  // of the array, elements
  std::vector<int64_t> extent;         // block extent per array dim (1 for squeezed)
  std::vector<int64_t> block_strides;  // staged: of the copy
  int64_t block_elements = 0;
  std::vector<int64_t> scale;  // block start = index * scale - pad_lo
  std::vector<int64_t> pad_lo, pad_hi;
  std::vector<Affine> index;          // per array dim, then the sizes of bounded slices
  std::vector<uint32_t> index_value;  // the same as slots, where not affine
  std::vector<int>
      bounded;         // per array dim: where in `index` the slice's size is, -1 for a fixed extent; empty: all fixed
  bool affine = true;  // all dims known
  // Options::Pipeline::Modelled: `slots` copies of the block in the arena.
  int slots = 0;  // 0: not modelled
  int64_t slot_bytes = 0;
  uint32_t state = 0;  // i64 slots; see run/pipeline.cc
  int semaphore = -1;  // block: one per slot, counts the bytes of its copies
  bool is_output = false;
  bool fully_written = false;  // every element is stored before it is read: no poison needed
  bool copies_only = false;  // an output that local copies write and nothing reads: poison can wait until they are done
  int element_bytes = 4;
  ir::DType dtype = ir::DType::F32;

  // What tells one block from another: where it starts in each dimension, then the sizes of bounded slices.
  size_t places() const { return std::max(dims.size(), index.size()); }
  // Elements of the block at a place in a dimension; where the block ends at the array's edge, some of them are not
  // there.
  int64_t extent_at(const int64_t* place, size_t d) const {
    return bounded.empty() || bounded[d] < 0 ? extent[d] : place[bounded[d]];
  }
};

class Plan {
 public:
  ir::Module module;
  std::unique_ptr<ir::Module> given;        // Numerics::Oracle: the module as it came
  Options options;                          // the parts that shaped the plan
  const hw::MachineModel* model = nullptr;  // of the cores that run the body; null where shape parameters are not bound
  std::vector<Step> steps;
  const Step* entry = nullptr;  // prologue: constants, then the grid loop

  std::vector<std::byte> image;      // initial bytes of the slot area
  int64_t temp_bytes = 0;            // buffer kTempBuffer
  std::vector<std::byte> constants;  // read-only array constants, buffer kConstBuffer
  memory::Allocations allocations;   // scratch and what run_scoped allocates; those of Launch lifetime begin as poison

  uint32_t num_buffers = 0;  // length of Thread::bases
  std::vector<Window> windows;
  struct MovingWindow {  // direct windows with an affine map: byte offset = first + sum step[axis] * id
    uint32_t dyn;
    int64_t first;
    std::vector<int64_t> step;
  };
  std::vector<MovingWindow> moving;
  bool modelled = false;  // some window has slots
  int max_strips = 1;
  std::vector<uint32_t> pid_slots;  // i64, per grid axis
  std::vector<uint32_t> size_slots;
  std::vector<uint32_t>
      place_slots;                   // i64, per grid axis: the position, where Options::grid_order says what lies there
  int cores = 1;                     // TensorCores that share the grid
  int core_axis = -1;                // along this axis, in equal runs
  std::vector<uint32_t> mesh_slots;  // i64, per mesh axis of the (single) mesh
  struct DeviceAxis {
    std::string name;
    int64_t size;
    uint32_t slot;
  };                                    // slot: i64, the device's coordinate
  std::vector<DeviceAxis> device_axes;  // around the kernel, the last one fastest
  bool has_peers = false;               // devices reach into each other: all of them are one launch
  int64_t num_devices() const {
    int64_t n = 1;
    for (const DeviceAxis& a : device_axes) n = memory::mul(n, a.size);
    return n;
  }
  memory::SemaphoreLayout semaphores;
  struct OuterSemaphores {
    int block;
    int operand;
    bool in_place;
  };  // semaphores that live outside the kernel
  std::vector<OuterSemaphores> outer_semaphores;
  // An array outside the kernel in memory that every core has for itself: thread memory, at `offset` of the
  // temporaries.
  struct CoreArray {
    int input, output;
    int64_t offset, bytes;
  };  // operands; output -1: read only
  std::vector<CoreArray> core_arrays;
  std::vector<int> splittable;           // grid axes along which units are independent
  std::vector<ir::Diagnostic> findings;  // of the chip's rules, and no errors; every launch reports them
  std::string sequential_because;        // empty when something may be split
  double step_cost_ns = 0;               // rough cost of one grid point
  // Of one device: the mesh of the kernel, or the cores that share its grid where they can be told from one.
  memory::Units units;
  int num_threads = 1;  // of one device
  void set_units(memory::Units u) {
    num_threads = static_cast<int>(u.per_device(memory::Level::Thread));
    semaphores.set_units(u);
    units = std::move(u);
  }
  bool has_sync = false;
  bool concurrent = false;  // programs of the grid may wait for each other, or race on purpose (Triton)

  // Owned payloads of steps.
  template <typename T>
  T* own(T value) {
    constexpr int64_t kBeside = 256;  // of vectors and names that a payload holds
    payload_bytes_ += static_cast<int64_t>(sizeof(T)) + kBeside;
    auto p = std::make_shared<T>(std::move(value));
    T* raw = p.get();
    payloads_.push_back(std::move(p));
    return raw;
  }

  // Specialisations of a module with shape parameters, by binding text.
  mutable std::mutex mutex;
  mutable std::unordered_map<std::string, std::shared_ptr<const Plan>> specialised;

  int64_t bytes() const;  // that the plan holds, about; specialisations too

  Plan();
  ~Plan();

 private:
  std::vector<std::shared_ptr<void>> payloads_;
  int64_t payload_bytes_ = 0;
};

using memory::kConstBuffer, memory::kFirstOperandBuffer, memory::kSlotBuffer, memory::kTempBuffer;

// Texts and plans that compile_cached() keeps, bytes.
inline constexpr int64_t kPlanCacheBytes = 512LL << 20;

// Whether an output begins as one of the inputs.
bool is_aliased_output(const ir::Module&, int operand);

}  // namespace pallasim::interp
