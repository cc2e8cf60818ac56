// Asynchronous operations: issued, they read, write and complete later than the step that issued them; what they
// complete tells others. What is in flight is plain data (buffers and offsets, no pointers), so it is part of a
// snapshot.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pallasim/ir/dtype.h"
#include "pallasim/memory/few.h"
#include "pallasim/memory/window.h"

namespace pallasim::memory {

// When the bytes of an operation move.
enum class CopyCompletion : uint8_t {
  AtIssue,    // at once
  AtWait,     // when somebody waits for them, or the kernel ends
  Scheduled,  // at a moment that the scheduler chooses
};

enum class AsyncKind : uint8_t {
#define ASYNC(kind, ...) kind,
#include "pallasim/memory/async.def"
};

// Whose stream takes operations. A thread has one of each, those of tensor memory where its kernel uses that.
enum class AsyncEngine : uint8_t { None, Bulk, Products, Tensor, TensorLoads, TensorStores };
inline constexpr bool is_tensor(AsyncEngine e) { return e >= AsyncEngine::Tensor; }

// An element of a buffer, as one thread sees buffers, or of an array of a device, whatever threads it has.
struct Place {
  int32_t thread = 0;  // or ~device
  uint32_t buffer = 0;
  int64_t offset = 0;  // bytes
  bool operator==(const Place&) const = default;
};

// What tells others that an operation is complete, as far as its reads or its writes go.
struct Completion {
  enum class Kind : uint8_t {
    Nothing,
    Semaphore,  // `object` receives `count` units: bytes of the machine, or 1 where it does not count bytes
    Barrier,    // `object` receives `count` arrivals and `bytes` bytes
    Group       // the operation's group of stream `object`
  };
  Kind kind = Kind::Nothing;
  int64_t object = -1;
  int64_t count = 0, bytes = 0;
  bool operator==(const Completion&) const = default;
};

// What an operation comes behind without a wait, as async.def says; all but `unordered` move in their stream's order.
enum class StreamOrder : uint8_t { unordered, ordered, alone, fed, piped };

// A row of async.def.
struct AsyncRow {
  const char *name, *word;
  AsyncEngine engine;
  StreamOrder order;
  bool asynchronous_proxy;
  Completion::Kind after_read, after_write;
};
const AsyncRow& row(AsyncKind);
std::vector<AsyncKind> async_kinds();

// What becomes of the destination's values: replaced, or combined with those that come. Inc and Dec count unsigned
// numbers up or down between 0 and what comes: old >= v ? 0 : old + 1, and old == 0 || old > v ? v : old - 1.
// The Bulk ones are those of a GPU's copy unit for floats: a sum that is no number has all bits of its fraction and no
// sign, a number wins over what is none, and -0 lies below 0 (measured on an H100).
enum class Combine : uint8_t { Replace, Add, Min, Max, And, Or, Xor, Inc, Dec, BulkAdd, BulkMin, BulkMax };

// What arrives where the destination is larger than the source.
enum class Rest : uint8_t {
  None,       // it is not
  Unwritten,  // what nobody wrote
  Zeros,
};

// Bytes from the first to behind the last byte touched, relative to a place.
struct Span {
  int64_t begin, end;
};

// What an operation reads or writes: a strided shape at a place.
struct Side {
  Place place;
  ir::DType dtype = ir::DType::F32;
  int8_t row_dim = -1;  // what lies at index i of this dimension is row AsyncOperation::rows[i]; -1: no list
  int rank = 0;
  int64_t held = -1;                          // its bytes lie here in AsyncOperation::held, from its first one on
  int64_t dims[kMaxRank], strides[kMaxRank];  // elements; those of `rank` count

