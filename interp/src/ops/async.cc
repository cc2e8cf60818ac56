// Copies in flight: issue, completion, waits, ends of scopes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "../plan/payload/copies.h"
#include "copies.h"
#include "elements.h"
#include "findings.h"
#include "parts.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncCopy, memory::Completion;

memory::Place place(const Thread& t, const CopySide& side, int32_t thread) {
  return {thread, side.addr.buffer,
          side.addr.offset + (side.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(side.addr.dyn))};
}

ir::OpCode op_of(memory::Combine c) {
  switch (c) {
    case memory::Combine::Min: return ir::OpCode::min;
    case memory::Combine::Max: return ir::OpCode::max;
    case memory::Combine::And: return ir::OpCode::and_;
    case memory::Combine::Or: return ir::OpCode::or_;
    case memory::Combine::Xor: return ir::OpCode::xor_;
    default: return ir::OpCode::add;
  }
}

float bulk_of(memory::Combine how, float old, float v) {
  const bool least = how == memory::Combine::BulkMin;
  const float r = how == memory::Combine::BulkAdd ? old + v
                  : old != old                    ? v
                  : v != v                        ? old
                  : old == v                      ? (std::signbit(old) == least ? old : v)
                  : (old < v) == least            ? old
                                                  : v;
  return r == r ? r : std::bit_cast<float>(0x7fffffffu);
}

// old = a, what comes = b.
void count(memory::Combine how, uint32_t* a, const uint32_t* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (how == memory::Combine::Inc) a[i] = a[i] >= b[i] ? 0 : a[i] + 1;
    else a[i] = a[i] == 0 || a[i] > b[i] ? b[i] : a[i] - 1;
}

// f32, and the narrower floats that are computed in it.
void bulk_floats(memory::Combine how, float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = bulk_of(how, a[i], b[i]);
}

// Combines a row of the source with a row of the destination.
void combine_rows(const AsyncCopy& c, std::byte* dst, const std::byte* src, const Semantics& semantics) {
  const KernelTable& k = kernels();
  const LoadFn load = k.load(c.dtype);
  const StoreFn store = k.store(c.dtype);
  const StripFn combine = k.strip(op_of(c.combine), c.dtype);
  const bool counts = c.combine == memory::Combine::Inc || c.combine == memory::Combine::Dec,
             bulk = c.combine >= memory::Combine::BulkAdd;
  StripParams params;
  params.dtype = c.dtype;
  params.semantics = semantics;
  const int64_t size = ir::byte_size(c.dtype);
  const int inner = c.rank - 1;
  const int64_t n = c.rank == 0 ? 1 : c.dims[inner];
  alignas(64) std::byte a[kStrip * 16], b[kStrip * 16];
  memory::IndexVector index(static_cast<size_t>(std::max(inner, 0)));
  for (;;) {
    int64_t from = 0, to = 0;
    for (int d = 0; d < inner; ++d) from += index[d] * c.src_strides[d], to += index[d] * c.dst_strides[d];
    const int64_t ss = c.rank == 0 ? 1 : c.src_strides[inner], ds = c.rank == 0 ? 1 : c.dst_strides[inner];
    for (int64_t i = 0; i < n; i += kStrip / 2) {
      const int64_t m = std::min<int64_t>(kStrip / 2, n - i);
      std::byte* at = dst + (to + i * ds) * size;
      load(a, at, m, ds);
      load(b, src + (from + i * ss) * size, m, ss);
      if (counts) count(c.combine, reinterpret_cast<uint32_t*>(a), reinterpret_cast<const uint32_t*>(b), m);
      else if (bulk) bulk_floats(c.combine, reinterpret_cast<float*>(a), reinterpret_cast<const float*>(b), m);
      else combine(a, a, b, nullptr, m, params);
      store(at, a, m, ds);
    }
    if (inner <= 0 || !memory::next_index(index, static_cast<size_t>(inner), c.dims)) return;
  }
}

std::byte* address(const Execution& ex, const memory::Place& p) {
  return ex.threads[static_cast<size_t>(p.thread)].bases[p.buffer] + p.offset;
}

