#include "footprint_judge.h"

#include <algorithm>
#include <map>

#include "../ops/bases.h"
#include "../ops/copies.h"
#include "../ops/findings.h"
#include "../ops/footprint.h"
#include "../plan/kinds.h"
#include "../plan/payload/movement.h"
#include "engine.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::interp {
namespace {

namespace shadow = memory::shadow;

// Bytes of the process that the buffers of threads are.
struct Region {
  std::byte* at;
  int64_t bytes;
};
void add_regions(const Thread& t, std::map<std::byte*, int64_t>* found) {  // arrays that share memory are one
  const auto add = [&](uint32_t buffer, int64_t bytes) {
    std::byte* at = t.bases[buffer];
    if (at && bytes > 0) (*found)[at] = std::max((*found)[at], bytes);
  };
  const Plan& p = *t.exec->plan;
  add(t.temps, t.parent < 0 ? t.body->temp_bytes : t.body->child_bytes);
  for (const Window& w : p.first().windows) {
    int64_t bytes = w.element_bytes;
    for (int64_t n : w.dims) bytes *= n;
    add(w.buffer, bytes);
  }
  for (const memory::Allocation& a : p.memory.allocations)
    if (!a.private_to_thread()) add(a.buffer, a.bytes);
}
std::vector<Region> regions_of(const Execution& ex) {
  std::map<std::byte*, int64_t> found;
  for (const Thread& t : ex.threads)
    if (t.bases && t.stop != Stop::Done) add_regions(t, &found);
  std::vector<Region> r;
  for (const auto& [at, bytes] : found) r.push_back({at, bytes});
  return r;
}

// The bytes of a step's boxes, by address.
class Touched : public ops::Boxes {
 public:
  Touched(Thread& t, const Step& s) : Boxes(t, s), t_(t) { ops::footprint(t, s, *this); }
  // One byte per byte of the region: 1 where the step reads, or writes.
  std::vector<bool> mask(const Region& r, bool write) const {
    std::vector<bool> m(static_cast<size_t>(r.bytes));
    for (const Run& run : runs_)
      if (run.write == write)
        for (std::byte* at = std::max(run.begin, r.at); at < std::min(run.end, r.at + r.bytes); ++at)
          m[static_cast<size_t>(at - r.at)] = true;
    return m;
  }

 private:
  struct Run {
    std::byte *begin, *end;
    bool write;
  };
  void box(const Access& a) override {
    std::byte* const base = ops::base_of(*t_.exec, a);
    for (const shadow::Range& r : shadow::Box(a.offset, a.dims, a.strides, a.rank, a.element_bytes).rows())
      runs_.push_back({base + r.begin, base + r.end, a.write});
  }
  Thread& t_;
  std::vector<Run> runs_;
};

using Saved = std::vector<std::vector<std::byte>>;
Saved save(const std::vector<Region>& regions) {
  Saved r;
  for (const Region& g : regions) r.emplace_back(g.at, g.at + g.bytes);
  return r;
}
void restore(const std::vector<Region>& regions, const Saved& saved) {
  for (size_t i = 0; i < regions.size(); ++i) std::copy(saved[i].begin(), saved[i].end(), regions[i].at);
}

constexpr std::byte kScrambled{0x5a};

// Of a loop the first trips are enough.
constexpr uint8_t kTimes = 16;
bool is_due(Execution& ex, const Step& s) {
  if (ex.host.judged.size() != ex.plan->steps.size()) ex.host.judged.assign(ex.plan->steps.size(), 0);
  uint8_t& times = ex.host.judged[static_cast<size_t>(s.id)];
  return times < kTimes && ++times > 0;
}

// Steps that can run twice: whatever they do lies in memory and slots.
bool repeats(const Execution& ex, const Step& s) {
  const Footprint f = row(s).footprint;
  if (s.kind == Kind::row_copy || s.kind == Kind::bulk_load || s.kind == Kind::bulk_store) return false;
  if (s.kind == Kind::wgmma && ops::in_flight(ex)) return false;
  if (s.kind == Kind::fill) return payload<Kind::fill>(s).name.empty();
  return (f == Footprint::Static || f == Footprint::Dynamic) && s.kind != Kind::print && s.kind != Kind::host_call;
}

// Memory that is made, given out or brought together is nobody's write.
bool makes_memory(const Step& s) {
  switch (s.kind) {
    case Kind::fill:
    case Kind::spawn:
    case Kind::elision_begin:
    case Kind::elision_materialise:
    case Kind::elision_find:
    case Kind::forward_store: return true;
    default: return false;
  }
}

// Copies that move while a step runs.
class Moved : public Events {
 public:
  explicit Moved(Execution& ex) : ex_(ex), before_(ex.events) { ex.events = this; }
  ~Moved() override { ex_.events = before_; }
  void moved(const memory::AsyncOperation& op) override { operations.push_back(op); }
  std::vector<memory::AsyncOperation> operations;

