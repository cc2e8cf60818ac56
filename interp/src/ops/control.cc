#include <algorithm>

#include "../plan/payload/control.h"
#include "bodies.h"
#include "threaded.h"

namespace pallasim::interp::ops {

const Step* stop_point(Thread& t, const Step* s) {
  StopPoints* const stops = t.exec->host.stops;
  if (!stops || !stops->pauses(t, *s)) return s + 1;
  t.pc = s;
  t.stop = Stop::Paused;
  return nullptr;
}

namespace {
struct Jump : NoOperands<> {
  static const Step* run(Thread&, const Step* s) { return s->jump; }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t) {
    return go_to(t, s, s->jump);
  }
};
struct BranchIfFalse {
  using First = uint8_t;
  using Second = uint8_t;
  static constexpr uint8_t kGives = 0;
  static constexpr auto operands = slot_a;

  static const Step* run(Thread& t, const Step* s) { return t.slot<uint8_t>(s->a) ? s + 1 : s->jump; }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    return operand<(given & 1) != 0, uint8_t>(t, s->a, value) ? go_on(t, s) : go_to(t, s, s->jump);
  }
};
}  // namespace
const StepForm kBranchIfFalse = kFormOf<Kind::branch_if_false, BranchIfFalse>;

const StepForm kJump = kFormOf<Kind::jump, Jump>;

const Step* end_threaded(Thread& t, const Step* s, uint64_t) {
  t.last = s;
  return s->fn(t, s);
}

const Step* end_observed(Thread& t, const Step* s, uint64_t) {
  t.last = s;
  t.exec->events->step(t, *s);
  return s->fn(t, s);
}

namespace {
struct BranchTable : NoOperands<> {
  static const Step* run(Thread& t, const Step* s) {
    const std::vector<int32_t>& table = payload<Kind::branch_table>(s).steps;
    int64_t i = s->imm == 1 ? t.slot<uint8_t>(s->a) : s->imm == 8 ? t.slot<int64_t>(s->a) : t.slot<int32_t>(s->a);
    i = std::clamp<int64_t>(i, 0, static_cast<int64_t>(table.size()) - 1);
    return t.exec->plan->steps.data() + table[static_cast<size_t>(i)];
  }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t) {
    return go_to(t, s, run(t, s));
  }
};
}  // namespace
const StepForm kBranchTable = kFormOf<Kind::branch_table, BranchTable>;

namespace {
// As wide as what was written there: a wider read would wait for the store.
struct Same {
  template <typename T>
  static T eval(T x, int64_t) {
    return x;
  }
};
template <typename T>
using Move = OfOne<Same, T>;
const Step* move_wide(Thread& t, const Step* s) {
  std::memcpy(t.arena + s->dst, t.arena + s->a, 16);
  return s + 1;
}
constexpr StepForm kMoveWide{Kind::move, move_wide};
}  // namespace

const StepForm& move_slot(int bytes) {
  return bytes == 1   ? kFormOf<Kind::move, Move<uint8_t>>
         : bytes == 4 ? kFormOf<Kind::move, Move<uint32_t>>
         : bytes == 8 ? kFormOf<Kind::move, Move<uint64_t>>
                      : kMoveWide;
}

namespace {
// Sets the index; false: the loop is empty. Counting down visits the same indices: the first is the last multiple of
// the step below the upper bound.
template <typename T, bool down>
bool begin(Thread& t, const Step* s) {
  using U = std::make_unsigned_t<T>;
  const T lo = t.slot<T>(s->a), hi = t.slot<T>(s->b);
  if (lo >= hi) return false;
  T first = lo;
  if constexpr (down) {
    const U by = static_cast<U>(std::max<T>(t.slot<T>(s->c), 1));
    first = static_cast<T>(static_cast<U>(lo) + (static_cast<U>(hi) - static_cast<U>(lo) - 1) / by * by);
  }
  t.slot<T>(s->dst) = first;
  return true;
}
// Moves the index on; false: that was the last trip, and the index stays.
template <typename T, bool down>
bool next(Thread& t, const Step* s, T* index) {
  using U = std::make_unsigned_t<T>;
  const T i = *index = t.slot<T>(s->dst), by = t.slot<T>(s->c);
  if constexpr (down) {
    if (static_cast<U>(i) - static_cast<U>(t.slot<T>(s->a)) < static_cast<U>(by)) return false;
    *index = static_cast<T>(static_cast<U>(i) - static_cast<U>(by));
  } else {
    const T n = static_cast<T>(static_cast<U>(i) + static_cast<U>(by));
    if (n < i || n >= t.slot<T>(s->b)) return false;
    *index = n;
  }
  t.slot<T>(s->dst) = *index;
  return true;
}

template <typename T, bool down>
struct LoopBegin : NoOperands<sizeof(T)> {
  static const Step* run(Thread& t, const Step* s) { return begin<T, down>(t, s) ? s + 1 : s->jump; }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t) {
    const bool any = begin<T, down>(t, s);
    const auto index = static_cast<std::make_unsigned_t<T>>(t.slot<T>(s->dst));
    return any ? s[1].threaded(t, s + 1, index) : go_to(t, s, s->jump, index);
  }
};
template <typename T, bool down>
struct LoopNext : NoOperands<sizeof(T)> {
  static const Step* run(Thread& t, const Step* s) {
    T index;
    return next<T, down>(t, s, &index) ? s->jump : s + 1;
  }
  template <unsigned>
  static const Step* threaded(Thread& t, const Step* s, uint64_t) {
    T index;
    const bool more = next<T, down>(t, s, &index);
    const auto value = static_cast<std::make_unsigned_t<T>>(index);
    return more ? go_to(t, s, s->jump, value) : s[1].threaded(t, s + 1, value);
  }
};

template <Kind kind, template <typename, bool> typename Of>
const StepForm& loop_step(bool wide, bool down) {
  if (wide) return down ? kFormOf<kind, Of<int64_t, true>> : kFormOf<kind, Of<int64_t, false>>;
  return down ? kFormOf<kind, Of<int32_t, true>> : kFormOf<kind, Of<int32_t, false>>;
}
}  // namespace

const StepForm& loop_begin(bool wide, bool down) { return loop_step<Kind::loop_begin, LoopBegin>(wide, down); }
const StepForm& loop_next(bool wide, bool down) { return loop_step<Kind::loop_next, LoopNext>(wide, down); }

const Step* trips(Thread& t, const Step* s) {
  constexpr SyncEvent::What kTold[] = {SyncEvent::What::TripsBegin, SyncEvent::What::TripsNext,
                                       SyncEvent::What::TripsEnd};
  t.exec->events->sync({kTold[s->imm], t.index});
  return s + 1;
}

const Step* finish(Thread& t, const Step* s) {
  t.pc = s;
  t.stop = Stop::Done;
  return nullptr;
}

}  // namespace pallasim::interp::ops
