// Where allocations of a thread lie: plan-time offsets, given out again when their last user is gone.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace pallasim::memory {

class TempAllocator;

// Bytes of the temporary area, returned when the last value that sees them is gone.
struct Storage {
  TempAllocator* owner = nullptr;
  int64_t offset = 0, bytes = 0;
  Storage(TempAllocator* o, int64_t off, int64_t n) : owner(o), offset(off), bytes(n) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
};

// First-fit allocator of offsets; 64-byte granules. It outlives its storages.
class TempAllocator {
 public:
  std::shared_ptr<Storage> allocate(int64_t bytes);
  void release(int64_t offset, int64_t bytes);
  int64_t high_water() const { return high_water_; }

 private:
  struct Range {
    int64_t offset, bytes;
  };
  std::vector<Range> free_;
  int64_t high_water_ = 0;
};

}  // namespace pallasim::memory
