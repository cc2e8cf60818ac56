// Values while a plan is compiled.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../../plan/payload/arithmetic.h"
#include "pallasim/ir/view.h"
#include "pallasim/memory/layout.h"
#include "pallasim/memory/window.h"

namespace pallasim::interp {

using memory::dense_strides, memory::Storage, memory::TempAllocator;

struct Node;
struct Into;
struct Choice;
struct RefThrough;
struct TiledMemory;

inline constexpr int kNoOrigin = -1;  // immutable bytes

// A value: its type, and one of the forms that a value has while a plan is compiled. What belongs to another form than
// its own cannot be asked of it: the accessors of a form throw std::logic_error, an internal error of the compiler.
class Val {
 public:
  // One scalar, in a slot (compute-type form).
  struct Uniform {
    uint32_t slot = 0;
    bool is_const = false;  // known at plan time
    uint64_t bits = 0;      // its compute-type bytes then
  };
  struct Scalar : Uniform {};
  struct Splat : Uniform {};  // an array whose elements are the scalar
  // Elements that lie in memory.
  struct Memory {
    Addr addr;
    std::vector<int64_t> strides;  // elements
    std::shared_ptr<Storage> storage;
    int origin = kNoOrigin;  // the mutable memory that a lazy view or a ref shows (analysis/writes.h)
    std::string name;        // of the ref that shows it; empty where none does
  };
  struct Strided : Memory {};
  using Pending = std::shared_ptr<Node>;
  // A ref: memory, and what the kernel may do with it.
  struct Ref : Memory {
    std::shared_ptr<const RefThrough> through;
    bool read_only = false;
    int semaphore = -1;              // index into PlanMemory::semaphores
    int edge = -1;                   // index into Body::windows: the block may reach beyond its array (EdgeWindow)
    std::vector<uint32_t> extents;   // run-time extents (i64 slots, kNoSlot: dims has it); empty where all are static
    std::vector<int64_t> padding;    // elements behind each dim that its tiles have on the machine; empty: none
    std::vector<uint32_t> valid;     // how many elements of a dim are no padding (i64 slots, kNoSlot: all); empty: all
    std::vector<uint32_t> before;    // how many elements of a box lie before its array (i64 slots); as `valid`
    std::vector<uint32_t> gates;     // i64 slots: 0 where a scalar index names padding, and nothing of the view exists
    std::shared_ptr<Choice> choice;  // one of several refs
    std::shared_ptr<const TiledMemory> tiled;
  };
  using Form = std::variant<std::monostate, Scalar, Splat, Strided, Pending, Ref>;
  enum class Kind : uint8_t { None, Scalar, Splat, Strided, Pending, Ref };  // in the order of Form

  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;  // elements

  Val() = default;
  Val(ir::DType t, std::vector<int64_t> d, Form form) : dtype(t), dims(std::move(d)), form_(std::move(form)) {}

  Kind kind() const { return static_cast<Kind>(form_.index()); }
  bool is_scalar() const { return kind() == Kind::Scalar; }
  bool is_uniform() const { return is_scalar() || kind() == Kind::Splat; }
  bool is_strided() const { return kind() == Kind::Strided; }
  bool is_pending() const { return kind() == Kind::Pending; }
  bool is_ref() const { return kind() == Kind::Ref; }
  bool is_semaphore() const { return is_ref() && ref().semaphore >= 0; }
  bool is_choice() const { return is_ref() && ref().choice; }   // one of several refs
  bool is_recast() const { return is_ref() && ref().through; }  // seen through a copy
  bool shows_memory() const { return is_strided() || is_ref(); }

  const Uniform& scalar() const;  // of a scalar or a splat
  Uniform& scalar() { return const_cast<Uniform&>(std::as_const(*this).scalar()); }
  const Memory& memory() const;  // of a strided value or a ref
  Memory& memory() { return const_cast<Memory&>(std::as_const(*this).memory()); }
  const Ref& ref() const;
  Ref& ref() { return const_cast<Ref&>(std::as_const(*this).ref()); }
  const Pending& node() const;
  int origin() const { return shows_memory() ? memory().origin : kNoOrigin; }

  // The scalar of a scalar or a splat as all elements of another shape; a scalar where that has rank 0.
  Val spread(std::vector<int64_t> shape) const;
  Val as_strided() const;  // the elements that a ref shows, where they are

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  int64_t bytes() const { return elements() * ir::byte_size(dtype); }

 private:
  Form form_;
};

inline Val scalar_in(uint32_t slot, ir::DType dtype) { return {dtype, {}, Val::Scalar{{slot}}}; }

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

// A tensor operation that has not been emitted: an elementwise operation, inlined into its single consumer, or one that
// its single consumer gives the memory for (into.h).
struct Node {
  enum class Kind : uint8_t { Elementwise, Convert, Bitcast, Into } kind = Kind::Elementwise;
  ir::OpCode op = ir::OpCode::add;
  ir::DType operand_dtype = ir::DType::F32;  // elementwise: of the first value operand
  ir::DType dtype = ir::DType::F32;          // of the result
  std::vector<Val> args;
  StripParams params;
  std::shared_ptr<const Into> into;
  const ir::Op* source = nullptr;  // the operation
  int size = 1;                    // operations inlined below, itself included

  // Others read any of their arguments' elements for each of their own, and are no part of a pass over elements.
  bool elementwise() const { return kind != Kind::Into; }
};

}  // namespace pallasim::interp
