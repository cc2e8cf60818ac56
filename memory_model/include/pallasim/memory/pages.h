// Bytes as a value of which many copies are kept: they share the pages in which they are alike.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pallasim::memory {

// Pages of some memory, by number: those that may have changed.
class PageMarks {
 public:
  explicit PageMarks(int64_t bytes = 0);
  // Those that bytes [begin, end) lie in; what lies outside of the memory is nobody's.
  void mark(int64_t begin, int64_t end);
  void clear();
  // A bit per page of a chunk.
  uint64_t chunk(size_t i) const { return words_[i]; }

 private:
  int64_t bytes_;
  std::vector<uint64_t> words_;
};

class Pages {
 public:
  static constexpr int64_t kPage = 4096;  // bytes
  static constexpr int64_t kChunk = 64;   // pages; what copies share are chunks, and pages of those that differ
  Pages() = default;
  explicit Pages(std::span<const std::byte>);
  int64_t size() const { return size_; }

  // `now` as a value that shares with this one what is alike. `marks`: where they may differ; null: anywhere.
  Pages updated(std::span<const std::byte> now, const PageMarks* marks = nullptr) const;
  // Into memory of the same size. It has the bytes of `there` but in pages with marks; null: it may have any.
  void load(std::span<std::byte> to, const Pages* there = nullptr, const PageMarks* marks = nullptr) const;
  // Asks bytes where pages are not shared.
  bool operator==(const Pages&) const;
  bool equals(std::span<const std::byte>) const;
  // Bytes of the pages that are not shared with the other one.
  int64_t apart(const Pages&) const;

 private:
  using Page = std::shared_ptr<const std::byte[]>;
  using Chunk = std::vector<Page>;
  int64_t pages() const { return (size_ + kPage - 1) / kPage; }
  // Calls f(chunk, page of it, its first byte, its bytes) for the pages of a chunk in `which`; false from it ends.
  template <class F>
  bool for_pages(size_t chunk, uint64_t which, const F& f) const;
  int64_t size_ = 0;
  std::vector<std::shared_ptr<const Chunk>> chunks_;
};

}  // namespace pallasim::memory
