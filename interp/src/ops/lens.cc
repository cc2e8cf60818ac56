// Elements of a ref that is seen through copies (RefThrough), between its dense copy and their bytes in memory.
#include <algorithm>

#include "bodies.h"

namespace pallasim::interp::ops {
namespace {

// Bits [from, from + bits) of an element lie at bit `first` of the byte at `at`: 0 but for a piece within a byte.
struct Piece {
  std::byte* at;
  int first, from, bits;
};

class Pieces {
 public:
  Pieces(Thread& t, const LensPayload& p) : t_(t), p_(p) {}

  // Byte offset, in the memory of a level, of element `n` of its view.
  int64_t offset(size_t level, int64_t n) const {
    const LensPayload::Level& v = p_.levels[level];
    int64_t element = 0;
    for (size_t d = v.dims.size(); d-- > 0;) {
      element += n % v.dims[d] * v.strides[d];
      n /= v.dims[d];
    }
    return v.addr.offset + (v.addr.dyn == Addr::kNoSlot ? 0 : t_.slot<int64_t>(v.addr.dyn)) + element * v.bytes;
  }

  // Calls f(piece) for what memory holds of bits [lo, lo + bits) of element `n` of a level: bits `from` on of the
  // value.
  template <typename F>
  void visit(size_t level, int64_t n, int lo, int bits, int from, const F& f) const {
    const LensPayload::Level& v = p_.levels[level];
    const int64_t at = offset(level, n);
    if (level + 1 == p_.levels.size()) return f(Piece{t_.bases[v.addr.buffer] + at + lo / 8, lo % 8, from, bits});
    const int64_t flat = at / v.bytes;
    const int below = p_.levels[level + 1].bits;
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

 private:
  Thread& t_;
  const LensPayload& p_;
};

// A piece of whole bytes, or a part of one byte.
void read(const Piece& p, std::byte* value) {
  if (p.bits % 8 == 0) {
    std::memcpy(value + p.from / 8, p.at, static_cast<size_t>(p.bits / 8));
    return;
  }
  const unsigned part = (std::to_integer<unsigned>(*p.at) >> p.first) & ((1u << p.bits) - 1);
  value[p.from / 8] |= static_cast<std::byte>(part << (p.from % 8));
}

// `whole`: an element of memory has the byte for itself.
void write(const Piece& p, const std::byte* value, bool whole) {
  if (p.bits % 8 == 0) {
    std::memcpy(p.at, value + p.from / 8, static_cast<size_t>(p.bits / 8));
    return;
  }
  const unsigned mask = (1u << p.bits) - 1;
  const unsigned part = (std::to_integer<unsigned>(value[p.from / 8]) >> (p.from % 8)) & mask;
  const unsigned rest = whole ? 0 : std::to_integer<unsigned>(*p.at) & ~(mask << p.first);
  *p.at = static_cast<std::byte>(rest | part << p.first);
}

}  // namespace

const Step* lens(Thread& t, const Step* s) {
  const auto& p = *static_cast<const LensPayload*>(s->payload);
  const LensPayload::Level& view = p.levels.front();
  const Pieces pieces(t, p);
  const auto size = static_cast<size_t>(view.bytes);
  const bool listened = !t.exec->listeners.empty(), whole = p.levels.back().bits < 8;
  std::byte* copy = t.bases[p.copy.buffer] + p.copy.offset;
  const std::byte* before = p.has_before ? t.bases[p.before.buffer] + p.before.offset : nullptr;
  int64_t n = 1;
  for (int64_t d : view.dims) n *= d;
  const uint32_t buffer = p.levels.back().addr.buffer;
  ChosenElements chosen(t, s, buffer, p.write);
  if (listened && n > 0) {
    const int64_t at = pieces.offset(0, 0);
    note_temporary(t, s, {p.copy.buffer, Addr::kNoSlot, p.copy.offset + at}, view.dims, view.strides, view.bytes,
                   !p.write);
    if (before)
      note_temporary(t, s, {p.before.buffer, Addr::kNoSlot, p.before.offset + at}, view.dims, view.strides, view.bytes,
                     false);
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = pieces.offset(0, i);
    if (p.write && before && std::memcmp(copy + at, before + at, size) == 0) continue;
    std::byte value[16] = {};
    if (p.write) std::memcpy(value, copy + at, size);
    pieces.visit(0, i, 0, view.bits, 0, [&](const Piece& piece) {
      chosen.add(piece.at, std::max(1, piece.bits / 8));
      if (p.write) write(piece, value, whole);
      else read(piece, value);
    });
    if (!p.write) std::memcpy(copy + at, value, size);
  }
  chosen.flush();
  t.exec->progressed |= p.write;
  return s + 1;
}

}  // namespace pallasim::interp::ops