  Side() = default;
  Side(const Side& o) { *this = o; }
  Side& operator=(const Side&);
  bool operator==(const Side&) const;
  void set_dims(const int64_t* from) { std::copy(from, from + rank, dims); }
  int element_bytes() const { return ir::byte_size(dtype); }
  bool empty() const {
    return std::any_of(dims, dims + rank, [](int64_t n) { return n <= 0; });
  }
};

// One asynchronous operation of whatever kind. Its step says how a product is formed; all else is here.
struct AsyncOperation {
  AsyncKind kind = AsyncKind::dma;
  Combine combine = Combine::Replace;
  Rest rest = Rest::None;
  int32_t step = -1;                // plan step that issued it
  int32_t thread = 0;               // and the thread
  int64_t id = 0;                   // in order of issue
  int64_t number = 0;               // how many its thread had issued before it
  int64_t stream = -1, group = -1;  // in which it was issued; -1: none
  // Of a movement the dims of its reads move; a write has the same, or what `rest` fills. Several writes are receivers
  // of the same bytes. What a product adds to is its last read, and its write.
  Few<Side> reads, writes;
  Few<Completion> after_read, after_write;  // of several receivers each completes something of its own
  int64_t skipped = 0;                      // bytes: where the first element that moves lies in a filled destination
  // Nothing moves where one is negative.
  std::vector<int64_t> rows;
  // What lay in registers when it was issued: the program may go on to use them for something else.
  std::vector<std::byte> held;
  bool operator==(const AsyncOperation&) const = default;

  bool in_order() const { return row(kind).order != StreamOrder::unordered; }
  bool completes(Completion::Kind, int64_t object) const;
  // Bytes from the first to behind the last one touched, relative to the side's place.
  Span span(const Side&) const;
  // Of a side whose rows do not move as one: the dimension of `rows`, and where each row begins that moves, in bytes as
  // the side's place is. -1: its shape moves as a whole.
  struct Rows {
    int dim = -1;
    std::vector<int64_t> places;
  };
  Rows rows_of(const Side&) const;
  // The movements of its runs of neighbouring rows, one by one, and behind them one of nothing for the bytes of what
  // does not move; of at most so many runs, the last one of all that are left.
  std::vector<AsyncOperation> runs(size_t most) const;
  // Whether a side lies in a part of the thread's buffer.
  bool uses(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const;
};

// What a thread waits for.
struct Awaited {
  Completion::Kind kind = Completion::Kind::Semaphore;
  int64_t object = -1;             // semaphore, barrier or stream
  int64_t last_group = INT64_MAX;  // of a stream: groups up to this one
};

// Operations whose bytes have not moved yet, oldest first. Which of them moves next is a question of when they move:
// the next one on the way to what is awaited, or any that the scheduler may choose.
class AsyncQueue {
 public:
  bool empty() const { return order_.empty(); }
  size_t size() const { return order_.size(); }
  const AsyncOperation& operator[](size_t i) const { return slots_[order_[i].slot]; }
  void push(AsyncOperation op);
  AsyncOperation take(size_t i);
  void clear();
  // The next one on the way to what is awaited, its ordered stream's predecessors first; size() where nothing of it is
  // in flight.
  size_t next(const Awaited&) const;
  // Those that a schedule may choose from, all but those behind others of an ordered stream: how many, and the n-th.
  size_t choices() const;
  size_t choice(size_t n) const;
  // The oldest operation that uses a part of the thread's buffer, bytes [begin, end); size() if there is none.
  size_t first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const;
  // Where what comes before the operation begins: the oldest of its ordered stream, or itself.
  size_t head_of(size_t i) const;
  bool operator==(const AsyncQueue&) const;

 private:
  struct Entry {
    uint32_t slot;
    int64_t stream;  // the operation's, beside the others' so that looking for one reads little
  };
  std::vector<AsyncOperation> slots_;  // used again: nothing is allocated as operations come and go
  std::vector<Entry> order_;
  std::vector<uint32_t> free_;
  size_t in_order_ = 0;  // operations that are
};

}  // namespace pallasim::memory
