// Memory that copies alone write and loads alone read. What comes from an array that nobody writes stays there until
// somebody needs it here; what nobody wrote is poison as soon as somebody looks.
#include "pallasim/memory/landing.h"

#include <algorithm>

#include "../plan/payload/copies.h"
#include "copies.h"

namespace pallasim::interp {

const memory::Allocation& Execution::landing_place(int32_t number) const {
  return plan->memory.allocations[plan->memory.landings[static_cast<size_t>(number)]];
}

memory::Landing& Execution::landing(int32_t number, int32_t unit) {
  const auto owner = static_cast<size_t>(units.unit_of(landing_place(number).owner, unit));
  return landings[owner * plan->memory.landings.size() + static_cast<size_t>(number)];
}

std::byte* Execution::landing_memory(int32_t number, const Thread& t) const {
  const memory::Allocation& of = landing_place(number);
  return t.bases[of.buffer] + of.offset;
}

void Execution::settle(int32_t number, const Thread& t) {
  const memory::Allocation& of = landing_place(number);
  std::byte* const own = landing_memory(number, t);
  const int64_t size = ir::byte_size(of.dtype);
  landing(number, t.unit).settle(own, of.bytes, [&](int64_t begin, int64_t end) {
    poison(own + begin, (end - begin) / size, of.dtype, options->uninitialized);
  });
}

namespace ops {
namespace {}  // namespace

bool stays(Execution& ex, const memory::AsyncCopy& c) {
  const int64_t* dims = c.dst_dims();
  if (std::any_of(dims, dims + c.rank, [](int64_t n) { return n <= 0; })) return false;
  const Thread &to = ex.threads[static_cast<size_t>(c.dst.thread)], &of = ex.threads[static_cast<size_t>(c.src.thread)];
  const int64_t size = ir::byte_size(c.dtype), bytes = dense_bytes(dims, c.dst_strides, c.rank, size),
                at = c.dst.offset - ex.landing_place(c.landing).offset;
  if (bytes > 0 && c.combine == memory::Combine::Replace) {
    memory::Landing& landing = ex.landing(c.landing, to.unit);
    const bool there = c.stays && !landing.gathers() && ex.copies_stay && !c.fills &&
                       dense_bytes(dims, c.src_strides, c.rank, size) == bytes;
    const std::byte* const from = there ? of.bases[c.src.buffer] + c.src.offset : nullptr;
    if (landing.arrive(at, at + bytes, from)) return there;
  }
  ex.settle(c.landing, to);
  return false;
}

const Step* landing_begin(Thread& t, const Step* s) {
  t.exec->landing(payload<Kind::landing_begin>(s).landing, t.unit).clear();
  return s + 1;
}

const Step* landing_settle(Thread& t, const Step* s) {
  t.exec->settle(payload<Kind::landing_settle>(s).landing, t);
  return s + 1;
}

const Step* landing_find(Thread& t, const Step* s) {
  const LandingPayload& p = payload<Kind::landing_find>(s);
  Execution& ex = *t.exec;
  std::byte* const loaded = t.resolve(p.addr);
  const int64_t at = loaded - ex.landing_memory(p.landing, t);
  const memory::Landing::Found found = ex.landing(p.landing, t.unit).find(at + p.begin, at + p.end);
  if (!found.whole) ex.settle(p.landing, t);
  int64_t moved = p.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.addr.dyn);
  // Addresses of different arrays.
  if (found.from) moved += reinterpret_cast<intptr_t>(found.from) - reinterpret_cast<intptr_t>(loaded + p.begin);
  t.slot<int64_t>(s->dst) = moved;
  return s + 1;
}

}  // namespace ops
}  // namespace pallasim::interp
