// Copies in flight: issue, completion, waits, ends of scopes.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "../plan/payload/copies.h"
#include "copies.h"
#include "elements.h"
#include "findings.h"
#include "parts.h"
#include "units.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncOperation, memory::Completion, memory::Side;

memory::Place place(const Thread& t, const Addr& a) {
  return t.exec->place(t, a.buffer, a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn)));
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

// Combines what comes with the destination, row by row.
void combine_rows(memory::Combine how, const Side& from, const Side& to, std::byte* dst, const std::byte* src) {
  const KernelTable& k = kernels();
  const LoadFn load = k.load(to.dtype);
  const StoreFn store = k.store(to.dtype);
  const StripFn combine = k.strip(op_of(how), to.dtype);
  const bool counts = how == memory::Combine::Inc || how == memory::Combine::Dec,
             bulk = how >= memory::Combine::BulkAdd;
  StripParams params;
  params.dtype = to.dtype;
  const int64_t size = to.element_bytes();
  const int inner = from.rank - 1;
  const int64_t n = from.rank == 0 ? 1 : from.dims[inner];
  alignas(64) std::byte a[kStrip * 16], b[kStrip * 16];
  memory::IndexVector index(static_cast<size_t>(std::max(inner, 0)));
  for (;;) {
    int64_t src_at = 0, dst_at = 0;
    for (int d = 0; d < inner; ++d) src_at += index[d] * from.strides[d], dst_at += index[d] * to.strides[d];
    const int64_t ss = from.rank == 0 ? 1 : from.strides[inner], ds = from.rank == 0 ? 1 : to.strides[inner];
    for (int64_t i = 0; i < n; i += kStrip / 2) {
      const int64_t m = std::min<int64_t>(kStrip / 2, n - i);
      std::byte* at = dst + (dst_at + i * ds) * size;
      load(a, at, m, ds);
      load(b, src + (src_at + i * ss) * size, m, ss);
      if (counts) count(how, reinterpret_cast<uint32_t*>(a), reinterpret_cast<const uint32_t*>(b), m);
      else if (bulk) bulk_floats(how, reinterpret_cast<float*>(a), reinterpret_cast<const float*>(b), m);
      else combine(a, a, b, nullptr, m, params);
      store(at, a, m, ds);
    }
    if (inner <= 0 || !memory::next_index(index, static_cast<size_t>(inner), from.dims)) return;
  }
}

// The output that is written to and whose poison waits; else the end.
auto waiting_poison(Execution& ex, const Side& to) {
  return std::find_if(ex.deferred_init.begin(), ex.deferred_init.end(),
                      [&](const DeferredInit& o) { return o.buffer == to.place.buffer; });
}

// What is written to an output whose poison waits: `dims` of it. Rows that do not follow each other are not kept track
// of: the poison comes now.
void note_written(Execution& ex, const Side& to, const int64_t* dims) {
  const auto u = waiting_poison(ex, to);
  if (u == ex.deferred_init.end()) return;
  const int64_t bytes = dense_bytes(dims, to.strides, to.rank, to.element_bytes());
  if (bytes == 0) {
    ex.poison_gaps(*u);
    ex.deferred_init.erase(u);
    return;
  }
  u->written.add(to.place.offset, to.place.offset + bytes);
}

// Whether the sides share a byte, whatever names their memory has.
bool overlap(const AsyncOperation& op, const Side& from, const Side& to, const std::byte* dst, const std::byte* src) {
  const memory::Span w = op.span(to), r = op.span(from);
  return dst + w.begin < src + r.end && src + r.begin < dst + w.end;
}