// The output that the copy writes to and whose poison waits; else the end.
auto waiting_poison(Execution& ex, const AsyncCopy& c) {
  return std::find_if(ex.deferred_init.begin(), ex.deferred_init.end(),
                      [&](const DeferredInit& o) { return o.buffer == c.dst.buffer; });
}

// What a copy writes to an output whose poison waits. Rows that do not follow each other are not kept track of: the
// poison comes now.
void note_written(Execution& ex, const AsyncCopy& c) {
  const auto u = waiting_poison(ex, c);
  if (u == ex.deferred_init.end()) return;
  const int64_t bytes = dense_bytes(c.dims, c.dst_strides, c.rank, ir::byte_size(c.dtype));
  if (bytes == 0) {
    ex.poison_gaps(*u);
    ex.deferred_init.erase(u);
    return;
  }
  u->written.add(c.dst.offset, c.dst.offset + bytes);
}

// Whether the sides share a byte, whatever names their memory has.
bool overlap(const AsyncCopy& c, const std::byte* dst, const std::byte* src) {
  const memory::Span to = memory::span_of(c, true), from = memory::span_of(c, false);
  return dst + to.begin < src + from.end && src + from.begin < dst + to.end;
}

void move_bytes(Execution& ex, const AsyncCopy& c) {
  std::byte* dst = address(ex, c.dst);
  if (c.fills) {
    const memory::Element e = c.zeros ? memory::Element{} : memory::uninitialized(c.dtype, ex.options->uninitialized);
    fill_strided(dst, c.dst_strides, &e, c.whole, c.rank, ir::byte_size(c.dtype));
  }
  for (int d = 0; d < c.rank; ++d)
    if (c.dims[d] <= 0) return;
  if (!ex.deferred_init.empty()) note_written(ex, c);
  const std::byte* src = address(ex, c.src);
  dst += c.skipped;
  if (c.combine != memory::Combine::Replace) return combine_rows(c, dst, src, Semantics{});
  const int size = ir::byte_size(c.dtype);
  if (!ex.host.helpers || overlap(c, dst, src))
    copy_strided(dst, c.dst_strides, src, c.src_strides, c.dims, c.rank, size);
  else copy_in_parts(ex, dst, c.dst_strides, src, c.src_strides, c.dims, c.rank, size);
}

// Rows that are asked for so far ahead of the one that moves: the processor does not foresee chosen ones.
constexpr size_t kRowsAhead = 4;
constexpr size_t kBytesAhead = 1024;  // of each

// Rows of `bytes` that lie side by side; those that are negative do not move.
void copy_rows(std::byte* to, int64_t to_row, const std::byte* from, int64_t from_row, size_t bytes,
               std::span<const int64_t> rows, bool of_dst) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!of_dst && i + kRowsAhead < rows.size() && rows[i + kRowsAhead] >= 0)
      for (size_t b = 0; b < std::min(bytes, kBytesAhead); b += 64)
        __builtin_prefetch(from + rows[i + kRowsAhead] * from_row + b);
    const auto next = static_cast<int64_t>(i);
    if (rows[i] >= 0)
      std::memcpy(to + (of_dst ? rows[i] : next) * to_row, from + (of_dst ? next : rows[i]) * from_row, bytes);
  }
}

void move_rows(Execution& ex, const AsyncCopy& all) {
  const std::vector<int64_t>& rows = all.rows;
  const int d = all.row_dim;
  int64_t dims[memory::kMaxRank];  // of one row
  std::copy(all.dims, all.dims + all.rank, dims);
  dims[d] = 1;
  const int64_t size = ir::byte_size(all.dtype), to_row = all.dst_strides[d] * size,
                from_row = all.src_strides[d] * size, bytes = dense_bytes(dims, all.dst_strides, all.rank, size);
  if (all.combine == memory::Combine::Replace && !all.fills && all.skipped == 0 &&
      waiting_poison(ex, all) == ex.deferred_init.end() && bytes > 0 &&
      bytes == dense_bytes(dims, all.src_strides, all.rank, size))
    return copy_rows(address(ex, all.dst), to_row, address(ex, all.src), from_row, static_cast<size_t>(bytes), rows,
                     all.rows_of_dst);
  AsyncCopy c = all;
  c.rows.clear();
  c.dims[d] = 1;
  const int64_t to = c.dst.offset, from = c.src.offset;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto next = static_cast<int64_t>(i);
    c.dst.offset = to + (c.rows_of_dst ? rows[i] : next) * to_row;
    c.src.offset = from + (c.rows_of_dst ? next : rows[i]) * from_row;
    if (rows[i] >= 0) move_bytes(ex, c);
  }
}

