// Elements of a ref that is seen through copies (RefThrough), between its dense copy and their bytes in memory.
#include "../plan/payload/movement.h"
#include "pieces.h"

namespace pallasim::interp::ops {
const Step* lens(Thread& t, const Step* s) {
  const auto& p = payload<Kind::lens>(s);
  const LensPayload::Level& view = p.levels.front();
  const Pieces pieces(t, p.levels, t.bases);
  const auto size = static_cast<size_t>(view.bytes);
  const bool listened = !t.exec->listeners.empty();
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
      if (p.write) write(piece, value, p.levels.back());
      else read(piece, value);
    });
    if (!p.write && view.bits < 8) value[0] = extended(std::to_integer<unsigned>(value[0]), view.bits, view.sign);
    if (!p.write) std::memcpy(copy + at, value, size);
  }
  chosen.flush();
  t.exec->progressed |= p.write;
  return s + 1;
}

}  // namespace pallasim::interp::ops
