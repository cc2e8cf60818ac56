// Copies whose rows an array of indices chooses. Each run of neighbouring rows is an operation of its own: rows arrive
// one by one, and the semaphore counts their bytes.
#include <algorithm>

#include "../plan/rows.h"
#include "copies.h"
#include "elements.h"
#include "findings.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncCopy;

// What all parts of one copy share, and what moved of it so far.
class RowCopy {
 public:
  RowCopy(Thread& t, const Step* s, const RowCopyPayload& p) : t_(t), s_(s), p_(p), dim_(p.rows.dim) {
    const CopySide& other = p.of_dst ? p.src : p.dst;
    const CopySide& chosen = p.of_dst ? p.dst : p.src;
    const ChosenRows& r = p.rows;
    count_ = r.count_slot == Addr::kNoSlot ? r.count : t.slot<int64_t>(r.count_slot);
    std::vector<int64_t> want, have;
    for (size_t d = 0; d < chosen.strides.size(); ++d)
      want.push_back(d == dim_ ? count_ : extent(t, chosen.extents, d));
    for (size_t d = 0; d < other.strides.size(); ++d) have.push_back(extent(t, other.extents, d));
    if (want != have) copy_shapes_differ(t, s, p, p.of_dst ? have : want, p.of_dst ? want : have);
    whole_ = copy_between(t, s, p.src, p.dst, p.dtype, p.add ? memory::Combine::Add : memory::Combine::Replace);
    std::copy(want.begin(), want.end(), whole_.dims);
    whole_.after_write = {memory::Completion::Kind::Semaphore, semaphore_id(t, p.dst_sem)};
    for (size_t d = 0; d < want.size(); ++d)
      if (d != dim_) row_elements_ = memory::mul(row_elements_, want[d]);
  }

  int64_t count() const { return count_; }

  // `n` rows from the given ones of the two sides on.
  void move(int64_t row, int64_t position, int64_t n) {
    AsyncCopy c = part(n);
    const int64_t size = ir::byte_size(p_.dtype);
    const int64_t from = p_.of_dst ? position : row, to = p_.of_dst ? row : position;
    c.src.offset += from * c.src_strides[dim_] * size;
    c.dst.offset += to * c.dst_strides[dim_] * size;
    c.dims[dim_] = n;
    issue_noted(t_, s_, c);
  }

  // Rows that do not move: those who wait for the copy wait for their bytes, too.
  void skip(int64_t n) {
    if (n == 0) return;
    AsyncCopy c = part(n);
    c.dims[dim_] = 0;
    issue_noted(t_, s_, c);
  }

 private:
  // Bytes are counted so that those of all parts are those of the whole, whatever the width of an element.
  AsyncCopy part(int64_t rows) {
    AsyncCopy c = whole_;
    const int bits = ir::bit_width(p_.dtype);
    const int64_t before = machine_bytes(memory::mul(done_, row_elements_), bits);
    done_ += rows;
    c.after_write.count = machine_bytes(memory::mul(done_, row_elements_), bits) - before;
    return c;
  }

  Thread& t_;
  const Step* s_;
  const RowCopyPayload& p_;
  const size_t dim_;
  int64_t count_ = 0, row_elements_ = 1, done_ = 0;
  AsyncCopy whole_;
};

}  // namespace

const Step* row_copy(Thread& t, const Step* s) {
  const auto& p = static_cast<const RowCopyPayload&>(*static_cast<const DmaPayload*>(s->payload));
  const ChosenRows& r = p.rows;
  RowCopy copy(t, s, p);
  const int64_t n = copy.count(), size = ir::byte_size(r.dtype);
  const std::byte* list = t.resolve(r.list);
  // The list may lie in what the copy writes: it is read before anything moves.
  std::vector<int64_t> rows(static_cast<size_t>(std::max<int64_t>(n, 0)));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = integer_element(list + i * r.stride * size, r.dtype);
    rows[static_cast<size_t>(i)] = row;
    if ((r.ignores && row == r.ignored) || (row >= 0 && row < r.extent)) continue;
    const CopySide& side = p.of_dst ? p.dst : p.src;
    out_of_bounds(t, s, {0, false, 0, r.extent - 1, static_cast<int>(r.dim), r.extent, 1}, row, side.name,
                  side.extents.dims, p.of_dst ? "write" : "read");
  }
  if (!t.exec->listeners.empty() && n > 0) note_access(t, s, r.list, {n}, {r.stride}, static_cast<int>(size), false);
  int64_t skipped = 0;
  for (int64_t i = 0, end; i < n; i = end) {
    const auto at = [&](int64_t k) { return rows[static_cast<size_t>(k)]; };
    const auto stays = [&](int64_t k) { return r.ignores && at(k) == r.ignored; };
    end = i + 1;
    if (stays(i)) {
      ++skipped;
      continue;
    }
    while (end < n && at(end) == at(end - 1) + 1 && !stays(end)) ++end;
    copy.move(at(i), i, end - i);
  }
  copy.skip(skipped);
  return s + 1;
}

const Step* fetch_and_add(Thread& t, const Step* s) {
  const auto& p = *static_cast<const FetchAddPayload*>(s->payload);
  Execution& ex = *t.exec;
  const Body& b = *t.body;
  const int64_t own = t.unit % ex.device_threads - b.first_thread;  // of its body, counted with the threads between
  const int32_t subcore = t.slot<int32_t>(p.subcore_slot);
  if (subcore < 0 || subcore >= b.per_core)
    no_such_unit(t, s, "fetch_and_add", "subcore", subcore, static_cast<int32_t>(b.per_core));
  const auto owner = static_cast<int32_t>(t.unit - own % b.core_stride + subcore);
  const int64_t moved = p.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.addr.dyn);
  for (bool write : {false, true}) note_access(t, s, p.addr, {}, {}, 4, write, owner);
  auto& word =
      *reinterpret_cast<int32_t*>(ex.threads[static_cast<size_t>(owner)].bases[p.addr.buffer] + p.addr.offset + moved);
  const int32_t before = word;
  word = static_cast<int32_t>(static_cast<uint32_t>(before) + static_cast<uint32_t>(t.slot<int32_t>(p.value_slot)));
  t.slot<int32_t>(s->dst) = before;
  ex.progressed = true;
  return s + 1;
}

}  // namespace pallasim::interp::ops
