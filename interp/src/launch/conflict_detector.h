// Parts of a run that are on several OS threads at once and believed to use memory apart from each other: whether they
// do. No byte that one of them writes may be used by another one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

class ConflictDetector {
 public:
  static constexpr int kMostParts = 1 << 14;
  static constexpr int64_t kGrain = 64;   // bytes; who shares so many counts as meeting
  static constexpr int64_t kPage = 4096;  // bytes; who uses so many at once, too

  // Memory that parts share; before the first of them begins.
  void watch(std::byte* base, int64_t bytes);
  // Memory that parts only write, of elements of `element_bytes` (1 to 16): where nobody writes it holds `unwritten`
  // once fill_rest was called. A grain of which a part writes some bytes gets it before they come.
  void watch_unwritten(std::byte* base, int64_t bytes, memory::Element unwritten, int element_bytes);
  void fill_rest();  // after the last of them
  // Part `part` is about to use bytes [begin, end). False: they were used by another part, and one of the two writes.
  // May be asked by several OS threads at once; memory that is not watched is everybody's own.
  bool use(int part, const std::byte* begin, const std::byte* end, bool write);
  // The same of a strided region at `at`; `dims` and `strides` in elements.
  bool use(int part, const std::byte* at, const int64_t* dims, const int64_t* strides, int rank, int element_bytes,
           bool write);

 private:
  struct Watched {
    std::byte* base;
    int64_t bytes;
    std::vector<uint16_t> pages, grains;  // who uses them; the grains of pages that are not used as a whole
    memory::Element unwritten{};          // of memory that parts only write: what it holds where nobody does
    int element_bytes = 0;                // 0: parts read it, too
    bool only_written() const { return element_bytes > 0; }
    void fill(int64_t begin, int64_t end) const;
  };
  bool use_page(Watched&, int64_t page, int part, int64_t from, int64_t to, bool write);
  std::vector<Watched> watched_;
};

}  // namespace pallasim::interp
