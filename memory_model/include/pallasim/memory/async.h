// Asynchronous copies. A copy is issued, reads its source and writes its destination; what it signals tells others.
// Copies in flight are plain data (buffers and offsets, no pointers), so they are part of a snapshot.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "pallasim/ir/dtype.h"
#include "pallasim/memory/window.h"

namespace pallasim::memory {

// When the bytes of a copy move.
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
};

struct AsyncCopy {
  int64_t id = 0;      // in order of issue
  int32_t step = -1;   // plan step that issued it
  int32_t thread = 0;  // and the thread
  Place src, dst;
  ir::DType dtype = ir::DType::F32;
  int rank = 0;
  int64_t dims[kMaxRank], src_strides[kMaxRank], dst_strides[kMaxRank];  // elements
  int64_t src_sem = -1;  // receives `src_count` when the source was read; -1: none
  int64_t dst_sem = -1;  // receives `dst_count` when the destination was written
  int64_t src_count = 0, dst_count = 0;  // bytes on the machine; 1 where the semaphore does not count bytes
  bool add = false;      // adds to the destination
  // The source ends before the destination does: there arrives what nobody wrote. `whole`: elements of the destination.
  bool fills = false;
  int64_t whole[kMaxRank] = {};

  const int64_t* dst_dims() const { return fills ? whole : dims; }
};

// Copies whose bytes have not moved yet, oldest first.
class CopyQueue {
 public:
  bool empty() const { return copies_.empty(); }
  size_t size() const { return copies_.size(); }
  const AsyncCopy& operator[](size_t i) const { return copies_[i]; }
  void push(AsyncCopy c) { copies_.push_back(c); }
  AsyncCopy take(size_t i);
  void clear() { copies_.clear(); }
  // The oldest copy that will signal the semaphore, or that uses a part of the thread's buffer; size() if there is none.
  size_t first_signalling(int64_t semaphore) const;
  size_t first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const;

 private:
  std::deque<AsyncCopy> copies_;
};

// Bytes from the first to behind the last byte that one side of a copy touches, relative to its place.
struct Span {
  int64_t begin, end;
};
Span span_of(const AsyncCopy&, bool dst);

}  // namespace pallasim::memory
