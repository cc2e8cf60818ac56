// How bodies of scalar steps are written: once, for the engine and for runs (plan/scalar_forms.h).
#pragma once
#include <bit>
#include <cstddef>
#include <type_traits>

#include "../plan/kinds.h"
#include "../plan/scalar_forms.h"

namespace pallasim::interp::ops {

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 1, uint8_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// An operand: what was handed over, or the slot.
template <bool given, typename T>
T operand(const Thread& t, uint32_t slot, uint64_t value) {
  if constexpr (given) return std::bit_cast<T>(static_cast<BitsOf<T>>(value));
  else return t.slot<T>(slot);
}

// What the step makes goes to its slot, and on to the next step.
template <typename T>
const Step* go_on(Thread& t, const Step* s, T made) {
  t.slot<T>(s->dst) = made;
  return s[1].threaded(t, s + 1, std::bit_cast<BitsOf<T>>(made));
}
inline const Step* go_on(Thread& t, const Step* s) { return s[1].threaded(t, s + 1, 0); }
// To another step, with what Step::dst holds where the step has a value.
inline const Step* go_to(Thread& t, const Step* s, const Step* to, uint64_t value = 0) {
  if (t.left <= 0) [[unlikely]] {
    t.last = s;
    t.handed = value;
    return to;
  }
  // So many steps ran, if the run comes back to here.
  t.left -= reinterpret_cast<const std::byte*>(s + 1) - reinterpret_cast<const std::byte*>(to);
  return to->threaded(t, to, value);
}

inline std::array<uint32_t, 2> no_slots(const Step&) { return {Addr::kNoSlot, Addr::kNoSlot}; }
inline std::array<uint32_t, 2> slots_ab(const Step& s) { return {s.a, s.b}; }
inline std::array<uint32_t, 2> slots_ac(const Step& s) { return {s.a, s.c}; }
inline std::array<uint32_t, 2> slot_a(const Step& s) { return {s.a, Addr::kNoSlot}; }

// What bodies say: the types of what may be handed to them, and how many bytes they hand on. Without operands, as here.
template <uint8_t gives = 0>
struct NoOperands {
  using First = uint8_t;
  using Second = uint8_t;
  static constexpr uint8_t kGives = gives;
  static constexpr auto operands = no_slots;
};

// The body of one operand in Step::a and `imm`, by Of::eval.
template <typename Of, typename T>
struct OfOne {
  using First = T;
  using Second = T;
  using Made = decltype(Of::eval(T{}, 0));
  static constexpr uint8_t kGives = sizeof(Made);
  static constexpr auto operands = slot_a;

  static const Step* run(Thread& t, const Step* s) {
    t.slot<Made>(s->dst) = Of::eval(t.slot<T>(s->a), s->imm);
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    return go_on<Made>(t, s, Of::eval(operand<(given & 1) != 0, T>(t, s->a, value), s->imm));
  }
};

// In a run, but by what the engine calls: what takes longer than runs are written for. T: what the step makes.
template <typename B, typename T>
[[gnu::noinline]] const Step* by_engine(Thread& t, const Step* s) {
  B::run(t, s);
  return s[1].threaded(t, s + 1, std::bit_cast<BitsOf<T>>(t.slot<T>(s->dst)));
}

// Of a body B: `run` for the engine, and `threaded<given>` in runs.
template <typename B>
inline constexpr ScalarForms kFormsOf = {
    {B::template threaded<0>, B::template threaded<1>, B::template threaded<2>, B::template threaded<3>},
    B::operands,
    {sizeof(typename B::First), sizeof(typename B::Second)},
    B::kGives};
template <Kind kind, typename B>
inline constexpr StepForm kFormOf{kind, B::run, &kFormsOf<B>};

}  // namespace pallasim::interp::ops
