// Programs that wait for each other: what atomic operations order.
#include <algorithm>
#include <cstring>

#include "../plan/kinds.h"
#include "../plan/payload/movement.h"
#include "race_detector.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;

// Triton's atomic operations acquire and release unless the kernel says otherwise, and Pallas has no word for that; one
// whose result nobody uses has nothing by which to acquire.
void RaceDetector::meet_at(Seen& seen, const Step& step) {
  const Access& a = seen.access;
  if (a.buffer < kFirstOperandBuffer || a.buffer - kFirstOperandBuffer >= plan_.module.operands.size()) return;
  // All elements of one operation are one moment.
  const bool goes_on = !meets_.empty() && meets_.back().place.thread == a.thread;
  Meets now{seen.instance(), a.element_bytes, {a.thread, a.buffer, seen.shadow()}, {}, {}};
  now.knows = goes_on ? meets_.back().knows : std::make_shared<shadow::Order::Knowledge>(order_.known(a.thread));
  now.before = now.place.read(ex());
  meets_.push_back(std::move(now));
  if (step.kind == Kind::atomic && !payload<Kind::atomic>(step).has_old) return;
  shadow::Order::Knowledge known;
  met_.visit(seen.instance(), seen.box(), seen.shadow().places, [&](Met& m, shadow::Range) { known.join(m.knows); });
  order_.acquired(a.thread, known);
}

// It is done. Elements that it left as they were release nothing: who comes there cannot tell whether it came before.
void RaceDetector::atomics_done() {
  for (const Meets& m : meets_) {
    const int32_t by = m.place.thread;
    const std::byte* const array = m.place.base(ex());
    const int64_t size = m.element_bytes;
    const std::byte* before = m.before.data();
    order_.released(by);
    std::vector<int64_t> changed;
    const auto differ = [&](const std::byte* a, const std::byte* b) {
      return size == 4 ? std::memcmp(a, b, 4) != 0 : std::memcmp(a, b, static_cast<size_t>(size)) != 0;
    };
    m.place.for_rows([&](shadow::Range row) {
      for (int64_t at = row.begin; at < row.end; at += size, before += size)
        if (differ(array + at, before)) changed.push_back(at);
    });
    met_.visit(m.instance, shadow::Box(0, size), changed, [&](Met& place, shadow::Range) {
      place.last = {by, m.knows->all.at(by)};
      place.knows.join(*m.knows);
    });
  }
  if (!meets_.empty() && met_.memory() > ex().options->max_memory)
    too_much_remembered(ex(), "atomic operations", met_.memory());
  meets_.clear();
}

}  // namespace pallasim::interp