// The elements of `from` go to `to`, whose rest is filled.
void move_part(Execution& ex, const AsyncOperation& op, const Side& from, const Side& to) {
  std::byte* dst = ex.address(to.place);
  const int size = to.element_bytes();
  if (op.rest != memory::Rest::None) {
    const memory::Element e =
        op.rest == memory::Rest::Zeros ? memory::Element{} : memory::uninitialized(to.dtype, ex.options->uninitialized);
    fill_strided(dst, to.strides, &e, to.dims, to.rank, size);
  }
  if (from.empty()) return;
  if (!ex.deferred_init.empty()) note_written(ex, to, from.dims);
  const std::byte* src = ex.address(from.place);
  dst += op.skipped;
  if (op.combine != memory::Combine::Replace) return combine_rows(op.combine, from, to, dst, src);
  if (!ex.host.helpers || overlap(op, from, to, dst, src))
    copy_strided(dst, to.strides, src, from.strides, from.dims, from.rank, size);
  else copy_in_parts(ex, dst, to.strides, src, from.strides, from.dims, from.rank, size);
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

void move_rows(Execution& ex, const AsyncOperation& op, const Side& all_from, const Side& all_to) {
  const std::vector<int64_t>& rows = op.rows;
  const bool of_dst = all_to.row_dim >= 0;
  const int d = of_dst ? all_to.row_dim : all_from.row_dim;
  Side from = all_from, to = all_to;  // of one row
  from.row_dim = to.row_dim = -1;
  from.dims[d] = to.dims[d] = 1;
  const int64_t size = to.element_bytes(), to_row = to.strides[d] * size, from_row = from.strides[d] * size,
                bytes = dense_bytes(from.dims, to.strides, to.rank, size);
  if (op.combine == memory::Combine::Replace && op.rest == memory::Rest::None && op.skipped == 0 &&
      waiting_poison(ex, to) == ex.deferred_init.end() && bytes > 0 &&
      bytes == dense_bytes(from.dims, from.strides, from.rank, size))
    return copy_rows(ex.address(to.place), to_row, ex.address(from.place), from_row, static_cast<size_t>(bytes), rows,
                     of_dst);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto next = static_cast<int64_t>(i);
    to.place.offset = all_to.place.offset + (of_dst ? rows[i] : next) * to_row;
    from.place.offset = all_from.place.offset + (of_dst ? next : rows[i]) * from_row;
    if (rows[i] >= 0) move_part(ex, op, from, to);
  }
}

// What the tensor pipe arrives at is told by threads: slots of a ring are given back so, and nobody waits for the last.
void fulfil(Execution& ex, const AsyncOperation& op, const Completion& c) {
  const int32_t arriver = memory::is_tensor(memory::row(op.kind).engine) ? op.thread : -1;
  const auto ended = [&](bool phase) {
    if (phase) ex.events->sync({SyncEvent::What::Phase, -1, c.object});
  };
  if (c.kind == Completion::Kind::Semaphore) ex.semaphores.signal(c.object, c.count, &ex.woken);
  if (c.kind == Completion::Kind::Barrier) {
    if (c.count > 0) ended(ex.barriers.arrive(c.object, c.count, arriver, &ex.woken));
    if (c.bytes > 0) ended(ex.barriers.deliver(c.object, c.bytes, &ex.woken));
  }
}

bool has_waiters(const Execution& ex, const AsyncOperation& op) {
  const auto waits = [&](const Completion& c) {
    return (c.kind == Completion::Kind::Semaphore && ex.semaphores.has_waiters(c.object)) ||
           (c.kind == Completion::Kind::Barrier && ex.barriers.has_waiters(c.object)) ||
           (c.kind == Completion::Kind::Group && ex.streams.has_waiters(c.object));
  };
  return op.after_write.any(waits) || op.after_read.any(waits);
}

// By AsyncKind.
constexpr std::array kMovers{
#define ASYNC(kind, word, moves, ...) &move_##moves,
#include "pallasim/memory/async.def"
};

// Without values those alone that control goes by: blocks of scalars, and what a request for a cluster got.
bool moves(const Execution& ex, const AsyncOperation& op) {
  if (ex.makes_values || op.kind == memory::AsyncKind::cluster_request) return true;
  const auto& operands = ex.plan->module.operands;
  const size_t o = op.kind == memory::AsyncKind::block ? op.reads.front().place.buffer - size_t{kFirstOperandBuffer}
                                                       : operands.size();
  return o < operands.size() && operands[o].space == ir::Space::Smem;
}

void complete(Execution& ex, const AsyncOperation& op) {
  if (moves(ex, op)) kMovers[static_cast<size_t>(op.kind)](ex, op);
  ex.events->moved(op);
  for (const Completion& c : op.after_read) fulfil(ex, op, c);
  for (const Completion& c : op.after_write) fulfil(ex, op, c);
  if (op.stream >= 0) ex.streams.writes_done(op.stream, op.group, false, &ex.woken);
  ex.events->completed(op);
  ex.progressed = true;
}

}  // namespace

void move_shape(Execution& ex, const AsyncOperation& op) {
  const Side& from = op.reads.front();
  const Transfer* way = transfer_of(ex.plan->steps[static_cast<size_t>(op.step)]);
  if (way && way->forwarded) return;
  for (const Side& to : op.writes)
    if (from.row_dim >= 0 || to.row_dim >= 0) {
      arrives_there(ex, to, way ? way->dst.elidable : -1);
      move_rows(ex, op, from, to);
    } else if (!way || way->dst.elidable < 0 || !elides(ex, op, to, way->dst.elidable, way->src.constant))
      move_part(ex, op, from, to);
}

void move_nothing(Execution&, const AsyncOperation&) {}

