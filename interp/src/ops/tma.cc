// Bulk copies between global and shared memory (TMA). A load is one arrival at its barrier, which expects its bytes;
// stores are operations of the thread's bulk stream, in groups that complete in order.
#include "../plan/payload/bulk.h"
#include "../plan/payload/copies.h"
#include "../plan/payload/rows.h"

#include <algorithm>

#include "chosen.h"
#include "copies.h"
#include "findings.h"
#include "footprint.h"
#include "units.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncOperation, memory::Completion, memory::Side;

AsyncOperation movement_of(const Thread& t, const Step* s, const BulkCopyPayload& p) {
  AsyncOperation op = movement(t, s, p.kind, p.src, p.dst, p.dtype);
  op.combine = p.combine;
  return op;
}

// What exists of a box: elements [begin, end) of each dimension.
struct Inside {
  int64_t begin[memory::kMaxRank], end[memory::kMaxRank];
};

Inside inside(const Thread& t, const CopySide& box, const Side& all) {
  const bool none = is_closed(t, box);
  const auto count = [&](const std::vector<uint32_t>& slots, size_t d, int64_t otherwise) {
    return std::min(all.dims[d], given(t, slots, d, otherwise));
  };
  Inside in;
  for (int d = 0; d < all.rank; ++d) {
    in.begin[d] = count(box.before, static_cast<size_t>(d), 0);
    in.end[d] = none ? in.begin[d] : std::max(in.begin[d], count(box.valid, static_cast<size_t>(d), all.dims[d]));
  }
  return in;
}

// Makes of an operation on a whole box one on elements [lo, hi) of its dimension `part` and all of the others, as far
// as they exist. Of a load what does not exist is 0; of a store it is dropped.
void clip(const Inside& in, int part, int64_t lo, int64_t hi, bool load, AsyncOperation* op) {
  Side &src = op->reads.front(), &dst = op->writes.front();
  const int64_t size = src.element_bytes();
  for (int d = 0; d < src.rank; ++d) {
    const int64_t from = d == part ? lo : 0, to = d == part ? hi : src.dims[d];
    const int64_t begin = std::clamp(in.begin[d], from, to), end = std::clamp(in.end[d], begin, to);
    src.place.offset += begin * src.strides[d] * size;
    dst.place.offset += (load ? from : begin) * dst.strides[d] * size;
    if (load) op->skipped += (begin - from) * dst.strides[d] * size;
    src.dims[d] = end - begin;
    dst.dims[d] = load ? to - from : end - begin;
    if (src.dims[d] < dst.dims[d]) op->rest = memory::Rest::Zeros;
  }
}

int64_t bytes_of(const Side& side) {
  int64_t n = 1;
  for (int d = 0; d < side.rank; ++d) n = memory::mul(n, side.dims[d]);
  return (n * ir::bit_width(side.dtype) + 7) / 8;
}

// Each CTA reads its part of the box for all of them, or its tile for itself. Every barrier gets the bytes of all parts
// that arrive with it; where the first CTA keeps count, its own gets all.
void load_part(Thread& t, const Step* s, const BulkCopyPayload& p, AsyncOperation& op, int64_t bytes) {
  const std::vector<int32_t> receivers = units_of(t, s, p.receivers);
  const auto n = static_cast<int64_t>(receivers.size()),
             own = std::find(receivers.begin(), receivers.end(), t.unit) - receivers.begin();
  const int64_t extent = p.src.extents.dims[static_cast<size_t>(p.part)], lo = extent * own / n,
                hi = extent * (own + 1) / n;
  if (lo == hi) return;
  const int64_t begin = bytes * lo / extent, end = bytes * hi / extent;
  clip(inside(t, p.src, op.reads.front()), p.part, lo, hi, true, &op);
  Side part = op.writes.front();
  if (p.tiles) part.place.offset -= lo * part.strides[p.part] * part.element_bytes();
  op.writes.clear();
  for (int32_t unit : receivers) {
    if (p.tiles && unit != t.unit) continue;
    part.place.thread = begun(t, unit);
    op.writes.add(part);
    op.after_write.add(
        {Completion::Kind::Barrier, barrier_id(t, p.barrier, p.to_leader ? receivers.front() : unit), 0, end - begin});
  }
  issue(t, s, op);
}

// A run of neighbouring rows of those that a list names.
struct RowRun {
  int64_t at, count;  // in the list
  int64_t row;        // of the first; rows that do not exist come one by one
  bool exists;
};

std::vector<RowRun> chosen_runs(const Thread& t, const ChosenRows& r) {
  const int64_t rows = r.extent_slot == Addr::kNoSlot ? r.extent : t.slot<int64_t>(r.extent_slot);
  const std::vector<int64_t> list = chosen_rows(t, r, r.count);
  std::vector<RowRun> runs;
  for (int64_t i = 0; i < r.count; ++i) {
    const int64_t row = list[static_cast<size_t>(i)];
    const bool exists = row >= 0 && row < rows;
    if (exists && !runs.empty() && runs.back().exists && runs.back().row + runs.back().count == row)
      ++runs.back().count;
    else runs.push_back({i, 1, row, exists});
  }
  return runs;
}

