// What differs between the machines that kernels are written for, as data. Whoever checks or runs a kernel asks the
// model of a body's machine and kind of core; which machine that is nobody asks. Chips (chips.h) switch features on and
// give sizes. Any combination of the fields is a machine: code that reads one of them assumes nothing about the others.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "pallasim/hw/chips.h"
#include "pallasim/ir/module.h"

namespace pallasim::hw {

// Arithmetic of elements where machines differ. Source: measurements on an H200, docs/numerics.md.
struct Arithmetic {
  bool nan_propagates_in_minmax = true;  // else min and max give the number
  bool fp8_saturates = false;            // conversions to f8 beyond its range give its largest number
  bool int_rem_zero_is_x = true;         // x % 0 = x; else -1
  bool sign_of_nan_is_one = false;       // else NaN
};

// How products of matrices are formed where a run asks for the machine's own arithmetic (numerics "device").
enum class MatrixRule : uint8_t {
  Plain,          // operands as they are, every sum rounded
  Bfloat16Parts,  // f32 operands as sums of bf16 parts, a product per pass
  TensorCores,    // f32 operands as tf32; sums as the chip's tensor cores form them (Profile::tensor_sum)
};

// How a body reaches the block of an operand.
enum class BlockAccess : uint8_t {
  Window,   // it lies in memory of its own, and what is beyond its end is not there
  Pointer,  // a pointer into the array: an access beyond the block's end meets what lies there
};

// Which programs (points) of a grid exist at the same time.
enum class Programs : uint8_t {
  InOrder,      // one after another, each sees what those before it wrote
  Concurrent,   // as many as the chip holds, in no order; each by itself
  Cooperative,  // the same in groups whose programs are there together and may wait for each other
};

// What lies where a read leaves its array.
enum class Outside : uint8_t {
  Stops,
  Undefined,  // what memory holds that nobody wrote
};
struct OutsideAccess {
  Outside loads = Outside::Stops;         // as the machine does (Options::out_of_bounds = chip)
  int64_t granule = 0;                    // bytes: loads by pointers fault behind that multiple; 0: they do not
  Outside copy_sources = Outside::Stops;  // of kernels whose compiler leaves out checks (uninitialized)
};

enum class NegativeIndex : uint8_t {
  Outside,  // before the array
  FromEnd,  // -1 is the last element
};

enum class PrintStyle : uint8_t {
  Values,    // as str() has them
  Literals,  // with type and layout, as XLA writes literals: "f32[] 2"
};

// What a checked run looks for because it is a mistake on this machine.
struct Checks {
  bool copies_in_flight = false;     // accesses to either side of a copy before it is awaited
  bool written_before_read = false;  // reads of memory that nobody wrote
  bool unwritten_outputs = false;    // the same of outputs alone, and outputs that stay as they were
  bool aliased_inputs = false;       // reads of an input after its aliased output was written
  bool revisited_outputs = false;    // a block of an output that the grid comes back to after another one
};

// How the elements of an allocation lie.
enum class Layout : uint8_t {
  Rows,   // row-major
  Tiles,  // in whole tiles (tiles.h); copies may name the padding
  Count,  // things that are counted, not bytes
};

// What a chip has of a memory.
struct Capacity {
  const char* figure = nullptr;  // of its file (chips.h): bytes of one holder. Null: nothing is compared
  const char* holder = "";       // "a TensorCore"
  const char* limit = nullptr;   // a compiler parameter by which a kernel allows itself less
  const char* advice = "";       // where a kernel needs more
  const char* scoped = nullptr;  // the figure of what a kernel gets that does not say its limit
  const char* fewer = "";        // the same where it holds several copies of a window
  const char* known_as = "";     // how compilers begin to say so; tuners of libraries look for their words
};

// One kind of memory.
struct SpaceInfo {
  ir::Scope owner = ir::Scope::Device;  // whose memory it is; Thread: of a core's program
  BlockAccess blocks = BlockAccess::Window;
  Layout layout = Layout::Rows;
  const char* name = "";  // as users know it: "VMEM"; empty where kernels allocate none of it
  int64_t granule = 1;    // bytes: an allocation takes a multiple of it
  int64_t column = 0;     // bytes of the columns in which it is allocated; 0: it has none
  Capacity capacity = {};
};

#define X(e, t) +1
inline constexpr size_t kSpaces = 0 PALLASIM_SPACES(X);
#undef X

class SpaceTable {
 public:
  // All spaces are `others` but for those that are listed.
  SpaceTable(const SpaceInfo& others, std::initializer_list<std::pair<ir::Space, SpaceInfo>> rows) {
    rows_.fill(others);
    for (const auto& [space, info] : rows) rows_[static_cast<size_t>(space)] = info;
  }
  const SpaceInfo& operator[](ir::Space s) const { return rows_[static_cast<size_t>(s)]; }
  SpaceInfo& operator[](ir::Space s) { return rows_[static_cast<size_t>(s)]; }
  // Whether some space has it.
  bool has(BlockAccess) const;
  bool has(Layout) const;