void fulfil(Execution& ex, const Completion& c) {
  if (c.kind == Completion::Kind::Semaphore) ex.semaphores.signal(c.object, c.count, &ex.woken);
  if (c.kind == Completion::Kind::Barrier && ex.barriers.deliver(c.object, c.bytes, &ex.woken))
    ex.events->sync({SyncEvent::What::Phase, -1, c.object});
}

bool has_waiters(const Execution& ex, const Completion& c) {
  return (c.kind == Completion::Kind::Semaphore && ex.semaphores.has_waiters(c.object)) ||
         (c.kind == Completion::Kind::Barrier && ex.barriers.has_waiters(c.object));
}

void complete(Execution& ex, const AsyncCopy& c) {
  if (c.kind == AsyncCopy::Kind::Product) multiply_in_flight(ex, c);
  else if (!c.rows.empty()) move_rows(ex, c);
  else if (!c.forwarded && (c.elidable < 0 || !elides(ex, c))) move_bytes(ex, c);
  ex.events->moved(c);
  fulfil(ex, c.after_read);
  fulfil(ex, c.after_write);
  if (c.stream >= 0) ex.streams.writes_done(c.stream, c.group, false, &ex.woken);
  ex.events->completed(c);
  ex.progressed = true;
}

}  // namespace

int64_t dense_bytes(const int64_t* dims, const int64_t* strides, int rank, int64_t size) {
  int64_t elements = 1;
  for (int d = rank; d-- > 0; elements *= dims[d])
    if (dims[d] != 1 && strides[d] != elements) return 0;
  return elements * size;
}

void issue_copy(Execution& ex, const AsyncCopy& c) {
  const Options::Copies when = ex.copies_move;
  const bool awaited = has_waiters(ex, c.after_write) || has_waiters(ex, c.after_read);
  if (when == Options::Copies::AtIssue || (when == Options::Copies::AtWait && awaited)) complete(ex, c);
  else ex.copies.push(c);
}

int64_t given(const Thread& t, const std::vector<uint32_t>& slots, size_t d, int64_t otherwise) {
  return slots.empty() || slots[d] == Addr::kNoSlot ? otherwise : t.slot<int64_t>(slots[d]);
}

bool is_closed(const Thread& t, const CopySide& side) {
  return std::any_of(side.gates.begin(), side.gates.end(), [&](uint32_t g) { return t.slot<int64_t>(g) == 0; });
}

int64_t extent(const Thread& t, const Extents& e, size_t d) { return given(t, e.slots, d, e.dims[d]); }

int64_t machine_bytes(int64_t elements, int bits) {
  return memory::mul(elements, bits) / 8 + (elements % 8 * bits % 8 != 0);
}

AsyncCopy copy_between(const Thread& t, const Step* s, const CopySide& src, const CopySide& dst, ir::DType dtype,
                       memory::Combine combine) {
  AsyncCopy c;
  c.step = s->id;
  c.thread = t.index;
  c.dtype = dtype;
  c.combine = combine;
  c.rank = static_cast<int>(src.strides.size());
  for (size_t d = 0; d < src.strides.size(); ++d) c.dims[d] = extent(t, src.extents, d);
  std::copy(src.strides.begin(), src.strides.end(), c.src_strides);
  std::copy(dst.strides.begin(), dst.strides.end(), c.dst_strides);
  c.src = place(t, src, t.index);
  c.dst = place(t, dst, t.index);
  c.elidable = dst.elidable;
  c.from_constant = src.constant;
  return c;
}

