#include "pallasim/memory/async.h"

namespace pallasim::memory {

AsyncCopy CopyQueue::take(size_t i) {
  AsyncCopy c = copies_[i];
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
  return c;
}

size_t CopyQueue::first_signalling(int64_t semaphore) const {
  size_t i = 0;
  while (i < copies_.size() && copies_[i].dst_sem != semaphore && copies_[i].src_sem != semaphore) ++i;
  return i;
}

size_t CopyQueue::first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const {
  auto uses = [&](const AsyncCopy& c, bool dst) {
    const Place& p = dst ? c.dst : c.src;
    if (p.thread != thread || p.buffer != buffer) return false;
    const Span s = span_of(c, dst);
    return p.offset + s.begin < end && begin < p.offset + s.end;
  };
  size_t i = 0;
  while (i < copies_.size() && !uses(copies_[i], false) && !uses(copies_[i], true)) ++i;
  return i;
}

Span span_of(const AsyncCopy& c, bool dst) {
  const int64_t *strides = dst ? c.dst_strides : c.src_strides, *dims = dst ? c.dst_dims() : c.dims;
  const int64_t size = ir::byte_size(c.dtype);
  Span s{0, size};
  for (int d = 0; d < c.rank; ++d) {
    if (dims[d] == 0) return {0, 0};
    const int64_t reach = (dims[d] - 1) * strides[d] * size;
    (reach < 0 ? s.begin : s.end) += reach;
  }
  return s;
}

}  // namespace pallasim::memory
