#include "pallasim/memory/shadow/written.h"

#include <algorithm>

namespace pallasim::memory::shadow {
namespace {

Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

}  // namespace

void Written::remember(const Box& box) {
  constexpr size_t kMost = 4096;
  if (!worth_remembering(box)) return;
  if (full_.size() >= kMost) full_.clear();
  full_.insert(box);
}

void Written::write(const Box& box) {
  if (box.empty() || known_full(box)) return;
  box.for_rows([&](Range r) { bytes_.add(r.begin, r.end); });
  remember(box);
}

void Written::clear(int64_t begin, int64_t end) { clear(Box(begin, end)); }

void Written::clear(const Box& box) {
  if (box.empty()) return;
  box.for_rows([&](Range r) { bytes_.remove(r.begin, r.end); });
  std::erase_if(full_, [&](const Box& b) { return overlap(b, box); });
}

bool Written::any(const Box& box, Range within) const {
  if (known_full(box)) return true;
  bool any = false;
  box.for_rows([&](Range row) {
    const Range r = common(row, within);
    any = any || (r.begin < r.end && bytes_.any(r.begin, r.end));
  });
  return any;
}

Written::Missing Written::missing(const Box& box, int64_t size, Range within) {
  Missing m;
  if (box.empty() || known_full(box)) return m;
  bool gap = false;
  box.for_rows([&](Range row) {
    const Range r = common(row, within);
    gap = gap || r.begin != row.begin || r.end != row.end;
    if (r.begin >= r.end) return;
    bytes_.for_gaps(r.begin, r.end, [&](int64_t begin, int64_t end) {
      gap = true;
      const int64_t first = (begin - row.begin + size - 1) / size, last = (end - row.begin + size - 1) / size;
      if (first == last) return;
      if (m.first < 0) m.first = row.begin + first * size;
      m.elements += last - first;
    });
  });
  if (!gap) remember(box);
  return m;
}

}  // namespace pallasim::memory::shadow
