// Copies whose rows an array of indices chooses, and copies of refs that are seen through other element widths. Where
// it can be seen when which of them move, each run of neighbouring rows is an operation of its own.
#include <algorithm>

#include "../plan/payload/copies.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/rows.h"
#include "chosen.h"
#include "copies.h"
#include "elements.h"
#include "findings.h"
#include "footprint.h"
#include "lattice.h"
#include "pieces.h"
#include "units.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncOperation, memory::Side;

// What all parts of one copy share, and what moved of it so far.
class PartsCopy {
 public:
  // `out`: receives what elements that move one by one touch; nothing moves then. Null: it moves.
  PartsCopy(Thread& t, const Step* s, const RowCopyPayload& p, Boxes* out = nullptr)
      : t_(t), s_(s), p_(p), out_(out), dim_(p.chooses ? p.rows.dim : 0) {
    const CopySide& other = p.of_dst ? p.src : p.dst;
    const CopySide& chosen = p.of_dst ? p.dst : p.src;
    count_ = !p.chooses                           ? extent(t, chosen.extents, dim_)
             : p.rows.count_slot == Addr::kNoSlot ? p.rows.count
                                                  : t.slot<int64_t>(p.rows.count_slot);
    int64_t of_chosen[memory::kMaxRank], of_other[memory::kMaxRank];
    const std::span<int64_t> want(of_chosen, chosen.strides.size()), have(of_other, other.strides.size());
    for (size_t d = 0; d < want.size(); ++d) want[d] = d == dim_ ? count_ : extent(t, chosen.extents, d);
    for (size_t d = 0; d < have.size(); ++d) have[d] = extent(t, other.extents, d);
    if (!std::equal(want.begin(), want.end(), have.begin(), have.end()))
      diagnose(t).copy_shapes_differ(t, s, p, p.of_dst ? have : want, p.of_dst ? want : have);
    whole_ = movement(t, s, p.kind, p.src, p.dst, p.dtype);
    if (p.add) whole_.combine = memory::Combine::Add;
    for (Side* side : {&whole_.reads.front(), &whole_.writes.front()}) side->set_dims(of_chosen);
    const int32_t receiver = unit_of(t, s, p.peer, "copy");
    whole_.writes.front().place.thread = begun(t, receiver);
    if (p.src_sem.block >= 0) whole_.after_read.add({memory::Completion::Kind::Semaphore, semaphore_id(t, p.src_sem)});
    whole_.after_write.add({memory::Completion::Kind::Semaphore, semaphore_id(t, p.dst_sem, receiver)});
    for (size_t d = 0; d < want.size(); ++d)
      if (d != dim_) row_elements_ = memory::mul(row_elements_, want[d]);
    clip(t, p, &whole_);
    if (!out_) arrives_there(*t.exec, whole_.writes.front(), p.dst.elidable);
  }

  int64_t count() const { return count_; }
  int64_t existing() const { return whole_.writes.front().dims[dim_]; }  // rows that are no padding

  // All rows.
  void move_all() {
    move(0, 0, existing());
    skip(count_ - done_);
  }

  // `n` rows from the given ones of the two sides on: those of the source, of the destination.
  void move(int64_t from, int64_t to, int64_t n) {
    AsyncOperation op = whole_;
    Side &read = op.reads.front(), &written = op.writes.front();
    const int64_t behind = read.dims[dim_] - (p_.chooses ? 0 : from);  // of the first row, that the source has
    read.dims[dim_] = std::clamp<int64_t>(behind, 0, n);
    written.dims[dim_] = fills(op) ? n : read.dims[dim_];
    const std::span<const int64_t> dims(written.dims, static_cast<size_t>(written.rank));
    std::optional<Lattice> src = side(p_.src, p_.src_levels, from, dims), dst = side(p_.dst, p_.dst_levels, to, dims);
    if (src && dst && match(&*src, &*dst)) return move_units(*src, *dst, op, n);
    if (n == 1 || p_.src_levels.back().bits < 8 || p_.dst_levels.back().bits < 8) return move_elements(from, to, op, n);
    for (int64_t i = 0; i < n; ++i) move(from + i, to + i, 1);
  }