void move_registers(Execution& ex, const AsyncOperation& op) {
  const Side& to = op.writes.front();
  const std::vector<int64_t> dims(to.dims, to.dims + to.rank);
  copy_strided(ex.address(to.place), to.strides, op.held.data(), dense_strides(dims).data(), to.dims, to.rank,
               to.element_bytes());
}

int64_t dense_bytes(const int64_t* dims, const int64_t* strides, int rank, int64_t size) {
  int64_t elements = 1;
  for (int d = rank; d-- > 0; elements *= dims[d])
    if (dims[d] != 1 && strides[d] != elements) return 0;
  return elements * size;
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

AsyncOperation movement(const Thread& t, const Step* s, memory::AsyncKind kind, const CopySide& src,
                        const CopySide& dst, ir::DType dtype) {
  AsyncOperation op;
  op.kind = kind;
  op.step = s->id;
  op.thread = t.index;
  const auto fill = [&](Side& side, const CopySide& from) {
    side.dtype = dtype;
    side.rank = static_cast<int>(src.strides.size());
    for (size_t d = 0; d < src.strides.size(); ++d) side.dims[d] = extent(t, src.extents, d);
    std::copy(from.strides.begin(), from.strides.end(), side.strides);
    side.place = place(t, from.addr);
  };
  fill(op.reads.add(), src);
  fill(op.writes.add(), dst);
  return op;
}

void issue(Thread& t, const Step* s, AsyncOperation& op, Moves moves) {
  Execution& ex = *t.exec;
  op.id = ex.copies_issued++;
  op.number = t.issued++;
  ex.events->issued(t, *s, op);
  const Options::Copies when = ex.copies_move;
  const bool late = moves == Moves::Late && when == Options::Copies::AtIssue;
  if (moves == Moves::Now || (when == Options::Copies::AtIssue && !late) ||
      (when == Options::Copies::AtWait && has_waiters(ex, op))) {
    for (size_t i = 0; op.in_order() && i < ex.copies.size();) {  // what is before it in its stream
      const bool before = ex.copies[i].stream == op.stream;
      if (before) complete_copy(ex, i);
      i = before ? 0 : i + 1;
    }
    complete(ex, op);
  } else {
    ex.copies.push(std::move(op));
  }
}

void clip(const Thread& t, const DmaPayload& p, AsyncOperation* op) {
  if (p.src.valid.empty() && p.dst.valid.empty() && p.src.gates.empty() && p.dst.gates.empty()) return;
  const bool no_src = is_closed(t, p.src), no_dst = is_closed(t, p.dst);
  Side &from = op->reads.front(), &to = op->writes.front();
  auto valid = [&](const CopySide& side, size_t d) {
    if (&side == &p.src ? no_src : no_dst) return int64_t{0};
    return std::min(from.dims[d], given(t, side.valid, d, from.dims[d]));
  };
  bool unread = false;
  for (int d = 0; d < from.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    to.dims[d] = valid(p.dst, i);
    from.dims[d] = std::min(valid(p.src, i), to.dims[d]);
    unread = unread || from.dims[d] < to.dims[d];
  }
  if (unread && op->combine == memory::Combine::Replace && !to.empty()) op->rest = memory::Rest::Unwritten;
  else to.set_dims(from.dims);
}

// Who was woken for a part of what it waits for waits still, until it looks.
static bool is_awaited(const Execution& ex, const AsyncOperation& op) {
  const auto awaits = [&](const Completion& c) {
    constexpr Wait::Kind kKinds[] = {Wait::Kind::None, Wait::Kind::Semaphore, Wait::Kind::Barrier, Wait::Kind::Group};
    return c.kind != Completion::Kind::Nothing &&
           std::any_of(ex.threads.begin(), ex.threads.end(), [&](const Thread& t) {
             return t.stop == Stop::Blocked && t.wait.kind == kKinds[static_cast<size_t>(c.kind)] &&
                    t.wait.object == c.object;
           });
  };
  return has_waiters(ex, op) || op.after_write.any(awaits) || op.after_read.any(awaits);
}

bool complete_awaited(Execution& ex) {
  for (size_t i = 0; i < ex.copies.size(); ++i)
    if (is_awaited(ex, ex.copies[i])) {
      complete_copy(ex, ex.copies.head_of(i));
      return true;
    }
  return false;
}

void complete_groups(Execution& ex, int64_t stream, int64_t most) {
  const int64_t last = ex.streams.last_awaited(stream, most);
  for (size_t i; last >= 0 && (i = ex.copies.next({Completion::Kind::Group, stream, last})) < ex.copies.size();)
    complete_copy(ex, i);
}

void complete_copy(Execution& ex, size_t index) { complete(ex, ex.copies.take(index)); }

[[gnu::noinline]] static void note_outside(const Thread& t, const Step* s, const ValidPayload& p, int64_t start,
                                           int64_t size, int64_t extent) {
  if (std::any_of(p.sizes.begin(), p.sizes.end(), [&](uint32_t n) { return t.slot<int64_t>(n) == 0; })) return;
  IndexTerm term = p.noted;
  term.size = size;
  if (p.notes == ValidPayload::Notes::Box) {
    if (start < 0 || start >= extent) diagnose(t).note_box_outside(t, s, term, start, p.ref, p.shape);
  } else {
    diagnose(t).note_read_outside(t, s, term, start, p.ref, p.shape);
  }
}

const Step* valid_extent(Thread& t, const Step* s) {
  const auto& p = payload<Kind::valid_extent>(s);
  const int64_t extent = p.extent_slot == Addr::kNoSlot ? p.extent : t.slot<int64_t>(p.extent_slot);
  const int64_t start = p.start_slot == Addr::kNoSlot ? p.start
                        : p.wide                      ? t.slot<int64_t>(p.start_slot)
                                                      : t.slot<int32_t>(p.start_slot);
  const int64_t size = p.size_slot == Addr::kNoSlot ? p.size : t.slot<int64_t>(p.size_slot);
  t.slot<int64_t>(s->dst) = std::max<int64_t>(0, std::min(extent - start, size));
  if (p.noted.extent > 0 && size > 0 && (start < 0 || size > extent - start + p.noted.padding))
    note_outside(t, s, p, start, size, extent);
  return s + 1;
}

const Step* dma_start(Thread& t, const Step* s) {
  const auto& p = payload<Kind::dma_start>(s);
  Execution& ex = *t.exec;
  AsyncOperation op = movement(t, s, p.kind, p.src, p.dst, p.dtype);
  if (p.add) op.combine = memory::Combine::Add;
  const Side& from = op.reads.front();
  int64_t n = 1, to[memory::kMaxRank];
  bool same = p.src.strides.size() == p.dst.strides.size();
  for (int d = 0; d < from.rank; ++d) n = memory::mul(n, from.dims[d]);
  for (size_t d = 0; d < p.dst.strides.size(); ++d) {
    to[d] = extent(t, p.dst.extents, d);
    same = same && to[d] == from.dims[d];
  }
  if (!same) diagnose(t).copy_shapes_differ(t, s, p, {from.dims, p.src.strides.size()}, {to, p.dst.strides.size()});
  const int32_t receiver = unit_of(t, s, p.peer, "copy");
  op.writes.front().place.thread = begun(t, receiver);
  const auto count = [&](const SemPayload& sem) {
    const bool bytes = sem.block >= 0 && ex.plan->memory.semaphores.blocks()[static_cast<size_t>(sem.block)].bytes;
    return bytes ? machine_bytes(n, ir::bit_width(p.dtype)) : 1;
  };
  const int64_t sent = count(p.src_sem), received = count(p.dst_sem);
  clip(t, p, &op);
  if (p.src_sem.block >= 0) op.after_read.add({Completion::Kind::Semaphore, semaphore_id(t, p.src_sem), sent});
  op.after_write.add({Completion::Kind::Semaphore, semaphore_id(t, p.dst_sem, receiver), received});
  issue(t, s, op);
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
  AsyncOperation op = movement(t, s, memory::AsyncKind::dma, p.dst, p.dst, p.dtype);
  memory::Place& place = op.writes.front().place;
  if (p.peer.elsewhere()) {
    place.thread = begun(t, unit_of(t, s, p.peer, "copy"));
    const Thread& to = ex.threads[static_cast<size_t>(place.thread)];
    if (ex.device_of(to) == ex.device_of(t)) return s->jump;
    ex.set_alias(t, p.alias, {place.thread, place.buffer});
    t.slot<int64_t>(p.way) = place.offset - p.dst.addr.offset;
  }
  const Side& to = op.writes.front();
  if (p.dst.elidable >= 0) elides(ex, op, to, p.dst.elidable, p.dst.constant);
  else if (!ex.deferred_init.empty()) note_written(ex, to, to.dims);
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
      const int64_t id = layout.id(b, i, ex.semaphore_place(t, t.unit));
      for (size_t c; (c = ex.copies.next({Completion::Kind::Semaphore, id})) < ex.copies.size();) complete_copy(ex, c);
      if (ex.threads.size() == 1) diagnose(t).left_over(t, s, id);
    }
  return s + 1;
}

}  // namespace pallasim::interp::ops