 private:
  Execution& ex_;
  Events* before_;
};

void no_other_byte(Thread& t, const Step* s, const std::vector<Region>& regions, const Saved& before,
                   const Saved& after, const std::vector<std::vector<bool>>& writes) {
  for (size_t i = 0; i < writes.size(); ++i)
    for (size_t b = 0; b < static_cast<size_t>(regions[i].bytes); ++b)
      if (!writes[i][b] && after[i][b] != before[i][b])
        ops::diagnose(t).footprint_differs(t, s, "a byte changed that it says not to write", static_cast<int64_t>(b));
}

// Of steps that signal, wait or start what others see: what they and the copies that move meanwhile write.
const Step* run_once_judged(Thread& t, const Step* s) {
  Touched touched(t, *s);
  const std::vector<Region> regions = regions_of(*t.exec);
  const Saved before = save(regions);
  Moved moved(*t.exec);
  const Step* next = s->fn(t, s);
  for (const memory::AsyncOperation& op : moved.operations) {
    const Transfer* way = ops::transfer_of(t.exec->plan->steps[static_cast<size_t>(op.step)]);
    if (way && way->dst.elidable >= 0) return next;  // what was elided before is brought there
    for (const memory::Side& side : op.writes) ops::side_boxes(op, side, true, side.dims, touched);
  }
  std::vector<std::vector<bool>> writes;
  for (const Region& r : regions) writes.push_back(touched.mask(r, true));
  no_other_byte(t, s, regions, before, save(regions), writes);
  return next;
}

}  // namespace

const Step* run_judged(Thread& t, const Step* s) {
  if (!is_due(*t.exec, *s)) return s->fn(t, s);
  if (!repeats(*t.exec, *s)) return makes_memory(*s) || t.exec->observed ? s->fn(t, s) : run_once_judged(t, s);
  const Touched touched(t, *s);
  std::vector<Region> regions = regions_of(*t.exec);
  const size_t memory = regions.size();
  regions.push_back({t.arena, t.body->image_bytes()});  // slots are nobody's boxes, and as they were for the second run
  const Saved before = save(regions);
  const Step* next = s->fn(t, s);
  const Saved after = save(regions);
  std::vector<std::vector<bool>> writes;
  for (size_t i = 0; i < memory; ++i) writes.push_back(touched.mask(regions[i], true));
  no_other_byte(t, s, regions, before, after, writes);
  restore(regions, before);
  for (size_t i = 0; i < memory; ++i) {
    const std::vector<bool> reads = touched.mask(regions[i], false);
    for (size_t b = 0; b < reads.size(); ++b)
      if (!reads[b]) regions[i].at[b] ^= kScrambled;
  }
  s->fn(t, s);
  // A byte that it says to write and did not has what it had, both times.
  const auto as_it_was = [&](size_t i, size_t b) {
    return after[i][b] == before[i][b] && regions[i].at[b] == (before[i][b] ^ kScrambled);
  };
  for (size_t i = 0; i < memory; ++i)
    for (size_t b = 0; b < static_cast<size_t>(regions[i].bytes); ++b)
      if (writes[i][b] && regions[i].at[b] != after[i][b] && !as_it_was(i, b))
        ops::diagnose(t).footprint_differs(t, s, "what it writes depends on bytes that it says not to read",
                                           static_cast<int64_t>(b));
  restore(regions, after);
  return next;
}

}  // namespace pallasim::interp