  // Both sides are strided, as they are said.
  bool plain() const {
    const ReinterpretPayload::Level &src = p_.src_levels.front(), &dst = p_.dst_levels.front();
    return p_.src_levels.size() == 1 && p_.dst_levels.size() == 1 && src.bits >= 8 && dst.bits >= 8 && !fills(whole_);
  }
  // The chosen rows of a plain one in one copy, one behind the other; those that are negative do not move.
  void move_list(std::vector<int64_t> rows) {
    AsyncOperation op = whole_;
    rows.resize(static_cast<size_t>(existing()));
    op.rows = std::move(rows);
    (p_.of_dst ? op.writes : op.reads).front().row_dim = static_cast<int8_t>(dim_);
    start(op, count_);
  }

  // Rows that do not move: those who wait for the copy wait for their bytes, too.
  void skip(int64_t n) {
    if (n == 0) return;
    AsyncOperation op = whole_;
    op.reads.front().dims[dim_] = op.writes.front().dims[dim_] = 0;
    op.rest = memory::Rest::None;
    start(op, n);
  }

 private:
  static bool fills(const AsyncOperation& op) { return op.rest != memory::Rest::None; }

  std::optional<Lattice> side(const CopySide& plain, const std::vector<ReinterpretPayload::Level>& levels, int64_t row,
                              std::span<const int64_t> dims) const {
    return lattice(t_, levels, memory::mul(row, plain.strides[dim_]), dims);
  }

  // Bytes are counted so that those of all parts are those of the whole, whatever the width of an element.
  void start(AsyncOperation& op, int64_t rows) {
    const int bits = ir::bit_width(p_.dtype);
    const int64_t before = machine_bytes(memory::mul(done_, row_elements_), bits);
    done_ += rows;
    const int64_t bytes = machine_bytes(memory::mul(done_, row_elements_), bits) - before;
    for (memory::Few<memory::Completion>* of : {&op.after_read, &op.after_write})
      for (memory::Completion& c : *of) c.count = bytes;
    if (!out_) issue(t_, s_, op);
  }

  void move_units(const Lattice& src, const Lattice& dst, AsyncOperation& op, int64_t rows) {
    const auto see = [&](Side& side, const Lattice& as) {
      side.place.buffer = as.first.buffer;
      side.place.offset = as.first.offset;
      std::copy(as.strides.begin(), as.strides.end(), side.strides);
      if (src.unit != side.element_bytes())
        side.dtype = src.unit == 1 ? ir::DType::U8 : src.unit == 2 ? ir::DType::U16 : ir::DType::U32;
      if (src.split <= 1) return;
      side.dims[side.rank] = src.split;
      side.strides[side.rank++] = as.split_stride;
    };
    see(op.reads.front(), src);
    see(op.writes.front(), dst);
    op.reads.front().place = src.first;
    start(op, rows);
  }

  // Elements that no strides describe, or that share bytes, move when the copy starts, which the machine may do too.
  void move_elements(int64_t from, int64_t to, const AsyncOperation& op, int64_t rows) {
    const Execution& ex = *t_.exec;
    const Side &c = op.reads.front(), &whole = op.writes.front();
    std::byte* const* const there = ex.threads[static_cast<size_t>(whole.place.thread)].bases;
    const Pieces src(t_, p_.src_levels, t_.bases), dst(t_, p_.dst_levels, there);
    const ReinterpretPayload::Level &s = p_.src_levels.front(), &d = p_.dst_levels.front();
    const int64_t src_at = src.start(0) + from * p_.src.strides[dim_] * s.bytes,
                  dst_at = dst.start(0) + to * p_.dst.strides[dim_] * d.bytes;
    const uint32_t written = p_.dst_levels.back().addr.buffer;
    std::optional<ChosenElements> reads;
    if (out_) reads.emplace(*out_, t_, p_.src_levels.back().addr.buffer, Boxes::How{});
    int64_t index[memory::kMaxRank] = {};
    const bool none = whole.empty();
    do {
      if (none) break;
      int64_t a = 0, b = 0;
      bool exists = true;
      for (int k = 0; k < c.rank; ++k) {
        a += index[k] * c.strides[k], b += index[k] * whole.strides[k];
        exists = exists && index[k] < c.dims[k];
      }
      std::byte value[16] = {};
      const memory::Element nothing = memory::uninitialized(p_.dtype, ex.options->uninitialized);
      if (!exists) std::memcpy(value, &nothing, sizeof value);
      if (exists)
        src.visit_at(0, src_at + a * s.bytes, 0, s.bits, 0, [&](const Piece& piece) {
          if (reads) reads->add(piece.at, std::max(1, piece.bits / 8));
          read(piece, value);
        });
      dst.visit_at(0, dst_at + b * d.bytes, 0, d.bits, 0, [&](const Piece& piece) {
        if (out_)
          out_->element({written, Addr::kNoSlot, piece.at - there[written]}, std::max(1, piece.bits / 8),
                        {.write = true, .unwritten = !exists, .owner = whole.place.thread});
        else write(piece, value, p_.dst_levels.back());
      });
    } while (memory::next_index(index, static_cast<size_t>(c.rank), whole.dims));
    if (reads) reads->flush();
    skip(rows);
  }

