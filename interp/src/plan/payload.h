// What steps are given: the payloads that the plan compiler makes and bodies of steps read.
#pragma once
#include <string>
#include <vector>

#include "pallasim/memory/uninitialized.h"
#include "plan.h"

namespace pallasim::interp {

using memory::dense_strides;

// How a matrix unit multiplies (Options::Numerics::Device); see run/matrix_unit.cc.
struct MatrixUnit {
  enum class Format : uint8_t { Operand, Bf16, Tf32, Tf32Cut, F16 };  // Tf32: to nearest; Tf32Cut: toward zero
  bool plain = true;                                                  // as everywhere else
  Format format = Format::Operand;                                    // what f32 operands are split into
  int parts = 1;                                                      // per operand
  int passes = 1;        // products of parts that are summed, the smallest first
  bool aligned = false;  // sums as hw::TensorSum::Aligned says
};

struct EltOperand {
  Addr addr;
  LoadFn load = nullptr;         // null: the memory form is the register form
  std::vector<int64_t> strides;  // elements, per loop dim
  int element_bytes = 4;
  uint16_t entry = 0;  // pointer table entry
  bool one = false;    // of each row one element, which is the same for all of its strips (StripParams::scalars)
};
struct EltSplat {
  uint32_t slot;
  CType ctype;
  uint16_t entry;
  bool one = false;  // used where it lies, as StripParams::scalars
};
struct EltOp {
  StripFn fn = nullptr;
  ConvertFn convert = nullptr;  // instead of fn
  uint16_t dst, a, b, c;        // pointer table entries
  StripParams params;
};
struct EltProgram {
  std::vector<int64_t> dims;  // loop dims, outermost first; the last is the strip dimension
  std::vector<EltOperand> operands;
  std::vector<EltSplat> splats;
  std::vector<EltOp> ops;
  Addr dst;
  std::vector<int64_t> dst_strides;  // elements
  int dst_bytes = 4;
  StoreFn store = nullptr;      // null: the last operation writes memory directly
  uint16_t result = 0;          // entry that holds the result
  int entries = 0;              // pointer table length
  int strips = 0;               // strip registers used
  bool complex = false;         // 16-byte registers: half strips
  bool writes_memory = false;   // dst is a ref's memory, not a temporary
  double ns = 0;                // rough cost
  std::vector<ir::LocId> locs;  // of all operations, for checked runs
};

struct IndexTerm {
  uint32_t slot;                       // index value
  bool wide;                           // i64, else i32
  int64_t stride;                      // bytes per unit
  int64_t last;                        // largest legal value
  int dim;                             // dimension of the ref, for reports
  int64_t extent;                      // of that dimension
  int64_t size;                        // elements taken
  uint32_t size_slot = Addr::kNoSlot;  // i64 slot where that is known at run time only
  int64_t padding = 0;                 // elements behind `extent` that a copy may name
  int64_t first = 0;                   // smallest legal value
  bool operator==(const IndexTerm&) const = default;
};
struct IndexPayload {
  std::vector<IndexTerm> terms;
  std::string ref;
  std::vector<int64_t> shape;
  bool write = false;
};
struct ValidPayload {    // how much of a slice exists
  int64_t extent;        // of the dim it is taken from, or
  uint32_t extent_slot;  // its i64 slot
  int64_t start;
  uint32_t start_slot;
  bool wide;
  int64_t size;
  uint32_t size_slot;
};
struct ScalarAccess {  // load or store of one element with at most one dynamic index
  Addr addr;
  IndexTerm term;
  bool has_term = false;
  std::string ref;
  std::vector<int64_t> shape;
  LoadFn load = nullptr;
  StoreFn store = nullptr;  // one of the two
  int bytes = 4;            // of the element
};
struct CopyPayload {
  Addr dst, src;
  std::vector<int64_t> dims, dst_strides, src_strides;
  int size;
  bool contiguous;
  int64_t bytes;
};
struct FillPayload {
  Addr dst;
  std::vector<int64_t> dims, strides;
  int size;
  memory::Element element;
  std::string name;  // of the ref that is made fresh, else empty
};
struct ReducePayload {
  Addr dst, src;
  int64_t outer, reduce, inner;
  ReduceFn fn = nullptr;
  ArgReduceFn arg = nullptr;
  CumulativeFn cumulative = nullptr;
  ir::DType index = ir::DType::I32;
  bool reverse = false;
  int element_bytes = 4;  // of the operand
  Semantics semantics;
};
struct ContractPayload {
  Addr dst, a, b;
  Contraction contraction;
  MatrixUnit unit;
  bool reference = false;  // one element at a time, in order of k
};
struct GatherDim {  // how one dimension of the ref is addressed
  enum class Kind : uint8_t { Range, Array, Progression } kind = Kind::Range;
  int64_t start = 0, step = 1;
  uint32_t start_slot = Addr::kNoSlot;
  bool wide = false;
  int result_dim = -1;  // Range: dimension of the result it runs over; -1: a scalar index
  Addr array;           // Array: integer values
  ir::DType array_dtype = ir::DType::I32;
  bool known = false;  // Progression: `start` is the base, too
  // Per result dim: elements of the array; Progression, of i32 or u32: what its values grow by from `start_slot`.
  std::vector<int64_t> array_strides;
  int64_t extent = 0, stride = 0;        // of the ref, elements
  uint32_t window_slot = Addr::kNoSlot;  // blocks that may reach beyond their array: where the block starts
  int64_t array_extent = 0;              // … and what the array has
  int64_t padding = 0;                   // elements behind `extent` that may be named; nothing is kept there
  bool wraps = false;                    // negative array indices count from the end, as NumPy's do (generic machine)
};
// What a mask asks of an element: its value, base + strides * position in an i32 or u32, compared with the bound.
struct GatherCondition {
  enum class Relation : uint8_t { Less, LessEqual, Greater, GreaterEqual };
  uint32_t base = 0, bound = 0;  // slots
  ir::DType dtype = ir::DType::I32;
  Relation relation = Relation::Less;
  std::vector<int64_t> strides;  // per result dim
};
// Atomic operations on elements, one behind the other.
struct AtomicRow {
  std::byte* first;
  const int64_t* offsets;  // elements from `first`; null: `step` from each to the next
  int64_t step, count;
  const std::byte *values, *compare;  // `count` and one
  std::byte* old;                     // `count`; null: nobody wants them