 private:
  std::array<SpaceInfo, kSpaces> rows_;
};

// Where operands lie that no space was given to.
struct DefaultSpaces {
  ir::Space unnamed = ir::Space::Any;    // blocks, scratch and refs of the default space
  ir::Space any = ir::Space::Any;        // where the compiler may choose
  ir::Space constants = ir::Space::Any;  // arrays that the kernel closed over
  ir::Space scalars = ir::Space::Any;    // scalars that it closed over
};

struct MachineModel {
  Family family = Family::Generic;  // of the chips that are such machines
  Arithmetic arithmetic = {};
  MatrixRule matrix = MatrixRule::Plain;
  Programs programs = Programs::InOrder;
  bool cores_share_grid = false;  // the cores of a device share a grid along its first axis that is declared parallel
  // Kernels may change their inputs: those in a core's own memory are copies, others the caller's arrays.
  bool input_copies = false;
  const char* scratch_advice = "";  // what to do instead of changing the caller's arrays
  bool core_arrays = false;         // arrays and semaphores outside kernels in that memory are one per core of a mesh
  // A grid's pipeline: fetches blocks while the step before runs, and writes them back while the next does.
  bool grid_pipeline = true;
  bool bounded_slices = true;  // it takes blocks whose size is known at run time only
  int64_t window_copies = 2;   // blocks of a window that it holds at a time where nothing says otherwise …
  const char* window_copies_parameter = nullptr;  // … as this compiler parameter does; null: none
  bool atomic_addupdate = false;  // adding in place counts every occurrence of an index, whoever else adds
  SpaceTable spaces;
  DefaultSpaces defaults = {};
  ir::Space arrays = ir::Space::Hbm;     // where the arrays of a call lie
  ir::Space products = ir::Space::Regs;  // where loaded operands of a product of matrices are held while it is formed
  OutsideAccess outside = {};
  NegativeIndex negative_indices = NegativeIndex::Outside;  // of array indices
  ir::Severity left_in_semaphores = ir::Severity::Error;    // of counts that nobody waited for when a kernel ends
  PrintStyle prints = PrintStyle::Values;
  Checks checks = {};

  bool in_order() const { return programs == Programs::InOrder; }
};

// What runs a body. Default: the kind of core that the machine has where no mesh names one.
enum class CoreKind : uint8_t { Default, TensorCore, ScalarSubcore, VectorSubcore, Sm };
// Of a mesh's kind ("tensorcore", "scalar_subcore", "vector_subcore", "gpu", "warp"); Default for any other.
CoreKind core_kind(std::string_view mesh_kind);

const MachineModel& model(ir::Machine, CoreKind = CoreKind::Default);
// Of the cores that run the body: its mesh's, or the machine's own.
const MachineModel& model(const ir::Module&, const ir::Body&);
// Of the module's first body; of its machine where it has none.
const MachineModel& model(const ir::Module&);

}  // namespace pallasim::hw
