// Bulk copies between global and shared memory (TMA). A load is one arrival at its barrier, which expects its bytes;
// stores are operations of the thread's bulk stream, in groups that complete in order.
#include "../plan/payload/bulk.h"
#include "../plan/payload/copies.h"
#include "../plan/payload/rows.h"

#include <algorithm>

#include "cluster.h"
#include "copies.h"
#include "elements.h"
#include "findings.h"
#include "footprint.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncCopy, memory::Completion;

AsyncCopy copy_of(const Thread& t, const Step* s, const BulkCopyPayload& p) {
  return copy_between(t, s, p.src, p.dst, p.dtype, p.combine);
}

// What exists of a box: elements [begin, end) of each dimension.
struct Inside {
  int64_t begin[memory::kMaxRank], end[memory::kMaxRank];
};

Inside inside(const Thread& t, const CopySide& box, const AsyncCopy& c) {
  const bool none = is_closed(t, box);
  const auto count = [&](const std::vector<uint32_t>& slots, size_t d, int64_t otherwise) {
    return std::min(c.dims[d], given(t, slots, d, otherwise));
  };
  Inside in;
  for (int d = 0; d < c.rank; ++d) {
    in.begin[d] = count(box.before, static_cast<size_t>(d), 0);
    in.end[d] = none ? in.begin[d] : std::max(in.begin[d], count(box.valid, static_cast<size_t>(d), c.dims[d]));
  }
  return in;
}

// Makes `c` a copy of elements [lo, hi) of dimension `part` of its box, and of all others', as far as they exist. Of a
// load what does not exist is 0; of a store it is dropped.
void clip(const Inside& in, int part, int64_t lo, int64_t hi, bool load, AsyncCopy* c) {
  const int64_t size = ir::byte_size(c->dtype);
  for (int d = 0; d < c->rank; ++d) {
    const int64_t from = d == part ? lo : 0, to = d == part ? hi : c->dims[d];
    const int64_t begin = std::clamp(in.begin[d], from, to), end = std::clamp(in.end[d], begin, to);
    c->src.offset += begin * c->src_strides[d] * size;
    c->dst.offset += (load ? from : begin) * c->dst_strides[d] * size;
    if (load) c->skipped += (begin - from) * c->dst_strides[d] * size;
    c->whole[d] = to - from;
    c->dims[d] = end - begin;
    if (load && c->dims[d] < c->whole[d]) c->fills = c->zeros = true;
  }
}

int64_t bytes_of(const AsyncCopy& c) {
  int64_t n = 1;
  for (int d = 0; d < c.rank; ++d) n = memory::mul(n, c.dims[d]);
  return (n * ir::bit_width(c.dtype) + 7) / 8;
}

// Each CTA reads its part of the box for all of them, or its tile for itself. Every barrier gets the bytes of all parts
// that arrive with it; where the first CTA keeps count, its own gets all.
void load_part(Thread& t, const Step* s, const BulkCopyPayload& p, const AsyncCopy& all, int64_t bytes) {
  const std::vector<int32_t> receivers = units_of(t, p.receivers);
  const auto n = static_cast<int64_t>(receivers.size()),
             own = std::find(receivers.begin(), receivers.end(), t.unit) - receivers.begin();
  const int64_t extent = p.src.extents.dims[static_cast<size_t>(p.part)], lo = extent * own / n,
                hi = extent * (own + 1) / n;
  if (lo == hi) return;
  const int64_t begin = bytes * lo / extent, end = bytes * hi / extent;
  AsyncCopy c = all;
  clip(inside(t, p.src, c), p.part, lo, hi, true, &c);
  if (p.tiles) c.dst.offset -= lo * c.dst_strides[p.part] * ir::byte_size(c.dtype);
  for (int32_t unit : receivers) {
    if (p.tiles && unit != t.unit) continue;
    c.dst.thread = begun(t, unit);
    const int64_t barrier = barrier_id(t, p.barrier, p.to_leader ? receivers.front() : unit);
    c.after_write = {Completion::Kind::Barrier, barrier, 0, end - begin};
    issue(t, s, c, false, !p.tiles && unit != receivers.front());  // the box is read once
  }
}

// A run of neighbouring rows of those that a list names.
struct RowRun {
  int64_t at, count;  // in the list
  int64_t row;        // of the first; rows that do not exist come one by one
  bool exists;
};

std::vector<RowRun> chosen_runs(const Thread& t, const ChosenRows& r) {
  const int64_t size = ir::byte_size(r.dtype),
                rows = r.extent_slot == Addr::kNoSlot ? r.extent : t.slot<int64_t>(r.extent_slot);
  const std::byte* list = t.resolve(r.list);
  std::vector<RowRun> runs;
  for (int64_t i = 0; i < r.count; ++i) {
    const int64_t row = integer_element(list + i * r.stride * size, r.dtype);
    const bool exists = row >= 0 && row < rows;
    if (exists && !runs.empty() && runs.back().exists && runs.back().row + runs.back().count == row)
      ++runs.back().count;
    else runs.push_back({i, 1, row, exists});
  }
  return runs;
}

