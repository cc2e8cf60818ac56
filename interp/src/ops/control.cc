#include <algorithm>

#include "bodies.h"

namespace pallasim::interp::ops {

const Step* jump(Thread&, const Step* s) { return s->jump; }

const Step* branch_if_false(Thread& t, const Step* s) { return t.slot<uint8_t>(s->a) ? s + 1 : s->jump; }

const Step* branch_table(Thread& t, const Step* s) {
  const auto& table = *static_cast<const std::vector<int32_t>*>(s->payload);
  int64_t i = s->imm == 1 ? t.slot<uint8_t>(s->a) : s->imm == 8 ? t.slot<int64_t>(s->a) : t.slot<int32_t>(s->a);
  i = std::clamp<int64_t>(i, 0, static_cast<int64_t>(table.size()) - 1);
  return t.exec->plan->steps.data() + table[static_cast<size_t>(i)];
}

namespace {
// As wide as what was written there: a wider read would wait for the store.
template <size_t N>
const Step* move_bytes(Thread& t, const Step* s) {
  std::memcpy(t.arena + s->dst, t.arena + s->a, N);
  return s + 1;
}
}  // namespace

StepFn move_slot(int bytes) {
  return bytes == 1 ? move_bytes<1> : bytes == 4 ? move_bytes<4> : bytes == 8 ? move_bytes<8> : move_bytes<16>;
}

namespace {
template <typename T>
const Step* begin(Thread& t, const Step* s, bool down) {
  const T lo = t.slot<T>(s->a), hi = t.slot<T>(s->b), by = t.slot<T>(s->c);
  if (lo >= hi) return s->jump;
  // Counting down visits the same indices: the first is the last multiple of the step below the upper bound.
  using U = std::make_unsigned_t<T>;
  const U last = (static_cast<U>(hi) - static_cast<U>(lo) - 1) / static_cast<U>(std::max<T>(by, 1)) *
                 static_cast<U>(std::max<T>(by, 1));
  t.slot<T>(s->dst) = down ? static_cast<T>(static_cast<U>(lo) + last) : lo;
  return s + 1;
}
template <typename T>
const Step* next(Thread& t, const Step* s, bool down) {
  using U = std::make_unsigned_t<T>;
  T& i = t.slot<T>(s->dst);
  const T by = t.slot<T>(s->c);
  if (down) {
    if (static_cast<U>(i) - static_cast<U>(t.slot<T>(s->a)) < static_cast<U>(by)) return s + 1;
    i = static_cast<T>(static_cast<U>(i) - static_cast<U>(by));
    return s->jump;
  }
  const T n = static_cast<T>(static_cast<U>(i) + static_cast<U>(by));
  if (n < i || n >= t.slot<T>(s->b)) return s + 1;
  i = n;
  return s->jump;
}
}  // namespace

const Step* loop_begin(Thread& t, const Step* s) {
  return s->imm & 1 ? begin<int64_t>(t, s, s->imm & 2) : begin<int32_t>(t, s, s->imm & 2);
}
const Step* loop_next(Thread& t, const Step* s) {
  return s->imm & 1 ? next<int64_t>(t, s, s->imm & 2) : next<int32_t>(t, s, s->imm & 2);
}

const Step* trips(Thread& t, const Step* s) {
  for (Listener* l : t.exec->listeners) l->on_trips(*t.exec, t, static_cast<Trips>(s->imm));
  return s + 1;
}

const Step* finish(Thread& t, const Step* s) {
  t.pc = s;
  t.stop = Stop::Done;
  return nullptr;
}

}  // namespace pallasim::interp::ops
