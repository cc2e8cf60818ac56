// Values while a plan is compiled.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../plan/payload.h"
#include "pallasim/ir/view.h"
#include "pallasim/memory/layout.h"

namespace pallasim::interp {

using memory::Storage, memory::TempAllocator;

struct Node;
struct Choice;
struct RefThrough;
struct TiledMemory;

inline constexpr int kNoOrigin = -1;  // immutable bytes

struct Val {
  enum class Kind : uint8_t { None, Scalar, Strided, Splat, Pending, Ref };
  Kind kind = Kind::None;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;

  uint32_t slot = 0;      // Scalar, Splat: the scalar's slot (compute-type form)
  bool is_const = false;  // Scalar, Splat: known at plan time
  uint64_t bits = 0;      // its compute-type bytes

  Addr addr;                     // Strided, Ref
  std::vector<int64_t> strides;  // elements
  std::shared_ptr<Storage> storage;
  int origin = kNoOrigin;  // the mutable memory that a lazy view or a ref shows (analysis/writes.h)

  std::shared_ptr<Node> node;  // Pending

  // Ref
  std::shared_ptr<const RefThrough> through;
  std::string name;
  bool read_only = false;
  int semaphore = -1;              // index into Plan::semaphores
  int edge = -1;                   // index into Plan::windows: the block may reach beyond its array, see Window::edge
  std::vector<uint32_t> extents;   // run-time extents (i64 slots, kNoSlot: dims has it); empty where all are static
  std::vector<int64_t> padding;    // elements behind each dim that its tiles have on the machine; empty: none
  std::vector<uint32_t> valid;     // how many elements of a dim are no padding (i64 slots, kNoSlot: all); empty: all
  std::vector<uint32_t> gates;     // i64 slots: 0 where a scalar index names padding, and nothing of the view exists
  std::shared_ptr<Choice> choice;  // one of several refs
  std::shared_ptr<const TiledMemory> tiled;

  bool is_scalar() const { return kind == Kind::Scalar; }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  int64_t bytes() const { return elements() * ir::byte_size(dtype); }
};

// What select_ref gives: which of the refs it is shows at run time.
struct Choice {
  uint32_t slot = 0;  // i32
  std::vector<Val> refs;
};

// A ref whose elements are no strided view of memory: other element widths, or another shape of memory with gaps. Its
// address and strides are those of a dense copy, made for each access and written back after a write.
struct RefThrough {
  Val base;         // Ref
  ir::DType dtype;  // of the copy
  std::vector<int64_t> dims;
};

// Memory whose type has the shape of its tiles on the machine. Its bytes lie in the logical shape, which every view
// begins with: tiles and swizzles have no meaning for values.
struct TiledMemory {
  std::vector<ir::View> transforms;  // from the type's shape to the logical one
  std::vector<int64_t> dims;         // the logical shape
};

bool is_dense(const Val&);
bool same_place(const Val&, const Val&);

// A tensor operation that has not been emitted: an elementwise operation, inlined into its single consumer, or a
// contraction or reduction that may write straight into a store's destination.
struct Node {
  enum class Kind : uint8_t { Elementwise, Convert, Bitcast, Contraction } kind = Kind::Elementwise;
  ir::OpCode op = ir::OpCode::add;
  ir::DType operand_dtype = ir::DType::F32;  // elementwise: of the first value operand
  ir::DType dtype = ir::DType::F32;          // of the result
  std::vector<Val> args;
  StripParams params;
  MatrixUnit unit;
  Contraction contraction;  // args hold the two operands, strides already normalised
  ir::LocId loc = -1;
  int size = 1;  // operations inlined below, itself included
};

}  // namespace pallasim::interp
