#include "footprint_judge.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "../ops/footprint.h"
#include "../plan/kinds.h"
#include "engine.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::interp {
namespace {

namespace shadow = memory::shadow;

// Bytes of the process that the thread's buffers are.
struct Region {
  std::byte* at;
  int64_t bytes;
};
std::vector<Region> regions_of(const Thread& t) {
  std::map<std::byte*, int64_t> found;  // arrays that share memory are one
  const auto add = [&](uint32_t buffer, int64_t bytes) {
    std::byte* at = t.bases[buffer];
    if (at && bytes > 0) found[at] = std::max(found[at], bytes);
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
  std::vector<Region> r;
  for (const auto& [at, bytes] : found) r.push_back({at, bytes});
  return r;
}

// The bytes of a step's boxes, by address.
class Touched : public ops::Boxes {
 public:
  Touched(const Thread& t, const Step& s) : Boxes(t, s), t_(t) { ops::footprint(t, s, *this); }
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
  void box(const Access& a, bool) override {
    for (const shadow::Range& r : shadow::Box(a.offset, a.dims, a.strides, a.rank, a.element_bytes).rows())
      runs_.push_back({t_.bases[a.buffer] + r.begin, t_.bases[a.buffer] + r.end, a.write});
  }
  const Thread& t_;
  std::vector<Run> runs_;
};

using Saved = std::vector<std::vector<std::byte>>;
Saved save(const std::vector<Region>& regions) {
  Saved r;
  for (const Region& g : regions) r.emplace_back(g.at, g.at + g.bytes);
  return r;
}
void restore(const std::vector<Region>& regions, const Saved& saved) {
  for (size_t i = 0; i < regions.size(); ++i) std::memcpy(regions[i].at, saved[i].data(), saved[i].size());
}

// Of a loop the first trips are enough.
constexpr uint8_t kTimes = 16;
bool is_due(Execution& ex, const Step& s) {
  if (ex.judged.size() != ex.plan->steps.size()) ex.judged.assign(ex.plan->steps.size(), 0);
  uint8_t& times = ex.judged[static_cast<size_t>(s.id)];
  return times < kTimes && ++times > 0;
}

bool says_what_it_touches(const Step& s) {
  return row(s).footprint == Footprint::Static && s.kind != Kind::print && s.kind != Kind::host_call &&
         s.kind != Kind::fill;
}

}  // namespace

const Step* run_judged(Thread& t, const Step* s) {
  if (!says_what_it_touches(*s) || !is_due(*t.exec, *s)) return s->fn(t, s);
  const Touched touched(t, *s);
  std::vector<Region> regions = regions_of(t);
  const size_t memory = regions.size();
  regions.push_back({t.arena, t.body->image_bytes()});  // slots are nobody's boxes, and as they were for the second run
  const Saved before = save(regions);
  const Step* next = s->fn(t, s);
  const Saved after = save(regions);
  std::vector<std::vector<bool>> writes;
  for (size_t i = 0; i < memory; ++i) {
    writes.push_back(touched.mask(regions[i], true));
    for (size_t b = 0; b < after[i].size(); ++b)
      if (!writes[i][b] && after[i][b] != before[i][b])
        footprint_differs(t, s, "a byte changed that it says not to write", static_cast<int64_t>(b));
  }
  restore(regions, before);
  for (size_t i = 0; i < memory; ++i) {
    const std::vector<bool> reads = touched.mask(regions[i], false);
    for (size_t b = 0; b < reads.size(); ++b)
      if (!reads[b]) regions[i].at[b] ^= std::byte{0x5a};
  }
  s->fn(t, s);
  for (size_t i = 0; i < memory; ++i)
    for (size_t b = 0; b < after[i].size(); ++b)
      if (writes[i][b] && regions[i].at[b] != after[i][b])
        footprint_differs(t, s, "what it writes depends on bytes that it says not to read", static_cast<int64_t>(b));
  restore(regions, after);
  return next;
}

}  // namespace pallasim::interp
