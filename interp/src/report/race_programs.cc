// Programs that wait for each other: what atomic operations order.
#include <algorithm>
#include <cstring>

#include "../plan/kinds.h"
#include "../plan/payload/movement.h"
#include "race_detector.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;

namespace {
const std::byte* array_of(const Execution& ex, int32_t thread, uint32_t buffer) {
  return ex.operand(ex.device_of(ex.threads[static_cast<size_t>(thread)]), buffer);
}
}  // namespace

// Triton's atomic operations acquire and release unless the kernel says otherwise, and Pallas has no word for that; one
// whose result nobody uses has nothing by which to acquire.
void RaceDetector::meet_at(Seen& seen, const Step& step) {
  const Access& a = seen.access;
  if (a.buffer < kFirstOperandBuffer || a.buffer - kFirstOperandBuffer >= plan_.module.operands.size()) return;
  // All elements of one operation are one moment.
  const bool goes_on = !meets_.empty() && meets_.back().thread == a.thread;
  Meets now{a.thread, seen.instance(), a.buffer, a.element_bytes, seen.box(), {}, {}, {}};
  now.knows = goes_on ? meets_.back().knows : std::make_shared<shadow::Order::Knowledge>(order_.known(a.thread));
  if (a.places) now.places.assign(a.places, a.places + a.boxes);
  const std::byte* const array = array_of(ex(), a.thread, a.buffer);
  now.before.resize(static_cast<size_t>(seen.box().bytes() * a.boxes));
  std::byte* to = now.before.data();
  now.for_rows([&](shadow::Range row) { to = std::copy(array + row.begin, array + row.end, to); });
  now.before.resize(static_cast<size_t>(to - now.before.data()));
  meets_.push_back(std::move(now));
  if (step.kind == Kind::atomic && !payload<Kind::atomic>(step).has_old) return;
  shadow::Order::Knowledge known;
  met_.visit(seen.instance(), seen.box(), seen.shadow().places, [&](Met& m, shadow::Range) { known.join(m.knows); });
  order_.acquired(a.thread, known);
}

// It is done. Elements that it left as they were release nothing: who comes there cannot tell whether it came before.
void RaceDetector::on_step(const StepEvent&) {
  for (const Meets& m : meets_) {
    const std::byte* const array = array_of(ex(), m.thread, m.buffer);
    const int64_t size = m.element_bytes;
    const std::byte* before = m.before.data();
    order_.released(m.thread);
    std::vector<int64_t> changed;
    const auto differ = [&](const std::byte* a, const std::byte* b) {
      return size == 4 ? std::memcmp(a, b, 4) != 0 : std::memcmp(a, b, static_cast<size_t>(size)) != 0;
    };
    m.for_rows([&](shadow::Range row) {
      for (int64_t at = row.begin; at < row.end; at += size, before += size)
        if (differ(array + at, before)) changed.push_back(at);
    });
    met_.visit(m.instance, shadow::Box(0, size), changed, [&](Met& place, shadow::Range) {
      place.last = {m.thread, m.knows->all.at(m.thread)};
      place.knows.join(*m.knows);
    });
  }
  if (!meets_.empty() && met_.memory() > ex().options->max_memory)
    too_much_remembered(ex(), "atomic operations", met_.memory());
  meets_.clear();
}

}  // namespace pallasim::interp
