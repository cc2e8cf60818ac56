// What the threads of one mesh run: code, slots, memory that each of them has for itself, and whose place among the
// units of a device they have.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "pallasim/hw/machine.h"
#include "pallasim/memory/saturate.h"
#include "pallasim/memory/units.h"
#include "step.h"

namespace pallasim::interp {

// How a block of an operand is found at a grid point.
struct Affine {  // index = constant + sum coefficient[axis] * program id
  bool known = false;
  int64_t constant = 0;
  std::vector<int64_t> coefficient;
  bool operator==(const Affine&) const = default;
  bool is_constant() const {
    return known && std::all_of(coefficient.begin(), coefficient.end(), [](int64_t c) { return c == 0; });
  }
};

// Which part of its array the block of a grid point is.
struct BlockMap {
  std::vector<int64_t> extent;  // elements per array dim (1 for squeezed)
  std::vector<int64_t> scale;   // block start = index * scale - pad_lo
  std::vector<int64_t> pad_lo, pad_hi;
  std::vector<Affine> index;          // per array dim, then the sizes of bounded slices; empty: the whole array
  std::vector<uint32_t> index_value;  // the same as slots, where not affine
  // Per array dim: where in `index` the slice's size is, -1 for a fixed extent; empty: all fixed.
  std::vector<int> bounded;
  bool affine = true;  // all dims known

  // Elements of the block at a place in a dimension; where the block ends at the array's edge, some of them are not
  // there.
  int64_t extent_at(const int64_t* place, size_t d) const {
    return bounded.empty() || bounded[d] < 0 ? extent[d] : place[bounded[d]];
  }
  // Of an affine map: where the first and the last block of a grid begin in a dimension.
  std::pair<int64_t, int64_t> starts(size_t d, const std::vector<int64_t>& grid) const {
    int64_t lo = index[d].constant, hi = lo;
    for (size_t g = 0; g < grid.size(); ++g) {
      const int64_t reach = memory::mul(index[d].coefficient[g], std::max<int64_t>(grid[g] - 1, 0));
      int64_t& end = reach < 0 ? lo : hi;
      end = memory::add(end, reach);
    }
    return {memory::add(memory::mul(lo, scale[d]), -pad_lo[d]), memory::add(memory::mul(hi, scale[d]), -pad_lo[d])};
  }
};

// The window of one operand: the array, the part of it that the body's ref shows at a grid point, and how the ref
// reaches that.
struct Window {
  int operand = 0;                     // index into module.operands
  uint32_t buffer = 0;                 // base of the array
  std::vector<int64_t> dims, strides;  // of the array, elements
  ir::DType dtype = ir::DType::F32;
  int element_bytes = 4;
  bool is_output = false;
  bool fully_written = false;  // every element is stored before it is read: no poison needed
  bool init_deferred =
      false;  // an output that local copies write and nothing reads: poison can wait until they are done
  BlockMap map;

  // In place, at a byte offset that lies in a slot.
  struct Direct {
    uint32_t offset = 0;
  };
  // In place, by pointers (Triton): the block may reach beyond the array, bounds are checked per access.
  struct Edge {
    uint32_t offset = 0;
    uint32_t place = 0;  // first of `places` i64 slots: where the block starts
  };
  // A copy of the block in the arena.
  struct Stage {
    int64_t offset = 0;
    std::vector<int64_t> strides;  // elements
    int64_t elements = 0;
  };
  // Copied when the block index changes (edge blocks, padding).
  struct Staged {
    Stage copy;
    uint32_t place = 0;  // first of `places` i64 slots with the current place, then one "valid" slot
  };
  // Options::Pipeline::Modelled: copies of several blocks, one behind the other.
  struct Modelled {
    Stage stage;  // of the first
    int slots = 1;
    int64_t slot_bytes = 0;
    uint32_t offset = 0;  // slot of the current one's byte offset
    uint32_t state = 0;   // i64 slots; see ops/pipeline.cc
    int semaphore = -1;   // block: one per slot, counts the bytes of its copies
  };
  std::variant<std::monostate, Direct, Edge, Staged, Modelled> reach;  // none: the whole array

  const Edge* edge() const { return std::get_if<Edge>(&reach); }
  const Modelled* modelled() const { return std::get_if<Modelled>(&reach); }
  const Stage* stage() const {  // null: in place
    if (const auto* s = std::get_if<Staged>(&reach)) return &s->copy;
    return modelled() ? &modelled()->stage : nullptr;
  }
  // What tells one block from another: where it starts in each dimension, then the sizes of bounded slices.
  size_t places() const { return std::max(dims.size(), map.index.size()); }
};

struct Body {
  int index = 0;                            // among Plan::bodies, as in the module
  int mesh = -1;                            // index into module.meshes; -1: the one thread of a device without meshes
  const hw::MachineModel* model = nullptr;  // of the cores that run it
  const Step* entry = nullptr;              // prologue: constants, then the grid loop

  std::vector<std::byte> image;          // initial bytes of the slot area
  uint32_t temps = memory::kTempBuffer;  // the buffer of its threads' temporaries; no other body has it
  int64_t temp_bytes = 0;                // of that buffer
  int64_t image_bytes() const { return static_cast<int64_t>((image.size() + 63) / 64 * 64); }

  std::vector<Window> windows;  // of the operands, in their order
  struct MovingWindow {         // direct windows with an affine map: byte offset = first + sum step[axis] * id
    uint32_t dyn;
    int64_t first;
    std::vector<int64_t> step;
  };
  std::vector<MovingWindow> moving;
  bool modelled = false;            // some window has slots
  std::vector<uint32_t> pid_slots;  // i64, per grid axis
  std::vector<uint32_t> size_slots;
  // i64, per grid axis: the position, where Options::grid_order says what lies there
  std::vector<uint32_t> place_slots;
  uint32_t row_end = Addr::kNoSlot;    // i64: where the last axis ends, if its next point takes moving windows alone
  std::vector<uint32_t> axis_slots;    // i64, per axis of its mesh
  std::vector<uint32_t> device_slots;  // i64, per axis of PlanThreads::device_axes: the device's coordinate
  // An array outside the kernel in memory that every core has for itself: thread memory, at `offset` of the
  // temporaries.
  struct CoreArray {
    int input, output;
    int64_t offset, bytes;
  };  // operands; output -1: read only
  std::vector<CoreArray> core_arrays;

  // Threads that one of its threads may spawn, at most, and what each of them has for itself.
  int64_t max_children = 0, child_bytes = 0;

  // Its threads, row-major over the axes of its mesh, are runs of the threads of each core of a mesh of units.
  int units_mesh = 0;                // index into PlanThreads::units.meshes()
  int64_t threads = 1;               // on one device
  int64_t first_thread = 0;          // of the device: that of its first core's
  int64_t per_core = 1;              // it has so many of each core …
  int64_t core_stride = 1;           // … of which the next one's begin so many threads later
  int32_t thread(int64_t n) const {  // of the device
    return static_cast<int32_t>(first_thread + n / per_core * core_stride + n % per_core);
  }
};

}  // namespace pallasim::interp