void issue(Thread& t, const Step* s, AsyncCopy& c, bool now, bool source_told) {
  Execution& ex = *t.exec;
  c.id = ex.copies_issued++;
  ex.events->issued(t, *s, c, source_told);
  if (now) complete(ex, c);
  else issue_copy(ex, c);
}

void clip(const Thread& t, const DmaPayload& p, AsyncCopy* c) {
  if (p.src.valid.empty() && p.dst.valid.empty() && p.src.gates.empty() && p.dst.gates.empty()) return;
  const bool no_src = is_closed(t, p.src), no_dst = is_closed(t, p.dst);
  auto valid = [&](const CopySide& side, size_t d) {
    if (&side == &p.src ? no_src : no_dst) return int64_t{0};
    return std::min(c->dims[d], given(t, side.valid, d, c->dims[d]));
  };
  bool unread = false;
  for (int d = 0; d < c->rank; ++d) {
    const auto i = static_cast<size_t>(d);
    c->whole[d] = valid(p.dst, i);
    c->dims[d] = std::min(valid(p.src, i), c->whole[d]);
    unread = unread || c->dims[d] < c->whole[d];
  }
  c->fills = unread && c->combine == memory::Combine::Replace &&
             std::none_of(c->whole, c->whole + c->rank, [](int64_t n) { return n <= 0; });
}

bool complete_awaited(Execution& ex) {
  for (size_t i = 0; i < ex.copies.size(); ++i)
    if (has_waiters(ex, ex.copies[i].after_write) || has_waiters(ex, ex.copies[i].after_read)) {
      complete_copy(ex, i);
      return true;
    }
  return false;
}

int64_t complete_groups(Execution& ex, int64_t stream, int64_t most) {
  const int64_t last = ex.streams.last_awaited(stream, most);
  for (size_t i;
       last >= 0 && (i = ex.copies.first_completing(Completion::Kind::Group, stream, last)) < ex.copies.size();)
    complete_copy(ex, i);
  return last;
}

void complete_copy(Execution& ex, size_t index) { complete(ex, ex.copies.take(index)); }

const Step* valid_extent(Thread& t, const Step* s) {
  const auto& p = payload<Kind::valid_extent>(s);
  const int64_t extent = p.extent_slot == Addr::kNoSlot ? p.extent : t.slot<int64_t>(p.extent_slot);
  const int64_t start = p.start_slot == Addr::kNoSlot ? p.start
                        : p.wide                      ? t.slot<int64_t>(p.start_slot)
                                                      : t.slot<int32_t>(p.start_slot);
  const int64_t size = p.size_slot == Addr::kNoSlot ? p.size : t.slot<int64_t>(p.size_slot);
  t.slot<int64_t>(s->dst) = std::max<int64_t>(0, std::min(extent - start, size));
  return s + 1;
}

const Step* dma_start(Thread& t, const Step* s) {
  const auto& p = payload<Kind::dma_start>(s);
  Execution& ex = *t.exec;
  AsyncCopy c = copy_between(t, s, p.src, p.dst, p.dtype, p.add ? memory::Combine::Add : memory::Combine::Replace);
  int64_t n = 1, to[memory::kMaxRank];
  bool same = p.src.strides.size() == p.dst.strides.size();
  for (int d = 0; d < c.rank; ++d) n = memory::mul(n, c.dims[d]);
  for (size_t d = 0; d < p.dst.strides.size(); ++d) {
    to[d] = extent(t, p.dst.extents, d);
    same = same && to[d] == c.dims[d];
  }
  if (!same) diagnose(t).copy_shapes_differ(t, s, p, {c.dims, p.src.strides.size()}, {to, p.dst.strides.size()});
  c.dst.thread = target_thread(t, s, p.peer, "copy");
  const auto count = [&](const SemPayload& sem) {
    const bool bytes = sem.block >= 0 && ex.plan->memory.semaphores.blocks()[static_cast<size_t>(sem.block)].bytes;
    return bytes ? machine_bytes(n, ir::bit_width(p.dtype)) : 1;
  };
  const int64_t sent = count(p.src_sem), received = count(p.dst_sem);
  c.forwarded = p.forwarded;
  clip(t, p, &c);
  if (p.src_sem.block >= 0) c.after_read = {Completion::Kind::Semaphore, semaphore_id(t, p.src_sem), sent};
  c.after_write = {Completion::Kind::Semaphore, semaphore_id(t, p.dst_sem), received};
  issue(t, s, c);
  return s + 1;
}

