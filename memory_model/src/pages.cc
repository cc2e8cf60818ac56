#include "pallasim/memory/pages.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace pallasim::memory {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

// Makes pages one after the other. Those of memory that is alike, as where nobody wrote, are one.
class PageMaker {
 public:
  std::shared_ptr<const std::byte[]> page(const std::byte* at, size_t bytes) {
    if (last_ && bytes == bytes_ && std::memcmp(last_.get(), at, bytes) == 0) return last_;
    auto r = std::make_shared_for_overwrite<std::byte[]>(bytes);
    std::memcpy(r.get(), at, bytes);
    last_ = std::move(r);
    bytes_ = bytes;
    return last_;
  }

 private:
  std::shared_ptr<const std::byte[]> last_;
  size_t bytes_ = 0;
};

size_t chunks_of(int64_t bytes) {
  constexpr int64_t kBytes = Pages::kPage * Pages::kChunk;
  return static_cast<size_t>((bytes + kBytes - 1) / kBytes);
}

}  // namespace

PageMarks::PageMarks(int64_t bytes) : bytes_(bytes), words_(chunks_of(bytes)) {}

void PageMarks::mark(int64_t begin, int64_t end) {
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, bytes_);
  if (begin >= end) return;
  const int64_t first = begin / Pages::kPage, last = (end - 1) / Pages::kPage;
  const auto from = static_cast<size_t>(first / Pages::kChunk), to = static_cast<size_t>(last / Pages::kChunk);
  const uint64_t above = kAll << first % Pages::kChunk, below = kAll >> (Pages::kChunk - 1 - last % Pages::kChunk);
  if (from == to) {
    words_[from] |= above & below;
    return;
  }
  words_[from] |= above;
  std::fill(words_.begin() + static_cast<std::ptrdiff_t>(from) + 1, words_.begin() + static_cast<std::ptrdiff_t>(to),
            kAll);
  words_[to] |= below;
}

void PageMarks::clear() { std::fill(words_.begin(), words_.end(), 0); }

template <class F>
bool Pages::for_pages(size_t chunk, uint64_t which, const F& f) const {
  const int64_t first = static_cast<int64_t>(chunk) * kChunk, count = std::min(kChunk, pages() - first);
  for (which &= kAll >> (kChunk - count); which != 0; which &= which - 1) {
    const int i = std::countr_zero(which);
    const int64_t at = (first + i) * kPage;
    if (!f(static_cast<size_t>(i), static_cast<size_t>(at), static_cast<size_t>(std::min(kPage, size_ - at))))
      return false;
  }
  return true;
}

Pages::Pages(std::span<const std::byte> bytes) : size_(static_cast<int64_t>(bytes.size())) {
  PageMaker make;
  chunks_.reserve(chunks_of(size_));
  for (size_t c = 0; c < chunks_of(size_); ++c) {
    Chunk chunk;
    for_pages(c, kAll, [&](size_t, size_t at, size_t n) {
      chunk.push_back(make.page(bytes.data() + at, n));
      return true;
    });
    chunks_.push_back(std::make_shared<const Chunk>(std::move(chunk)));
  }
}

Pages Pages::updated(std::span<const std::byte> now, const PageMarks* marks) const {
  if (static_cast<int64_t>(now.size()) != size_) return Pages(now);
  Pages r = *this;
  PageMaker make;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    std::shared_ptr<Chunk> changed;
    for_pages(c, marks ? marks->chunk(c) : kAll, [&](size_t i, size_t at, size_t n) {
      if (std::memcmp((*chunks_[c])[i].get(), now.data() + at, n) == 0) return true;
      if (!changed) changed = std::make_shared<Chunk>(*chunks_[c]);
      (*changed)[i] = make.page(now.data() + at, n);
      return true;
    });
    if (changed) r.chunks_[c] = std::move(changed);
  }
  return r;
}

int64_t Pages::apart(const Pages& o) const {
  int64_t bytes = 0;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    if (c < o.chunks_.size() && chunks_[c] == o.chunks_[c]) continue;
    const Chunk* other = c < o.chunks_.size() ? o.chunks_[c].get() : nullptr;
    for (size_t i = 0; i < chunks_[c]->size(); ++i)
      if (!other || i >= other->size() || (*other)[i] != (*chunks_[c])[i]) bytes += kPage;
  }
  return bytes;
}

void Pages::load(std::span<std::byte> to, const Pages* there, const PageMarks* marks) const {
  const bool known = there && there->size_ == size_;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const uint64_t marked = marks ? marks->chunk(c) : 0;
    if (known && chunks_[c] == there->chunks_[c] && marked == 0) continue;
    for_pages(c, kAll, [&](size_t i, size_t at, size_t n) {
      const bool alike = known && (*chunks_[c])[i] == (*there->chunks_[c])[i] && (marked >> i & 1) == 0;
      if (!alike) std::memcpy(to.data() + at, (*chunks_[c])[i].get(), n);
      return true;
    });
  }
}

bool Pages::operator==(const Pages& o) const {
  if (size_ != o.size_) return false;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c] == o.chunks_[c]) continue;
    const Chunk &a = *chunks_[c], &b = *o.chunks_[c];
    if (!for_pages(c, kAll, [&](size_t i, size_t, size_t n) {
          return a[i] == b[i] || std::memcmp(a[i].get(), b[i].get(), n) == 0;
        }))
      return false;
  }
  return true;
}

bool Pages::equals(std::span<const std::byte> bytes) const {
  if (static_cast<int64_t>(bytes.size()) != size_) return false;
  for (size_t c = 0; c < chunks_.size(); ++c)
    if (!for_pages(c, kAll, [&](size_t i, size_t at, size_t n) {
          return std::memcmp((*chunks_[c])[i].get(), bytes.data() + at, n) == 0;
        }))
      return false;
  return true;
}

}  // namespace pallasim::memory
