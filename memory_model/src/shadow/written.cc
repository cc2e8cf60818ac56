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

void Written::write(const Box& form, std::span<const int64_t> places) {
  constexpr int64_t kFew = 32;
  Box box = form;
  BytePages::Pages& pages = single_.pages();
  FoundPages<BytePages::Page> found;
  for (const int64_t place : places) {
    if (box.rank > 0 || box.run > kFew || !BytePages::fits(place, box.run)) {
      box.offset = place;
      write(box);
      continue;
    }
    const int64_t number = place / BytePages::kBytes, begin = number * BytePages::kBytes;
    BytePages::Page*& page = found[number];
    if (const auto it = page ? pages.end() : pages.find(number); it != pages.end()) page = &it->second;
    if (!page) {
      if (bytes_.run_at(place).second >= place + box.run) continue;
      page = &pages[number];
    }
    page->put(place - begin, place - begin + box.run, true);
    if (page->count < BytePages::kBytes) continue;
    bytes_.add(begin, begin + BytePages::kBytes);
    pages.erase(number);
    page = nullptr;
  }
}

void Written::clear(int64_t begin, int64_t end) { clear(Box(begin, end)); }

void Written::clear(const Box& box) {
  if (box.empty()) return;
  box.for_rows([&](Range r) {
    bytes_.remove(r.begin, r.end);
    if (!single_.empty()) single_.remove(r.begin, r.end);
  });
  std::erase_if(full_, [&](const Box& b) { return overlap(b, box); });
}

bool Written::any(const Box& box, Range within) const {
  if (known_full(box)) return true;
  bool any = false;
  box.for_rows([&](Range row) {
    const Range r = common(row, within);
    any = any || (r.begin < r.end && (bytes_.any(r.begin, r.end) || single_.any(r.begin, r.end)));
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
    const auto gaps = [&](int64_t begin, int64_t end) {
      gap = true;
      const int64_t first = (begin - row.begin + size - 1) / size, last = (end - row.begin + size - 1) / size;
      if (first == last) return;
      if (m.first < 0) m.first = row.begin + first * size;
      m.elements += last - first;
    };
    if (single_.empty()) bytes_.for_gaps(r.begin, r.end, gaps);
    else bytes_.for_gaps(r.begin, r.end, [&](int64_t begin, int64_t end) { single_.for_gaps(begin, end, gaps); });
  });
  if (!gap) remember(box);
  return m;
}

}  // namespace pallasim::memory::shadow