  Thread& t_;
  const Step* s_;
  const RowCopyPayload& p_;
  Boxes* const out_;
  const size_t dim_;
  int64_t count_ = 0, row_elements_ = 1, done_ = 0;
  AsyncOperation whole_;
};

}  // namespace

namespace {

// `out`: as of PartsCopy.
void copy_rows(Thread& t, const Step* s, Boxes* out) {
  const RowCopyPayload& p = payload<Kind::row_copy>(s);
  const ChosenRows& r = p.rows;
  PartsCopy copy(t, s, p, out);
  if (!p.chooses) return copy.move_all();
  const int64_t n = copy.count(), most = r.extent_slot == Addr::kNoSlot ? r.extent : t.slot<int64_t>(r.extent_slot);
  // The list may lie in what the copy writes: it is read before anything moves.
  std::vector<int64_t> rows = chosen_rows(t, r, n);
  if (out) out->read(r.list, {&n, 1}, {&r.stride, 1}, ir::byte_size(r.dtype));
  for (const int64_t row : rows) {
    if ((r.ignores && row == r.ignored) || (row >= 0 && row < most)) continue;
    if (out) return;  // who looks at the list may know why
    const CopySide& side = p.of_dst ? p.dst : p.src;
    diagnose(t).out_of_bounds(t, s, {0, false, 0, most - 1, static_cast<int>(r.dim), most, 1}, row, side.name,
                              side.extents.dims, p.of_dst ? "write" : "read");
  }
  if (out && copy.plain()) return;  // no element moves by itself
  // Where nobody can tell when which row moves.
  const bool apart = t.exec->copies_move == Options::Copies::Scheduled && t.exec->rows_apart;
  if (n > 0 && !apart && copy.plain()) {
    for (int64_t& row : rows) row = r.ignores && row == r.ignored ? -1 : row;
    return copy.move_list(std::move(rows));
  }
  int64_t skipped = 0;
  for (int64_t i = 0, end; i < n; i = end) {
    const auto at = [&](int64_t k) { return rows[static_cast<size_t>(k)]; };
    const auto stays = [&](int64_t k) { return (r.ignores && at(k) == r.ignored) || k >= copy.existing(); };
    end = i + 1;
    if (stays(i)) {
      ++skipped;
      continue;
    }
    while (end < n && at(end) == at(end - 1) + 1 && !stays(end)) ++end;
    copy.move(p.of_dst ? i : at(i), p.of_dst ? at(i) : i, end - i);
  }
  copy.skip(skipped);
}

}  // namespace

const Step* row_copy(Thread& t, const Step* s) {
  copy_rows(t, s, nullptr);
  return s + 1;
}
void row_copy_footprint(Thread& t, const Step& s, Boxes& out) { copy_rows(t, &s, &out); }

const Step* fetch_and_add(Thread& t, const Step* s) {
  const auto& p = payload<Kind::fetch_and_add>(s);
  Execution& ex = *t.exec;
  const int32_t owner = unit_of(t, s, p.subcore, "fetch_and_add");
  const int64_t moved = p.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.addr.dyn);
  auto& word =
      *reinterpret_cast<int32_t*>(ex.threads[static_cast<size_t>(owner)].bases[p.addr.buffer] + p.addr.offset + moved);
  const int32_t before = word;
  word = static_cast<int32_t>(static_cast<uint32_t>(before) + static_cast<uint32_t>(t.slot<int32_t>(p.value_slot)));
  t.slot<int32_t>(s->dst) = before;
  ex.progressed = true;
  return s + 1;
}
// As one operation, which others of its kind do not meet.
void fetch_and_add_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::fetch_and_add>(s);
  const int32_t owner = unit_of(t, &s, p.subcore, "fetch_and_add");
  for (bool write : {false, true}) out.element(p.addr, 4, {.write = write, .atomic = true, .owner = owner});
}

}  // namespace pallasim::interp::ops