// Rows of global memory and of the other side. `issue` is given each run of them; a load fills those that do not exist.
template <typename F>
void for_chosen(Thread& t, const BulkCopyPayload& p, const AsyncCopy& all, bool load, const F& issue) {
  const size_t d = p.rows.dim;
  const int64_t size = ir::byte_size(p.dtype);
  for (const RowRun& run : chosen_runs(t, p.rows)) {
    AsyncCopy c = all;
    c.dims[d] = run.count;
    const int64_t far = run.exists ? run.row : 0;
    c.src.offset += (load ? far : run.at) * c.src_strides[d] * size;
    c.dst.offset += (load ? run.at : far) * c.dst_strides[d] * size;
    Inside in = inside(t, load ? p.src : p.dst, c);
    in.begin[d] = 0, in.end[d] = run.exists ? run.count : 0;
    clip(in, -1, 0, 0, load, &c);
    issue(run, c);
  }
}

void load_rows(Thread& t, const Step* s, const BulkCopyPayload& p, const AsyncCopy& all, int64_t bytes) {
  for_chosen(t, p, all, true, [&](const RowRun& run, AsyncCopy& c) {
    c.after_write.bytes = bytes * (run.at + run.count) / p.rows.count - bytes * run.at / p.rows.count;
    issue(t, s, c);
  });
}

// The list alone: what boxes touch is told with their copies.
void list_box(const BulkCopyPayload& p, Boxes& out) {
  if (p.chooses) out.read(p.rows.list, {&p.rows.count, 1}, {&p.rows.stride, 1}, ir::byte_size(p.rows.dtype));
}

}  // namespace

void bulk_load_footprint(Thread&, const Step& s, Boxes& out) { list_box(payload<Kind::bulk_load>(s), out); }
void bulk_store_footprint(Thread&, const Step& s, Boxes& out) { list_box(payload<Kind::bulk_store>(s), out); }

const Step* bulk_load(Thread& t, const Step* s) {
  const auto& p = payload<Kind::bulk_load>(s);
  Execution& ex = *t.exec;
  AsyncCopy c = copy_of(t, s, p);
  const int64_t barrier = barrier_id(t, p.barrier), bytes = bytes_of(c);
  c.after_write = {Completion::Kind::Barrier, barrier, 0, bytes};
  const bool leads = !p.to_leader || units_of(t, p.receivers).front() == t.unit;
  if (leads) arrive_expecting(t, barrier, p.to_leader && !p.tiles ? memory::mul(bytes, p.receivers.count()) : bytes);
  if (p.receivers.elsewhere()) {
    load_part(t, s, p, c, bytes);
  } else if (p.chooses) {
    load_rows(t, s, p, c, bytes);
  } else {
    clip(inside(t, p.src, c), -1, 0, 0, true, &c);
    issue(t, s, c);
  }
  ex.progressed = true;
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
  AsyncCopy c = copy_between(t, s, src, p.dst, p.dtype, p.combine);
  c.dst.thread = begun(t, unit);
  const int64_t bytes = bytes_of(c);
  const int64_t barrier = barrier_id(t, p.barrier, unit);
  c.after_write = {Completion::Kind::Barrier, barrier, 0, bytes};
  arrive_expecting(t, barrier, bytes);
  issue(t, s, c, true);
  tell_of_barriers(t, s);
  return s + 1;
}

const Step* bulk_store(Thread& t, const Step* s) {
  const auto& p = payload<Kind::bulk_store>(s);
  Execution& ex = *t.exec;
  AsyncCopy c = copy_of(t, s, p);
  c.forwarded = p.forwarded;
  c.stream = t.index;
  c.group = ex.streams.issue(c.stream);
  c.after_read = c.after_write = {Completion::Kind::Group, c.stream};  // a wait may be for the reads alone
  if (p.chooses) {
    for_chosen(t, p, c, false, [&](const RowRun& run, AsyncCopy& part) {
      if (run.at > 0) part.group = ex.streams.issue(part.stream);
      issue(t, s, part);
    });
  } else {
    clip(inside(t, p.dst, c), -1, 0, 0, false, &c);
    issue(t, s, c);
  }
  ex.progressed = true;
  return s + 1;
}

const Step* commit_group(Thread& t, const Step* s) {
  t.exec->streams.commit(t.index);
  t.exec->events->sync({SyncEvent::What::Commit, t.index, t.index});
  return s + 1;
}

// The copies of the groups that are awaited move now, if they did not before.
const Step* wait_groups(Thread& t, const Step* s) {
  const auto& p = payload<Kind::wait_groups>(s);
  Execution& ex = *t.exec;
  const int64_t most = std::max<int64_t>(t.slot<int32_t>(p.most_slot), 0), last = complete_groups(ex, t.index, most);
  ex.streams.wait(t.index, most, p.reads, t.index);
  ex.events->sync({SyncEvent::What::Groups, t.index, t.index, most, last, p.reads});
  return s + 1;
}

const Step* fence_proxy(Thread& t, const Step* s) {
  t.exec->events->sync({SyncEvent::What::Fence, t.index});
  return s + 1;
}

}  // namespace pallasim::interp::ops
