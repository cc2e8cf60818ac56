// How bodies of scalar steps are written: once, for the engine and for runs (plan/scalar_forms.h).
#pragma once
#include <bit>
#include <cstddef>
#include <type_traits>

#include "../plan/scalar_forms.h"
#include "../plan/step_info.h"

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
const Step* follow_on(Thread& t, const Step* s, T made) {
  t.slot<T>(s->dst) = made;
  return s[1].follow(t, s + 1, std::bit_cast<BitsOf<T>>(made));
}
inline const Step* follow_on(Thread& t, const Step* s) { return s[1].follow(t, s + 1, 0); }
// To another step, with what Step::dst holds where the step has a value.
inline const Step* jump_on(Thread& t, const Step* s, const Step* to, uint64_t value = 0) {
  if (t.left <= 0) [[unlikely]] {
    t.last = s;
    t.handed = value;
    return to;
  }
  // So many steps ran, if the run comes back to here.
  t.left -= reinterpret_cast<const std::byte*>(s + 1) - reinterpret_cast<const std::byte*>(to);
  return to->follow(t, to, value);
}

inline std::array<uint32_t, 2> no_slots(const Step&) { return {Addr::kNoSlot, Addr::kNoSlot}; }
inline std::array<uint32_t, 2> slots_ab(const Step& s) { return {s.a, s.b}; }
inline std::array<uint32_t, 2> slots_ac(const Step& s) { return {s.a, s.c}; }
inline std::array<uint32_t, 2> slot_a(const Step& s) { return {s.a, Addr::kNoSlot}; }

// Of a body B: `run` for the engine, `follow<given>` in runs, types First and Second of what may be given, `Made`.
template <typename B>
inline constexpr ScalarForms kFormsOf = {
    {B::template follow<0>, B::template follow<1>, B::template follow<2>, B::template follow<3>},
    B::operands,
    {sizeof(typename B::First), sizeof(typename B::Second)},
    B::kGives};
template <typename B>
inline const StepInfo kInfoOf{.name = "step", .fn = B::run, .scalar = &kFormsOf<B>};

}  // namespace pallasim::interp::ops
