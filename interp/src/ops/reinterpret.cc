// Elements of a ref that is seen through copies (RefThrough), between its dense copy and their bytes in memory.
#include "../plan/payload/movement.h"
#include "footprint.h"
#include "pieces.h"

namespace pallasim::interp::ops {
const Step* reinterpret(Thread& t, const Step* s) {
  const auto& p = payload<Kind::reinterpret>(s);
  const ReinterpretPayload::Level& view = p.levels.front();
  const Pieces pieces(t, p.levels, t.bases);
  const auto size = static_cast<size_t>(view.bytes);
  std::byte* copy = t.bases[p.copy.buffer] + p.copy.offset;
  const std::byte* before = p.has_before ? t.bases[p.before.buffer] + p.before.offset : nullptr;
  int64_t n = 1;
  for (int64_t d : view.dims) n *= d;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = pieces.offset(0, i);
    if (p.write && before && std::memcmp(copy + at, before + at, size) == 0) continue;
    std::byte value[16] = {};
    if (p.write) std::memcpy(value, copy + at, size);
    pieces.visit(0, i, 0, view.bits, 0, [&](const Piece& piece) {
      if (p.write) write(piece, value, p.levels.back());
      else read(piece, value);
    });
    if (!p.write && view.bits < 8) value[0] = extended(std::to_integer<unsigned>(value[0]), view.bits, view.sign);
    if (!p.write) std::memcpy(copy + at, value, size);
  }
  t.exec->progressed |= p.write;
  return s + 1;
}

// Of less than a byte that is written the rest of the byte is read.
void reinterpret_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::reinterpret>(s);
  const ReinterpretPayload::Level& view = p.levels.front();
  const Pieces pieces(t, p.levels, t.bases);
  const auto size = static_cast<size_t>(view.bytes);
  int64_t n = 1;
  for (int64_t d : view.dims) n *= d;
  if (n == 0) return;
  const std::byte* copy = t.bases[p.copy.buffer] + p.copy.offset;
  const std::byte* before = p.has_before ? t.bases[p.before.buffer] + p.before.offset : nullptr;
  const int64_t first = pieces.offset(0, 0);
  out.internal({p.copy.buffer, Addr::kNoSlot, p.copy.offset + first}, view.dims, view.strides, view.bytes, !p.write);
  if (before)
    out.internal({p.before.buffer, Addr::kNoSlot, p.before.offset + first}, view.dims, view.strides, view.bytes, false);
  ChosenElements chosen(out, t, p.levels.back().addr.buffer, {.write = p.write});
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = pieces.offset(0, i);
    if (p.write && before && std::memcmp(copy + at, before + at, size) == 0) continue;
    pieces.visit(0, i, 0, view.bits, 0, [&](const Piece& piece) { chosen.add(piece.at, std::max(1, piece.bits / 8)); });
  }
  chosen.flush();
}

}  // namespace pallasim::interp::ops
