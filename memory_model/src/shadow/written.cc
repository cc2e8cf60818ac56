#include "pallasim/memory/shadow/written.h"

namespace pallasim::memory::shadow {

void Written::remember(const Box& box) {
  constexpr size_t kMost = 4096;
  if (full_.size() >= kMost) full_.clear();
  full_.insert(box);
}

void Written::write(const Box& box) {
  if (box.empty() || full_.count(box)) return;
  for (const Range& r : box.rows()) bytes_.add(r.begin, r.end);
  remember(box);
}

void Written::clear(int64_t begin, int64_t end) { clear(Box(begin, end)); }

void Written::clear(const Box& box) {
  if (box.empty()) return;
  for (const Range& r : box.rows()) bytes_.remove(r.begin, r.end);
  std::erase_if(full_, [&](const Box& b) { return overlap(b, box); });
}

bool Written::any(const Box& box) const {
  if (full_.count(box)) return true;
  for (const Range& r : box.rows())
    if (bytes_.any(r.begin, r.end)) return true;
  return false;
}

Written::Missing Written::missing(const Box& box, int64_t size) {
  Missing m;
  if (box.empty() || full_.count(box)) return m;
  bool gap = false;
  for (const Range& r : box.rows())
    bytes_.for_gaps(r.begin, r.end, [&](int64_t begin, int64_t end) {
      gap = true;
      const int64_t first = (begin - r.begin + size - 1) / size, last = (end - r.begin + size - 1) / size;
      if (first == last) return;
      if (m.first < 0) m.first = r.begin + first * size;
      m.elements += last - first;
    });
  if (!gap) remember(box);
  return m;
}

}  // namespace pallasim::memory::shadow
