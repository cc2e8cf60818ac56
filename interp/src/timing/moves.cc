// What is under way: loads and stores of threads, copies, products.
#include <algorithm>
#include <cmath>

#include "../ops/footprint.h"
#include "../plan/kinds.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/places.h"
#include "clocks.h"

namespace pallasim::interp {

using hw::Unit;
using memory::AsyncKind, memory::AsyncOperation, memory::Place, memory::Side;

// -- loads and stores of threads --

bool Clocks::must_wait(Thread& t, const Step& s) {
  const StepCost& cost = costs_.of(s);
  if (cost.loads.empty() && cost.uses.empty()) return false;
  Clock& c = of(t.index);
  if (c.fetched != s.id) {
    for (const StepLoad& l : cost.loads)
      if (!l.writes) load(t, s, c, l, cost.line);
    c.fetched = s.id;
  }
  for (size_t i = 0; i < c.loads.size();) {
    if (std::find(cost.uses.begin(), cost.uses.end(), c.loads[i].value) == cost.uses.end()) {
      ++i;
      continue;
    }
    Flight& f = flights_.at(c.loads[i].tag);
    if (f.end < 0) {
      f.asks = true;
      f.thread = t.index;
      c.waits_for = c.loads[i].tag;
      c.blocked = c.at;
      c.blocked_step = s.id;
      return true;
    }
    flights_.erase(c.loads[i].tag);
    c.loads.erase(c.loads.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return false;
}

namespace {

uint64_t box_key(uint64_t buffer, int64_t offset) {
  const uint64_t key = (buffer * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(offset)) * 0xff51afd7ed558ccdu;
  return (key ^ (key >> 29)) | 1;
}

// What the first box is that a step reads of an operand; 0: nobody knows.
class FirstBox : public ops::Boxes {
 public:
  FirstBox(const Thread& t, const Step& s, uint32_t buffer) : Boxes(t, s), buffer_(buffer) {}
  bool wants(uint32_t buffer) const override { return buffer == buffer_; }
  uint64_t key = 0;

 protected:
  void box(const Access& a) override {
    if (key || a.write || a.buffer != buffer_) return;
    key = box_key(a.buffer, a.offset);
  }

 private:
  uint32_t buffer_;
};

// Where an access by indices begins, whatever its mask leaves out; 0: indices are arrays.
uint64_t gathered_box(const Thread& t, const GatherPayload& p) {
  uint64_t key = reinterpret_cast<uint64_t>(t.resolve(p.ref));
  const auto add = [&](int64_t x) { key = (key ^ static_cast<uint64_t>(x)) * 0xff51afd7ed558ccdu, key ^= key >> 29; };
  for (const GatherDim& d : p.ref_dims) {
    if (d.kind == GatherDim::Kind::Array) return 0;
    add(d.start);
    if (d.start_slot != Addr::kNoSlot)
      add(d.wide ? t.slot<int64_t>(d.start_slot) : int64_t{t.slot<int32_t>(d.start_slot)});
  }
  return key | 1;
}

// Where a load is that begins when its address is found.
uint64_t found_box(const Thread& t, const Step& s, const IndexPayload& p, int operand) {
  int64_t offset = s.a == Addr::kNoSlot ? 0 : t.slot<int64_t>(s.a);
  for (const IndexTerm& term : p.terms)
    offset += (term.wide ? t.slot<int64_t>(term.slot) : int64_t{t.slot<int32_t>(term.slot)}) * term.stride;
  return box_key(kFirstOperandBuffer + static_cast<uint32_t>(operand), offset);
}

// What a trip that has not come to its loads reads, told by what the loads read last.
uint64_t of_trip(uint64_t box, int64_t trip) {
  return box ? (box + static_cast<uint64_t>(trip) * 0x9e3779b97f4a7c15u) | 1 : 0;
}

}  // namespace

// Where no cache holds all arrays, what was read before may be there still: programs beside each other share much.
uint64_t Clocks::box_of(Thread& t, const Step& s, const StepLoad& l) {
  if (held_ || l.operand < 0) return 0;
  if (s.kind == Kind::gather) return gathered_box(t, payload<Kind::gather>(s));
  if (s.kind == Kind::load_in_place) return gathered_box(t, payload<Kind::load_in_place>(s).access);
  if (s.kind == Kind::index_bounds) return found_box(t, s, payload<Kind::index_bounds>(s), l.operand);
  if (s.kind == Kind::clamp_index) return found_box(t, s, payload<Kind::clamp_index>(s), l.operand);
  FirstBox first(t, s, kFirstOperandBuffer + static_cast<uint32_t>(l.operand));
  ops::footprint(t, s, first);
  return first.key;
}

// When the device's memory has served who comes now. Others may ask for the same bytes before they are there.
double Clocks::from_memory(double now, int64_t device, double bytes) {
  return std::max(now, transfers_.free(hbm_[static_cast<size_t>(device)])) + bytes / rate(Rate::hbm_read_bandwidth);
}

// Programs go through the arrays side by side: what one of them fetches the others wait for, too.
Clocks::Source Clocks::source_of(const Clock& c, int64_t device, const StepLoad& l, uint64_t box) {
  const double near = rate(Rate::load_latency), far = rate(Rate::load_hbm_latency);
  if (held_) return {false, near, 0};
  if (l.operand < 0) return {true, far, 0};
  const double bytes = l.bytes * c.inner * c.outer;
  if (box) {
    const auto [hit, there] =
        caches_[static_cast<size_t>(device)].touch(box, bytes, from_memory(c.at, device, l.bytes) + far);
    return {!hit, hit ? near : far, there};
  }
  const auto o = static_cast<size_t>(l.operand);
  const auto all = static_cast<double>(ex_.plan->module.operands[o].array->num_bytes());
  const double after_first = near_[o] ? near : far;
  if (missed_[o] >= all && all <= rate(Rate::l2_bytes)) return {false, after_first, 0};
  missed_[o] += bytes;
  const bool miss = missed_[o] <= all || all > rate(Rate::l2_bytes);
  return {miss, miss ? far : after_first, 0};
}

int64_t Clocks::start_load(const Thread& t, Clock& c, const StepLoad& l, int line, uint64_t box) {
  Flight f;
  f.thread = t.index;
  f.line = line;
  f.issued = c.at;
  f.path = c.path;
  f.operand = l.operand;
  f.bytes = l.bytes;
  const int64_t tag = new_flight(std::move(f));
  const Source from = source_of(c, ex_.device_of(t), l, box);
  // Of a line that is not wanted whole a part is fetched in vain.
  const double lines = l.row > 0 ? std::max(1.0, rate(Rate::line_bytes) / l.row) * l.bytes : l.bytes;
  // What lies in one half of the cache comes from the other half for half of the SMs; what is read often lies in both.
  const bool own = l.operand >= 0 && !l.loop && own_[static_cast<size_t>(l.operand)];
  const double cached =
      lines * rate(Rate::l2_read_bandwidth) / rate(own ? Rate::l2_own_bandwidth : Rate::l2_load_bandwidth);
  const double fetched = l.row > 0 && l.row < rate(Rate::memory_line_bytes)
                             ? l.bytes * (1 + rate(Rate::part_line_bytes) / l.row)
                             : l.bytes;
  far_transfer(
      tag, c.at,
      {core_of(t), ex_.device_of(t), l.bytes, fetched, cached, lines, false, from.memory, from.latency, from.there});
  return tag;
}

void Clocks::load(Thread& t, const Step& s, Clock& c, const StepLoad& l, int line) {
  int64_t tag = -1;
  const uint64_t box = box_of(t, s, l);
  if (l.loop && settings_.stages > 1) {
    Clock::Trips& loop = c.trips[l.loop];
    auto& ahead = c.ahead[l.op];
    if (loop.now == 0) {
      ahead.clear();
      loop.loads.push_back({&l, box});
      for (int64_t i = 0; i < std::min<int64_t>(settings_.stages - 1, loop.all); ++i)
        ahead.push_back(start_load(t, c, l, line, stays_[l.op] ? box : of_trip(box, i)));
    } else {
      for (auto& x : loop.loads)
        if (x.load == &l) stays_[l.op] = std::exchange(x.box, box) == box;
      if (&l == loop.loads.front().load) next_loads(t, c, loop, line);
    }
    if (!ahead.empty()) {
      tag = ahead.front();
      ahead.erase(ahead.begin());
    }
  }
  if (tag < 0) tag = start_load(t, c, l, line, box);
  c.loads.push_back({l.op, l.value, tag});
}

// The loads of a loop begin together, when the products of the trip before have used the buffers.
void Clocks::next_loads(const Thread& t, Clock& c, const Clock::Trips& loop, int line) {
  const int64_t trip = loop.now + settings_.stages - 2;
  if (trip >= loop.all) return;
  for (const auto& x : loop.loads)
    c.ahead[x.load->op].push_back(start_load(t, c, *x.load, line, stays_[x.load->op] ? x.box : of_trip(x.box, trip)));
}

// A lane's operations follow each other, each behind a fence. Who wants what was there waits for the last one; the
// launch ends when all of them are done.
void Clocks::atomic(Thread& t, Clock& c, const Step& s, int line) {
  AtomicUnits& units = atomics_[static_cast<size_t>(ex_.device_of(t))];
  using Indices = AtomicUnits::Indices;
  const ir::Op* op = ex_.plan->ops_of(s).back();
  const Indices indices = ex_.makes_values ? Indices::Known : costs_.scattered(op) ? Indices::Scattered : Indices::Rows;
  const double end = units.take(t, s, indices, costs_.side_by_side(op), c.at, c.inner * c.outer);
  Flight f;
  f.thread = t.index;
  f.line = line;
  f.issued = c.at;
  f.path = c.path;
  transfers_.begin(c.at, std::max(0.0, end - c.at) + rate(Rate::store_latency), nullptr, 0, new_flight(std::move(f)));
  double elements = 1;
  for (const int64_t d : payload<Kind::atomic>(s).dims) elements *= static_cast<double>(d);
  advance(c, Causes::kLatency, line, std::floor((elements - 1) / settings_.lanes) * rate(Rate::atomic_latency));
  if (!payload<Kind::atomic>(s).has_old) return;
  advance(c, Causes::kLatency, line, std::max(0.0, end - c.at) + rate(Rate::load_latency));
}

// -- transfers --

int64_t Clocks::new_flight(Flight f) {
  const int64_t tag = next_tag_++;
  if (f.operation >= 0) by_operation_[f.operation] = tag;
  flights_.emplace(tag, std::move(f));
  return tag;
}

void Clocks::far_transfer(int64_t tag, double now, const Far& f) {
  hw::Transfers::Use uses[3];
  size_t n = 0;
  const auto d = static_cast<size_t>(f.device);
  // What is written takes more of the memory's time than what is read.
  const double weight = f.writes && gpu_ ? rate(Rate::hbm_read_bandwidth) / rate(Rate::hbm_write_bandwidth) : 1;
  const bool misses = f.misses && !held_;
  if (misses) uses[n++] = {hbm_[d], f.memory_bytes * weight};
  // And more of the cache's.
  const double cached = f.writes ? rate(Rate::l2_read_bandwidth) / rate(Rate::l2_write_bandwidth) : 1;
  if (gpu_) uses[n++] = {l2_[d], f.cache_bytes * cached};
  if (gpu_) uses[n++] = {ports_[static_cast<size_t>(f.core)], f.port_bytes};
  if (misses) bytes_[f.writes] += f.bytes;
  else fast_bytes_ += f.bytes;
  transfers_.begin(now, f.latency, uses, n, tag, f.there);
}

// Arrays that the kernel sees whole in its core's memory are there before it begins, and written back behind its end.
void Clocks::move_whole_arrays(const Thread& t, Clock& c, bool outputs) {
  double bytes = 0;
  for (const Window& w : t.body->windows) {
    const ir::Operand& o = ex_.plan->module.operands[static_cast<size_t>(w.operand)];
    const bool near = o.space == ir::Space::Vmem || o.space == ir::Space::Smem || o.space == ir::Space::Default;
    if (near && !w.modelled() && w.is_output == outputs && !ir::is_sync(w.dtype))
      bytes += static_cast<double>(o.array->num_bytes());
  }
  if (bytes <= 0) return;
  bytes_[outputs] += bytes;
  Flight f;
  f.issued = c.at;
  f.path = c.path;
  const hw::Transfers::Use use{hbm_[static_cast<size_t>(ex_.device_of(t))], bytes};
  transfers_.begin(c.at, rate(Rate::dma_latency), &use, 1, new_flight(std::move(f)));
  advance(c, Causes::kLatency, 0, rate(Rate::dma_latency));
  advance(c, resource_causes_[static_cast<size_t>(use.resource)], 0, bytes / rate(Rate::hbm_bandwidth));
}

bool Clocks::is_far(const Place& p) const {
  const ir::Module& m = ex_.plan->module;
  const uint32_t first = kFirstOperandBuffer;
  if (p.thread < 0 || (p.buffer >= first && p.buffer < first + m.operands.size())) {
    const ir::Operand& o = m.operands[p.buffer - first];
    const bool fetched = ex_.plan->first().windows[p.buffer - first].modelled() != nullptr;
    return fetched || o.has_block || (o.space != ir::Space::Vmem && o.space != ir::Space::Smem);
  }
  const memory::Allocation* a = ex_.plan->memory.allocations.at(p.buffer, p.offset);
  return a && (a->space == ir::Space::Hbm || a->space == ir::Space::Gmem);
}

bool Clocks::in_tensor_memory(const Place& p) const {
  const memory::Allocation* a = p.thread < 0 ? nullptr : ex_.plan->memory.allocations.at(p.buffer, p.offset);
  return a && a->space == ir::Space::Tmem;
}

int64_t Clocks::device_of(const Place& p) const {
  return p.thread < 0 ? ~p.thread : ex_.device_of(ex_.threads[static_cast<size_t>(p.thread)]);
}

static double bytes_of(const Side& s) {
  double n = ir::bit_width(s.dtype) / 8.0;
  for (int d = 0; d < s.rank; ++d) n *= static_cast<double>(s.dims[d]);
  return n;
}

static uint64_t key_of(const Side& s) {
  uint64_t h = s.place.buffer * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(s.place.offset);
  for (int d = 0; d < s.rank; ++d) h = (h ^ static_cast<uint64_t>(s.dims[d])) * 0xff51afd7ed558ccdu;
  return h ^ (h >> 29);
}

const hw::Work& Clocks::product_work(const AsyncOperation& op) {
  const auto [it, fresh] = products_.try_emplace(op.step);
  if (!fresh) return it->second;
  hw::ProductShape shape;
  const Side &a = op.reads.front(), &sum = op.writes.front();
  shape.m = sum.dims[0], shape.n = sum.dims[1], shape.k = a.dims[1];
  shape.dtype = a.dtype;
  shape.asynchronous = true;
  shape.ctas = static_cast<int64_t>(op.writes.size());
  shape.left_elsewhere = a.held >= 0 || in_tensor_memory(a.place);
  return it->second = costs_.model().product(shape);
}

void Clocks::take_port(int64_t core, double now, double bytes) {
  const double seconds = bytes / rate(Rate::wgmma_smem_rate) / rate(Rate::clock);
  cores_[static_cast<size_t>(core)][static_cast<size_t>(Unit::Access)].take(now, seconds);
  busy_[static_cast<size_t>(Unit::Access)] += seconds;
}

void Clocks::move(const Thread& t, const AsyncOperation& op, int64_t tag) {
  const Clock& c = of(t.index);
  const Side &from = op.reads.front(), &to = op.writes.front();
  double bytes = bytes_of(from);
  if (!op.rows.empty() && from.row_dim < 0 && to.row_dim < 0) bytes *= static_cast<double>(op.rows.size());
  const int64_t here = device_of(from.place), there = device_of(to.place);
  if (here != there) {
    const hw::Transfers::Use use{link_[static_cast<size_t>(here)], bytes};
    transfers_.begin(c.at, rate(gpu_ ? Rate::nvlink_latency : Rate::ici_latency), &use, 1, tag);
    return;
  }
  const bool reads = is_far(from.place), writes = is_far(to.place);
  if (!reads && !writes) {
    const double per_second = gpu_ ? rate(Rate::smem_read_rate) * rate(Rate::clock) : 22 * rate(Rate::hbm_bandwidth);
    transfers_.begin(c.at, (gpu_ ? rate(Rate::barrier_latency) : rate(Rate::dma_latency) / 4) + bytes / per_second,
                     nullptr, 0, tag);
    return;
  }
  if (!gpu_) {
    hw::Transfers::Use use{hbm_[static_cast<size_t>(here)], bytes * (reads && writes ? 2 : 1)};
    bytes_[writes] += bytes;
    if (reads && writes) bytes_[0] += bytes;
    transfers_.begin(c.at, rate(Rate::dma_latency), &use, 1, tag);
    return;
  }
  const double latency = writes ? rate(Rate::store_latency) : rate(held_ ? Rate::tma_latency : Rate::tma_hbm_latency);
  hw::BoxCache::Found found{true, 0};
  if (!held_)
    found = caches_[static_cast<size_t>(here)].touch(key_of(writes ? to : from), bytes * c.inner,
                                                     from_memory(c.at, here, bytes) + latency);
  const bool miss = !held_ && (writes || !found.hit);
  // What comes and goes shares the ports of shared memory with the operands of products.
  if (writes) take_port(core_of(t), c.at, bytes);
  else
    for (const Side& x : op.writes) take_port(core_of(ex_.threads[static_cast<size_t>(x.place.thread)]), c.at, bytes);
  // A bulk copy goes row by row of the tiles in shared memory; the port serves no more of them in a time.
  const double row = costs_.of(ex_.plan->steps[static_cast<size_t>(op.step)]).row_bytes;
  const double rows = row > 0 ? bytes / row * rate(Rate::tma_row_time) * rate(Rate::tma_sm_bandwidth) : 0;
  far_transfer(
      tag, c.at,
      {core_of(t), here, bytes, bytes, bytes, std::max(rows, bytes), writes, miss, latency, miss ? 0 : found.there});
}

// On the tensor cores of all CTAs that multiply together; returns when the last one is done.
double Clocks::multiply(const Thread& t, const Step& s, const AsyncOperation& op) {
  const hw::Work& work = product_work(op);
  const double now = of(t.index).at, reads = work.busy[static_cast<size_t>(Unit::Access)];
  double end = now;
  for (const Side& sum : op.writes) {
    const bool own = sum.place.thread < 0 || op.writes.size() == 1;
    auto& core = cores_[static_cast<size_t>(core_of(own ? t : ex_.threads[static_cast<size_t>(sum.place.thread)]))];
    auto &pipe = core[static_cast<size_t>(Unit::Matrix)], &port = core[static_cast<size_t>(Unit::Access)];
    const double seconds = work.busy[static_cast<size_t>(Unit::Matrix)] * throttled(pipe, now);
    end = std::max({end, pipe.take(now, seconds), port.take(now, reads)});
    busy_[static_cast<size_t>(Unit::Access)] += reads;
    busy_[static_cast<size_t>(Unit::Matrix)] += seconds;
    if (picture_ && &sum == &op.writes.front())
      show_unit(t, s.id, Unit::Matrix, pipe.free() - seconds, pipe.free(), costs_.of(s).line);
    flops_ += 2.0 * static_cast<double>(sum.dims[0]) * static_cast<double>(sum.dims[1]) *
              static_cast<double>(op.reads.front().dims[1]);
  }
  return end;
}

void Clocks::issued(const Thread& t, const Step& s, const AsyncOperation& op) {
  const double before = at(t.index);
  start(t, s, op);
  if (picture_) picture_->issued(op, before, at(t.index), loc_of(costs_.of(s).line));
}

void Clocks::start(const Thread& t, const Step& s, const AsyncOperation& op) {
  const StepCost& cost = costs_.of(s);
  Clock& c = of(t.index);
  Flight f;
  f.operation = op.id;
  f.thread = t.index;
  f.line = cost.line;
  f.issued = c.at;
  f.path = c.path;
  const AsyncKind k = op.kind;
  const bool product = k == AsyncKind::wgmma || k == AsyncKind::tcgen05_mma;
  if (product) {
    f.cause = static_cast<int>(Unit::Matrix);
    const double end = multiply(t, s, op) + rate(Rate::wgmma_drain);
    if (op.stream >= 0) stream_ends_[op.stream] = std::max(stream_ends_[op.stream], end);
    Path path = c.path;
    path.add(f.cause, f.line, end - c.at);
    if (k == AsyncKind::wgmma && op.stream >= 0) groups_[{op.stream, op.group}] = {end, std::move(path)};
    const double now = c.at;
    transfers_.begin(now, end - now, nullptr, 0, new_flight(std::move(f)));
    advance(c, static_cast<int>(Unit::Scalar), cost.line, rate(Rate::wgmma_issue) * issue_share(t));
    return;
  }
  if (k == AsyncKind::tmem_load || k == AsyncKind::tmem_store || k == AsyncKind::tmem_copy) {
    f.cause = static_cast<int>(Unit::Access);
    const Side& moved = op.writes.empty() ? op.reads.front() : op.writes.front();
    const double seconds = bytes_of(moved) / rate(Rate::tmem_rate) / rate(Rate::clock);
    busy_[static_cast<size_t>(Unit::Access)] += seconds;
    transfers_.begin(c.at, seconds + rate(Rate::barrier_latency), nullptr, 0, new_flight(std::move(f)));
    // The registers have what a load brings when it is there.
    if (k == AsyncKind::tmem_load) advance(c, static_cast<int>(Unit::Access), cost.line, seconds);
    return;
  }
  if (k == AsyncKind::tcgen05_commit || op.writes.empty() || op.reads.empty()) {
    const double end = op.stream >= 0 ? std::max(c.at, stream_ends_[op.stream]) : c.at;
    f.cause = static_cast<int>(Unit::Matrix);
    transfers_.begin(c.at, end - c.at + (gpu_ ? rate(Rate::barrier_latency) : 0), nullptr, 0, new_flight(std::move(f)));
    return;
  }
  const int64_t tag = new_flight(std::move(f));
  move(t, op, tag);
  advance(c, static_cast<int>(Unit::Scalar), cost.line, rate(gpu_ ? Rate::tma_issue : Rate::dma_issue));
}

void Clocks::step(Ended* out) {
  out->operations.clear();
  out->threads.clear();
  hw::Transfers::Done d;
  if (!transfers_.step(&d)) return;
  const auto it = flights_.find(d.tag);
  Flight& f = it->second;
  f.end = d.time;
  end_ = std::max(end_, d.time);
  const double served = d.time - d.begin - d.latency;
  if (f.cause == Causes::kLatency) {
    f.path.add(Causes::kLatency, f.line, d.latency);
    if (d.resource >= 0) f.path.add(f.cause = resource_causes_[static_cast<size_t>(d.resource)], f.line, served);
    if (d.latency > served) f.cause = Causes::kLatency;
  } else {
    f.path.add(f.cause, f.line, d.latency + served);
  }
  if (picture_ && f.operation < 0 && f.thread >= 0)
    picture_->access(f.thread, f.operand, f.bytes, f.writes, d.begin, d.time, loc_of(f.line));
  if (d.time >= end_) path_ = f.path;
  now_ = d.time;
  if (f.operation >= 0) {
    out->operations.push_back(f.operation);
    source_ = -1;
    told_path_ = std::move(f.path);
    source_cause_ = f.cause;
    by_operation_.erase(f.operation);
    flights_.erase(it);
    return;
  }
  if (f.asks) {
    Clock& c = of(f.thread);
    count(c.blocked_step, f.cause, d.time - c.at);
    if (picture_) show_wait(f.thread, d.time, f.cause);
    if (d.time > c.at) c.at = d.time, c.path = f.path;
    c.waits_for = -1;
    out->threads.push_back(f.thread);
  } else if (f.thread < 0 || std::none_of(of(f.thread).loads.begin(), of(f.thread).loads.end(),
                                          [&](const Pending& p) { return p.tag == d.tag; })) {
    bool ahead = false;
    if (f.thread >= 0)
      for (const auto& [op, tags] : of(f.thread).ahead)
        ahead = ahead || std::find(tags.begin(), tags.end(), d.tag) != tags.end();
    if (!ahead) flights_.erase(it);
  }
}

void Clocks::program_ended(const Thread& t) {
  program_ends.push_back(at(t.index));
  if (in_step_) --programs_on_[static_cast<size_t>(core_of(t))];
}

void Clocks::polled(int32_t thread) {
  advance(of(thread), Causes::kSync, 0, rate(gpu_ ? Rate::barrier_latency : Rate::semaphore_latency));
}

}  // namespace pallasim::interp
