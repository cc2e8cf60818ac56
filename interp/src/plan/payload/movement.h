// Elements that move: copies, fills, accesses by index and mask, refs seen through other widths.
#pragma once
#include <string>
#include <vector>

#include "../step.h"
#include "arithmetic.h"
#include "pallasim/memory/uninitialized.h"
#include "places.h"

namespace pallasim::interp {

struct CopyPayload {
  Addr dst, src;
  std::vector<int64_t> dims, dst_strides, src_strides;
  int size;
  bool contiguous;
  int64_t bytes;
  bool looks = false;  // for a step that looks at values: no access of the kernel's
};
struct FillPayload {
  Addr dst;
  std::vector<int64_t> dims, strides;
  int size;
  memory::Element element;
  std::string name;  // of the ref that is made fresh, else empty
};
struct GatherDim {  // how one dimension of the ref is addressed
  enum class Kind : uint8_t { Range, Array, Affine } kind = Kind::Range;
  int64_t start = 0, step = 1;
  uint32_t start_slot = Addr::kNoSlot;
  bool wide = false;
  int result_dim = -1;  // Range: dimension of the result it runs over; -1: a scalar index
  Addr array;           // Array: integer values
  ir::DType array_dtype = ir::DType::I32;
  bool known = false;  // Affine: `start` is the base, too
  // Per result dim: elements of the array; Affine, of i32 or u32: what its values grow by from `start_slot`.
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
  ReadsOutside reads_outside = {};
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
  uint32_t alias = 0;            // the buffer that they are found in: i64 slot `dst` has where, from `own`
};
// A store whose value is computed where it goes to, row by row.
struct StoredRows {
  GatherPayload access;  // Mode::Store; `value` is for rows that do not lie side by side
  EltProgram program;    // of the same dims, into `access.value`
};
// Moves the elements of a view between a dense copy and memory, and touches no other bytes of either. Level 0 is the
// view of the copy; every level shows the dense array of `rows` x `inner` elements behind it in other widths or another
// shape; the last one is memory.
struct ReinterpretPayload {
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

}  // namespace pallasim::interp
