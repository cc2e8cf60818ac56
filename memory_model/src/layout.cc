#include "pallasim/memory/layout.h"

#include <algorithm>

namespace pallasim::memory {

Storage::~Storage() {
  if (owner) owner->release(offset, bytes);
}

std::shared_ptr<Storage> TempAllocator::allocate(int64_t bytes) {
  bytes = std::max<int64_t>(64, (bytes + 63) / 64 * 64);
  for (size_t i = 0; i < free_.size(); ++i) {
    if (free_[i].bytes < bytes) continue;
    const int64_t offset = free_[i].offset;
    free_[i].offset += bytes;
    free_[i].bytes -= bytes;
    if (free_[i].bytes == 0) free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    return std::make_shared<Storage>(this, offset, bytes);
  }
  int64_t offset = high_water_;
  if (!free_.empty() && free_.back().offset + free_.back().bytes == high_water_) {
    offset = free_.back().offset;
    free_.pop_back();
  }
  high_water_ = offset + bytes;
  return std::make_shared<Storage>(this, offset, bytes);
}

void TempAllocator::release(int64_t offset, int64_t bytes) {
  auto it =
      std::lower_bound(free_.begin(), free_.end(), offset, [](const Range& r, int64_t o) { return r.offset < o; });
  it = free_.insert(it, {offset, bytes});
  if (auto next = it + 1; next != free_.end() && it->offset + it->bytes == next->offset) {
    it->bytes += next->bytes;
    free_.erase(next);
  }
  if (it != free_.begin() && (it - 1)->offset + (it - 1)->bytes == it->offset) {
    (it - 1)->bytes += it->bytes;
    free_.erase(it);
  }
}

}  // namespace pallasim::memory
