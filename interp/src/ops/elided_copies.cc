#include "elided_copies.h"

#include <algorithm>
#include <cstring>

namespace pallasim::interp {

bool ElidedCopies::arrive(int64_t begin, int64_t end, std::optional<Source> from) {
  if (begin >= end) return true;
  for (Piece& p : pieces_) {
    if (!from && !p.from && p.begin <= begin && p.end >= end) return true;
    if (p.begin == begin && p.end == end) {
      p.from = from;
      return true;
    }
  }
  next_.clear();
  const auto add = [&](Piece p) {
    if (p.begin >= p.end) return;
    if (!next_.empty() && next_.back().end == p.begin && !next_.back().from && !p.from) next_.back().end = p.end;
    else next_.push_back(p);
  };
  bool placed = false;
  for (const Piece& p : pieces_) {
    add({p.begin, std::min(p.end, begin), p.from});
    if (p.end > begin && !placed) add({begin, end, from}), placed = true;
    const int64_t behind = std::max(p.begin, end);
    if (behind < p.end) add({behind, p.end, p.from ? std::optional(p.from->behind(behind - p.begin)) : std::nullopt});
  }
  if (!placed) add({begin, end, from});
  if (next_.size() > kMostPieces) return false;
  pieces_.swap(next_);
  return true;
}

ElidedCopies::Found ElidedCopies::find(int64_t begin, int64_t end) const {
  for (const Piece& p : pieces_)
    if (begin >= p.begin && end <= p.end)
      return {true, p.from ? std::optional(p.from->behind(begin - p.begin)) : std::nullopt};
  return {};
}

void ElidedCopies::materialise(std::byte* own, int64_t bytes,
                               const std::function<const std::byte*(const Source&)>& bytes_of,
                               const std::function<void(int64_t, int64_t)>& unwritten) {
  int64_t at = 0;
  for (const Piece& p : pieces_) {
    if (p.begin > at) unwritten(at, p.begin);
    if (p.from) std::memcpy(own + p.begin, bytes_of(*p.from), static_cast<size_t>(p.end - p.begin)), gathers_ = true;
    at = p.end;
  }
  if (at < bytes) unwritten(at, bytes);
  pieces_.assign(1, {0, bytes, {}});
}

}  // namespace pallasim::interp
