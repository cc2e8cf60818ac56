// Elements of a ref that is seen through copies (RefThrough), as pieces of what lies in memory.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>

#include "../plan/payload/movement.h"
#include "bodies.h"

namespace pallasim::interp::ops {

// Bits [from, from + bits) of an element lie at bit `first` of the byte at `at`: 0 but for a piece within a byte.
struct Piece {
  std::byte* at;
  int first, from, bits;
};

class Pieces {
 public:
  // `bases`: of the thread in whose memory the elements lie; slots are those of `t`.
  Pieces(const Thread& t, std::span<const ReinterpretPayload::Level> levels, std::byte* const* bases)
      : t_(t), levels_(levels), bases_(bases) {}

  // Byte offset, in the memory of a level, of element `n` of its view.
  int64_t offset(size_t level, int64_t n) const {
    const ReinterpretPayload::Level& v = levels_[level];
    int64_t element = 0;
    for (size_t d = v.dims.size(); d-- > 0;) {
      element += n % v.dims[d] * v.strides[d];
      n /= v.dims[d];
    }
    return start(level) + element * v.bytes;
  }
  // Byte offset of the first element of the view of a level.
  int64_t start(size_t level) const {
    const Addr& a = levels_[level].addr;
    return a.offset + (a.dyn == Addr::kNoSlot ? 0 : t_.slot<int64_t>(a.dyn));
  }

  // Calls f(piece) for what memory holds of bits [lo, lo + bits) of the element of a level at byte `at` of it: bits
  // `from` on of the value.
  template <typename F>
  void visit_at(size_t level, int64_t at, int lo, int bits, int from, const F& f) const {
    const ReinterpretPayload::Level& v = levels_[level];
    if (level + 1 == levels_.size()) return f(Piece{bases_[v.addr.buffer] + at + lo / 8, lo % 8, from, bits});
    const int64_t flat = at / v.bytes;
    const int below = levels_[level + 1].bits;
    if (below == v.bits) return visit(level + 1, flat, lo, bits, from, f);
    const int64_t inner = v.inner, row = flat / inner % v.rows, column = flat % inner, outer = flat / inner / v.rows;
    if (v.bits < below) {
      const int64_t ratio = below / v.bits;
      const auto within = static_cast<int>(row % ratio) * v.bits;
      return visit(level + 1, (outer * (v.rows / ratio) + row / ratio) * inner + column, within + lo, bits, from, f);
    }
    const int ratio = v.bits / below;
    for (int q = 0; q < ratio; ++q) {
      const int begin = std::max(lo, q * below), end = std::min(lo + bits, (q + 1) * below);
      const int64_t element = (outer * v.rows * ratio + row * ratio + q) * inner + column;
      if (begin < end) visit(level + 1, element, begin - q * below, end - begin, from + begin - lo, f);
    }
  }

  // The same of element `n` of a level.
  template <typename F>
  void visit(size_t level, int64_t n, int lo, int bits, int from, const F& f) const {
    visit_at(level, offset(level, n), lo, bits, from, f);
  }

 private:
  const Thread& t_;
  std::span<const ReinterpretPayload::Level> levels_;
  std::byte* const* bases_;
};

// A piece of whole bytes, or a part of one byte.
inline void read(const Piece& p, std::byte* value) {
  if (p.bits % 8 == 0) {
    std::memcpy(value + p.from / 8, p.at, static_cast<size_t>(p.bits / 8));
    return;
  }
  const unsigned part = (std::to_integer<unsigned>(*p.at) >> p.first) & ((1u << p.bits) - 1);
  value[p.from / 8] |= static_cast<std::byte>(part << (p.from % 8));
}

// A value of less than 8 bits as the byte that it has for itself.
inline std::byte extended(unsigned value, int bits, bool sign) {
  const unsigned negative = sign ? value & (1u << (bits - 1)) : 0;
  return static_cast<std::byte>(value | (negative ? ~0u << bits : 0));
}

// `memory`: the level that the piece lies in.
inline void write(const Piece& p, const std::byte* value, const ReinterpretPayload::Level& memory) {
  if (p.bits % 8 == 0) {
    std::memcpy(p.at, value + p.from / 8, static_cast<size_t>(p.bits / 8));
    return;
  }
  const unsigned mask = (1u << p.bits) - 1;
  const unsigned part = (std::to_integer<unsigned>(value[p.from / 8]) >> (p.from % 8)) & mask;
  if (memory.bits < 8) {
    *p.at = extended(part, p.bits, memory.sign);
    return;
  }
  const unsigned rest = std::to_integer<unsigned>(*p.at) & ~(mask << p.first);
  *p.at = static_cast<std::byte>(rest | part << p.first);
}

}  // namespace pallasim::interp::ops