// Of what does not exist the copy leaves out what it took. Who keeps an account of what is written does so before it
// is.
const Step* forward_store(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  const auto& p = payload<Kind::forward_store>(s);
  bool exists = !is_closed(t, p.dst);
  for (size_t d = 0; d < p.dst.strides.size(); ++d) {
    const int64_t size = p.dst.extents.dims[d];
    exists = exists && given(t, p.dst.before, d, 0) <= 0 && given(t, p.dst.valid, d, size) >= size;
  }
  if (!exists || !ex.elides_copies || ex.copies_move != Options::Copies::AtIssue) return s->jump;
  AsyncCopy c = copy_between(t, s, p.dst, p.dst, p.dtype, memory::Combine::Replace);
  if (p.peer.elsewhere()) {
    c.dst.thread = target_thread(t, s, p.peer, "copy");
    const Thread& to = ex.threads[static_cast<size_t>(c.dst.thread)];
    if (ex.device_of(to) == ex.device_of(t)) return s->jump;
    ex.set_alias(t, p.alias, {c.dst.thread, c.dst.buffer});
    t.slot<int64_t>(p.way) = c.dst.offset - p.dst.addr.offset;
  }
  if (c.elidable >= 0) elides(ex, c);
  else if (!ex.deferred_init.empty()) note_written(ex, c);
  return s + 1;
}

const Step* dma_wait(Thread& t, const Step* s) {
  const auto& p = payload<Kind::dma_wait>(s);
  int64_t n = 1;
  for (size_t d = 0; d < p.extents.dims.size(); ++d) {
    const int64_t size = extent(t, p.extents, d);
    if (!p.most.empty() && p.extents.slots[d] != Addr::kNoSlot && (size < 0 || size > p.most[d]))
      diagnose(t).wait_outside(t, s, p, size, d, p.most[d]);
    n = memory::mul(n, size);
  }
  if (memory::mul(n, p.bits) == INT64_MAX) diagnose(t).wait_too_large(t, s, p);
  return wait_for(t, s, semaphore_id(t, p.sem), machine_bytes(n, p.bits), true);
}

const Step* scope_begin(Thread& t, const Step* s) {
  for (const ScopePayload::Range& r : payload<Kind::scope_begin>(s).memory)
    t.exec->events->memory({MemoryEvent::What::Scope, t.index, t.temps, r.offset, r.bytes});
  return s + 1;
}

// Memory and semaphores are given back: copies that still use them move now, and nothing may be left in a semaphore.
// Where there are several threads, another one may have signalled ahead: the next scope finds that, and what is left in
// the end is looked at when the kernel ends.
const Step* scope_end(Thread& t, const Step* s) {
  const auto& p = payload<Kind::scope_end>(s);
  Execution& ex = *t.exec;
  const memory::SemaphoreLayout& layout = ex.semaphore_layout;
  for (const ScopePayload::Range& r : p.memory)
    for (size_t i; (i = ex.copies.first_using(t.index, t.temps, r.offset, r.offset + r.bytes)) < ex.copies.size();)
      complete_copy(ex, i);
  for (const ScopePayload::Range& r : p.memory)
    ex.events->memory({MemoryEvent::What::Freed, t.index, t.temps, r.offset, r.bytes});
  for (int b : p.semaphores)
    for (int64_t i = 0; i < layout.blocks()[static_cast<size_t>(b)].count; ++i) {
      const int64_t id = layout.id(b, i, t.unit);
      for (size_t c; (c = ex.copies.first_completing(Completion::Kind::Semaphore, id)) < ex.copies.size();)
        complete_copy(ex, c);
      if (ex.threads.size() == 1) diagnose(t).left_over(t, s, id);
    }
  return s + 1;
}

}  // namespace pallasim::interp::ops