// Rows of global memory and of the other side. `issue` is given each run of them; a load fills those that do not exist.
template <typename F>
void for_chosen(Thread& t, const BulkCopyPayload& p, const AsyncOperation& all, bool load, const F& issue) {
  const size_t d = p.rows.dim;
  const int64_t size = ir::byte_size(p.dtype);
  for (const RowRun& run : chosen_runs(t, p.rows)) {
    AsyncOperation op = all;
    Side &src = op.reads.front(), &dst = op.writes.front();
    src.dims[d] = run.count;
    const int64_t far = run.exists ? run.row : 0;
    src.place.offset += (load ? far : run.at) * src.strides[d] * size;
    dst.place.offset += (load ? run.at : far) * dst.strides[d] * size;
    Inside in = inside(t, load ? p.src : p.dst, src);
    in.begin[d] = 0, in.end[d] = run.exists ? run.count : 0;
    clip(in, -1, 0, 0, load, &op);
    issue(run, op);
  }
}

void load_rows(Thread& t, const Step* s, const BulkCopyPayload& p, const AsyncOperation& all, int64_t bytes) {
  for_chosen(t, p, all, true, [&](const RowRun& run, AsyncOperation& op) {
    op.after_write.front().bytes = bytes * (run.at + run.count) / p.rows.count - bytes * run.at / p.rows.count;
    issue(t, s, op);
  });
}

int64_t bulk_stream(const Thread& t) { return t.exec->stream_of(memory::AsyncEngine::Bulk, t.index); }

// The list alone: what boxes touch is told with their copies.
void list_box(const BulkCopyPayload& p, Boxes& out) {
  if (p.chooses) out.read(p.rows.list, {&p.rows.count, 1}, {&p.rows.stride, 1}, ir::byte_size(p.rows.dtype));
}

}  // namespace

void bulk_load_footprint(Thread&, const Step& s, Boxes& out) { list_box(payload<Kind::bulk_load>(s), out); }
void bulk_store_footprint(Thread&, const Step& s, Boxes& out) { list_box(payload<Kind::bulk_store>(s), out); }

const Step* bulk_load(Thread& t, const Step* s) {
  const auto& p = payload<Kind::bulk_load>(s);
  AsyncOperation op = movement_of(t, s, p);
  const int64_t barrier = barrier_id(t, p.barrier), bytes = bytes_of(op.reads.front());
  const bool leads = !p.to_leader || units_of(t, s, p.receivers).front() == t.unit;
  if (leads) arrive_expecting(t, barrier, p.to_leader && !p.tiles ? memory::mul(bytes, p.receivers.count()) : bytes);
  if (p.receivers.elsewhere()) {
    load_part(t, s, p, op, bytes);
  } else {
    op.after_write.add({Completion::Kind::Barrier, barrier, 0, bytes});
    if (p.chooses) {
      load_rows(t, s, p, op, bytes);
    } else {
      clip(inside(t, p.src, op.reads.front()), -1, 0, 0, true, &op);
      issue(t, s, op);
    }
  }
  t.exec->progressed = true;
  tell_of_barriers(t, s);
  return s + 1;
}

// Registers are read at once, so the bytes move at once.
const Step* peer_store(Thread& t, const Step* s) {
  const auto& p = payload<Kind::peer_store>(s);
  const int32_t unit = unit_of(t, s, p.peer);
  CopySide src;
  src.addr = p.src;
  src.extents = p.dst.extents;
  src.strides = memory::dense_strides(p.dst.extents.dims);
  AsyncOperation op = movement(t, s, memory::AsyncKind::peer_store, src, p.dst, p.dtype);
  op.combine = p.combine;
  op.writes.front().place.thread = begun(t, unit);
  const int64_t bytes = bytes_of(op.reads.front());
  const int64_t barrier = barrier_id(t, p.barrier, unit);
  op.after_write.add({Completion::Kind::Barrier, barrier, 0, bytes});
  arrive_expecting(t, barrier, bytes);
  issue(t, s, op, Moves::Now);
  tell_of_barriers(t, s);
  return s + 1;
}

const Step* bulk_store(Thread& t, const Step* s) {
  const auto& p = payload<Kind::bulk_store>(s);
  Execution& ex = *t.exec;
  AsyncOperation op = movement_of(t, s, p);
  const memory::AsyncRow& kind = memory::row(op.kind);
  op.stream = ex.stream_of(kind.engine, t.index);
  op.group = ex.streams.issue(op.stream);
  if (kind.after_read == Completion::Kind::Group) op.after_read.add({Completion::Kind::Group, op.stream});
  op.after_write.add({Completion::Kind::Group, op.stream});
  if (p.receivers.elsewhere()) {
    clip(inside(t, p.dst, op.reads.front()), -1, 0, 0, false, &op);
    Side to = op.writes.front();
    op.writes.clear();
    for (const int32_t unit : units_of(t, s, p.receivers, "copy")) {
      to.place.thread = ~(unit / ex.device_threads);
      op.writes.add(to);
    }
    issue(t, s, op);
  } else if (p.chooses) {
    for_chosen(t, p, op, false, [&](const RowRun& run, AsyncOperation& part) {
      if (run.at > 0) part.group = ex.streams.issue(part.stream);
      issue(t, s, part);
    });
  } else {
    clip(inside(t, p.dst, op.reads.front()), -1, 0, 0, false, &op);
    issue(t, s, op);
  }
  ex.progressed = true;
  return s + 1;
}

const Step* commit_group(Thread& t, const Step* s) {
  t.exec->streams.commit(bulk_stream(t));
  t.exec->events->sync({SyncEvent::What::Commit, t.index, bulk_stream(t)});
  return s + 1;
}

const Step* wait_groups(Thread& t, const Step* s) {
  const auto& p = payload<Kind::wait_groups>(s);
  return wait_for_groups(t, s, bulk_stream(t), t.slot<int32_t>(p.most_slot), p.reads);
}

const Step* fence_proxy(Thread& t, const Step* s) {
  t.exec->events->sync({SyncEvent::What::Fence, t.index});
  return s + 1;
}

}  // namespace pallasim::interp::ops
