// Asynchronous operations: issued, they read, write and complete later than the step that issued them; what they
// complete tells others. What is in flight is plain data (buffers and offsets, no pointers), so it is part of a
// snapshot.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "pallasim/ir/dtype.h"
#include "pallasim/memory/window.h"

namespace pallasim::memory {

// When the bytes of a copy, or of an operation, move.
enum class CopyCompletion : uint8_t {
  AtIssue,    // at once
  AtWait,     // when somebody waits for them, or the kernel ends
  Scheduled,  // at a moment that the scheduler chooses
};

// An element of a buffer, as one thread sees buffers.
struct Place {
  int32_t thread = 0;
  uint32_t buffer = 0;
  int64_t offset = 0;  // bytes
  bool operator==(const Place&) const = default;
};

// What tells others that an operation is complete, as far as its reads or its writes go.
struct Completion {
  enum class Kind : uint8_t {
    Nothing,
    Semaphore,  // `object` receives `count` units
    Barrier,    // `object` receives `count` arrivals and `bytes` bytes
    Group       // the operation's group of its stream
  };
  Kind kind = Kind::Nothing;
  int64_t object = -1;
  int64_t count = 0, bytes = 0;
  bool operator==(const Completion&) const = default;
};

// What becomes of the destination's values: replaced, or combined with those that come. Inc and Dec count unsigned
// numbers up or down between 0 and what comes: old >= v ? 0 : old + 1, and old == 0 || old > v ? v : old - 1.
// The Bulk ones are those of a GPU's copy unit for floats: a sum that is no number has all bits of its fraction and no
// sign, a number wins over what is none, and -0 lies below 0 (measured on an H100).
enum class Combine : uint8_t { Replace, Add, Min, Max, And, Or, Xor, Inc, Dec, BulkAdd, BulkMin, BulkMax };

// Bytes from the first to behind the last byte touched, relative to a place.
struct Span {
  int64_t begin, end;
};

// What an operation reads or writes: a strided shape at a place, or rows of it. `rows`: where given, element (i, …)
// lies where element (rows[i], …) of the shape would, and rows.size() is the first extent.
struct Side {
  Place place;
  std::vector<int64_t> dims, strides;  // elements
  std::vector<int64_t> rows;
  bool by_rows = false;  // also where there are none
  bool operator==(const Side&) const = default;

  int64_t elements() const;
  // Bytes from the first to behind the last one touched, relative to the place.
  Span span(int64_t element_bytes) const;
  // Calls f(offset in bytes from the place, dims, strides) for each strided part: the whole, or row by row.
  template <class F>
  void for_parts(int64_t element_bytes, F&& f) const {
    if (!by_rows) return f(int64_t{0}, dims, strides);
    std::vector<int64_t> one = dims;
    if (!one.empty()) one[0] = 1;
    for (int64_t row : rows) f(row * (strides.empty() ? 0 : strides[0]) * element_bytes, one, strides);
  }
};

// What a product reads, or its accumulator. What lay in registers is held from its issue on: the program may go on to
// use them for something else.
struct ProductSide {
  Side side;
  int element_bytes = 0;
  std::vector<std::byte> held;  // none: its bytes are read where they lie
  bool operator==(const ProductSide&) const = default;
};

struct AsyncCopy {
  // A product of matrices is added to an accumulator; its step says how.
  enum class Kind : uint8_t { Move, Product };
  Kind kind = Kind::Move;
  int64_t id = 0;      // in order of issue
  int32_t step = -1;   // plan step that issued it
  int32_t thread = 0;  // and the thread
  Place src, dst;
  ir::DType dtype = ir::DType::F32;
  int rank = 0;
  int64_t dims[kMaxRank], src_strides[kMaxRank], dst_strides[kMaxRank];  // elements
  Completion after_read, after_write;  // a semaphore receives bytes of the machine, or 1 where it does not count bytes
  int64_t stream = -1, group = -1;     // in which it was issued; -1: none
  Combine combine = Combine::Replace;
  // The source ends before the destination does: there arrives what nobody wrote. `whole`: then, elements of the
  // destination.
  bool fills = false;
  bool zeros = false;   // there arrives 0 instead
  int64_t skipped = 0;  // bytes: where the first element that moves lies in the filled destination
  int64_t whole[kMaxRank];
  // Where given, what lies at index i of dimension `row_dim` is row rows[i] of one side, i of the other; nothing moves
  // where it is negative.
  std::vector<int64_t> rows;
  int row_dim = 0;
  bool rows_of_dst = false;
  int32_t elidable = -1;           // Allocation::elidable of the destination
  bool from_constant = false;      // nobody writes the source while the launch runs
  bool forwarded = false;          // the bytes went to the destination when they were made
  std::vector<ProductSide> sides;  // of a product: the accumulator, left, right