  std::byte* at(int64_t i, size_t size) const {
    return first + (offsets ? offsets[i] : i * step) * static_cast<int64_t>(size);
  }
};
using AtomicFn = bool (*)(const AtomicRow&);  // false where memory keeps its values
struct GatherPayload {
  enum class Mode : uint8_t { Load, Store, Swap, Atomic } mode = Mode::Load;
  std::vector<int64_t> dims;  // of the accessed array
  std::vector<GatherDim> ref_dims;
  Addr ref;
  Addr value;  // dense: destination of a load, source of a store
  Addr old;    // Swap, Atomic (where `has_old`)
  bool has_old = false;
  AtomicFn atomic = nullptr;
  Addr compare;                // Atomic: of a compare and swap
  bool spins = false;          // Atomic: in a loop; where nothing changes the thread lets others run
  int64_t array_elements = 0;  // > 0: out of bounds as a machine of pointers: what lies there, if it is the array's
  ir::DType dtype = ir::DType::F32;
  bool has_mask = false, has_other = false;
  std::vector<GatherCondition> conditions;  // not empty: the mask, which has no memory then
  Addr mask, other;
  std::vector<int64_t> mask_strides, other_strides;
  int size = 4;
  uint64_t fill[2] = {0, 0};
  std::string name;
  std::vector<int64_t> shape;
};
// A load whose elements stay where they are, if all are inside and the mask takes them.
struct LoadedInPlace {
  GatherPayload access;          // Mode::Load
  Addr own;                      // where they are otherwise, `strides` apart as they would be in the array
  std::vector<int64_t> strides;  // elements
  bool dense = true;             // `own` is the load's value
};
// A store whose value is computed where it goes to, row by row.
struct StoredRows {
  GatherPayload access;  // Mode::Store; `value` is for rows that do not lie side by side
  EltProgram program;    // of the same dims, into `access.value`
};
// Moves the elements of a view between a dense copy and memory, and touches no other bytes of either. Level 0 is the
// view of the copy; every level shows the dense array of `rows` x `inner` elements behind it in other widths or another
// shape; the last one is memory.
struct LensPayload {
  struct Level {
    Addr addr;                           // of the view: within the dense array, and at last in memory
    std::vector<int64_t> dims, strides;  // elements
    int bits = 32, bytes = 4;            // of an element: on the machine, here
    bool sign = false;                   // of less than 8 bits, a byte each here: extended by their sign
    int64_t rows = 1, inner = 1;         // the last two dims of the dense array
  };
  std::vector<Level> levels;
  Addr copy, before;  // the dense copy, and the same as it was read
  bool write = false;
  bool has_before = false;  // what did not change is not written
};
struct PrintPayload {
  std::string format;
  bool placeholders = true;
  bool literals = false;  // as a TPU's log has values: "f32[] 2", arrays as XLA writes literals
  // A Python format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
  struct Style {
    std::string fill = " ";
    char align = 0, sign = 0, grouping = 0, type = 0;  // 0: none
    bool alternate = false;
    int width = 0, precision = -1;
  };
  struct Arg {
    bool scalar;
    uint32_t slot;
    Addr addr;
    ir::DType dtype;
    std::vector<int64_t> dims;
    Style style;
  };
  std::vector<Arg> args;
};
// Whose memory and semaphore: i32 slots of a device of the launch and of a core of a mesh; none: the thread's own.
struct Peer {
  uint32_t device_slot = Addr::kNoSlot, core_slot = Addr::kNoSlot;
  int body = 0;  // index into Plan::bodies: whose mesh has the core
  bool elsewhere() const { return device_slot != Addr::kNoSlot || core_slot != Addr::kNoSlot; }
};
struct SemPayload {
  int block = -1;  // -1: none
  Addr index;      // offset and dyn count semaphores, not bytes
  Peer peer;
  uint32_t value_slot = Addr::kNoSlot;
  bool value_wide = false;
  int64_t value = 1;
  bool decrement = true;
  bool polls = false;  // a look in a loop that may wait for a change
};
// The extents of a transfer: bounds, and i64 slots where they are known at run time only.
struct Extents {
  std::vector<int64_t> dims;
  std::vector<uint32_t> slots;  // kNoSlot: dims has it; empty where all are static
};
struct CopySide {
  Addr addr;
  Extents extents;
  std::vector<uint32_t> valid;   // i64 slots of the elements that exist, kNoSlot or empty: all
  std::vector<uint32_t> gates;   // i64 slots: nothing exists where one is 0
  std::vector<int64_t> strides;  // elements
  std::string name;
  std::vector<uint32_t> before;  // i64 slots of the elements of a box that lie before its array; empty, kNoSlot: none
  int32_t landing = -1;          // memory::Allocation::landing
  bool constant = false;         // of an array that nobody writes while the launch runs
};
// Loads of memory whose bytes may lie elsewhere.
struct LandingPayload {
  int32_t landing;
  Addr addr;
  int64_t begin, end;  // what is loaded: bytes from `addr`
};
struct DmaPayload {
  CopySide src, dst;
  ir::DType dtype = ir::DType::F32;
  SemPayload src_sem, dst_sem;
  Peer peer;  // who receives
  bool add = false;
  bool departed = false;  // the bytes are there already
};
struct DepartPayload {
  CopySide dst;      // of a departed copy
  Peer peer;         // whose memory it is
  uint32_t way = 0;  // where it is another device's: i64 slot, the bytes from the own memory's begin to there
  ir::DType dtype = ir::DType::F32;
};
struct DmaWaitPayload {
  SemPayload sem;
  Extents extents;
  std::vector<int64_t> most;  // the largest size of each dim that is known at run time only
  std::string name;           // of the ref
  int bits = 32;              // of an element on the machine
};
struct ScopePayload {  // what a run_scoped allocated
  struct Range {
    int64_t offset, bytes;
  };
  std::vector<Range> memory;    // of the thread's temporaries
  std::vector<int> semaphores;  // blocks
};

}  // namespace pallasim::interp