  const int64_t* dst_dims() const { return fills ? whole : dims; }
};

// Copies whose bytes have not moved yet, oldest first.
class CopyQueue {
 public:
  bool empty() const { return copies_.empty(); }
  size_t size() const { return copies_.size(); }
  const AsyncCopy& operator[](size_t i) const { return copies_[i]; }
  void push(AsyncCopy c) { copies_.push_back(std::move(c)); }
  AsyncCopy take(size_t i);
  void clear() { copies_.clear(); }
  // The oldest copy that completes the object, in a stream a group up to `last_group`; or that uses a part of the
  // thread's buffer; size() if there is none.
  size_t first_completing(Completion::Kind, int64_t object, int64_t last_group = INT64_MAX) const;
  size_t first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const;
  // Of two moments of one run: a number stands for one copy, and copies do not change.
  bool operator==(const CopyQueue& o) const {
    return std::equal(copies_.begin(), copies_.end(), o.copies_.begin(), o.copies_.end(),
                      [](const AsyncCopy& a, const AsyncCopy& b) { return a.id == b.id && a.step == b.step; });
  }

 private:
  std::deque<AsyncCopy> copies_;
};

// Of one side of a copy.
Span span_of(const AsyncCopy&, bool dst);

// One asynchronous operation of whatever kind. Who issued it knows from `step` what moves; here is what others can tell
// by.
struct AsyncOperation {
  int64_t id = 0;                   // in order of issue
  int32_t step = -1;                // that issued it
  int32_t thread = 0;               // and the thread
  int32_t kind = 0;                 // the caller's
  int64_t stream = -1, group = -1;  // in which it was issued; -1: none
  bool in_order = false;            // comes behind its stream's earlier operations
  std::vector<Side> reads, writes;
  // Of several receivers each completes something of its own.
  std::vector<Completion> after_read, after_write;
  ir::DType dtype = ir::DType::F32;
  bool add = false;            // adds to what it writes
  bool fills = false;          // writes more than it reads: there arrives what nobody wrote
  std::vector<int64_t> whole;  // elements of what it writes, then
  bool operator==(const AsyncOperation&) const = default;

  bool completes(Completion::Kind, int64_t object) const;
};

// What a thread waits for.
struct Awaited {
  Completion::Kind kind = Completion::Kind::Semaphore;
  int64_t object = -1;             // semaphore, barrier or stream
  int64_t last_group = INT64_MAX;  // of a stream: groups up to this one
};

// Operations whose bytes have not moved yet, oldest first.
class AsyncQueue {
 public:
  bool empty() const { return operations_.empty(); }
  size_t size() const { return operations_.size(); }
  const AsyncOperation& operator[](size_t i) const { return operations_[i]; }
  void push(AsyncOperation op) { operations_.push_back(std::move(op)); }
  AsyncOperation take(size_t i);
  void clear() { operations_.clear(); }
  // Which of them may move now, in ascending order. AtIssue: the oldest, until none is left. AtWait: the next one on
  // the way to what is awaited, its ordered stream's predecessors first; nothing where nobody waits, or nothing of it
  // is in flight. Scheduled: all but those behind others of an ordered stream.
  std::vector<size_t> eligible(CopyCompletion policy, const Awaited* awaited = nullptr) const;
  // The oldest operation that uses a part of the thread's buffer, bytes [begin, end); size() if there is none.
  size_t first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const;
  // Where what comes before the operation begins: the oldest of its ordered stream, or itself.
  size_t head_of(size_t i) const;
  bool operator==(const AsyncQueue&) const = default;

 private:
  std::deque<AsyncOperation> operations_;
};

}  // namespace pallasim::memory
