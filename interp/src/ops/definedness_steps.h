// How definedness travels through kinds of steps, for definedness.cc.
#pragma once
#include <algorithm>

#include "definedness.h"

namespace pallasim::interp::ops {

inline memory::shadow::View view_of(const Thread& t, const Addr& a, std::span<const int64_t> dims,
                                    std::span<const int64_t> strides, int64_t bytes) {
  return {a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn)), dims, strides, bytes};
}
inline Birth any_of(const Births& b) {
  const auto i = std::find_if(b.begin(), b.end(), [](Birth x) { return x != 0; });
  return i == b.end() ? Birth{0} : *i;
}
inline void join(Birth* into, Birth b) {
  if (*into == 0) *into = b;
}
// Of each element of `size` bytes one.
inline Births per_element(const Births& bytes, int size) {
  if (size == 1) return bytes;
  Births r(bytes.size() / static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) join(&r[i / static_cast<size_t>(size)], bytes[i]);
  return r;
}
// Of elements of `size` bytes, per byte.
inline Births per_byte(const Births& elements, int size) {
  if (size == 1) return elements;
  Births r(elements.size() * static_cast<size_t>(size));
  for (size_t i = 0; i < elements.size(); ++i)
    if (elements[i] != 0) std::fill_n(r.begin() + static_cast<int64_t>(i) * size, size, elements[i]);
  return r;
}
// Of `n` bytes or elements each the same.
inline Births all_of(int64_t n, Birth b) { return b == 0 ? Births{} : Births(static_cast<size_t>(n), b); }
// With an entry for each of `n`.
inline Births listed(Births births, int64_t n) {
  births.resize(static_cast<size_t>(n));
  return births;
}
// A slot that decides something.
inline void decide_by_slot(const Thread& t, const Step& s, uint32_t slot, Shadow::Decides what, Shadow& shadow) {
  if (slot == Addr::kNoSlot) return;
  if (const Birth b = shadow.slots(t.index).at(slot)) shadow.decides(t, s, b, what);
}

// Whether a load leaves lanes that nothing defines.
bool leaves_lanes(Thread&, const Step&);
// Whether a load of a scalar reads outside, and goes on.
bool leaves_ref(Thread&, const Step&);
// Rows of the one and columns of the other operand join what is there, in row-major order.
void carry_multiply(const Contraction&, const Births& a, const Births& b, Births* to);
void carry_gather(Thread&, const Step&, Shadow&);
void carry_load_in_place(Thread&, const Step&, Shadow&);
void carry_store_rows(Thread&, const Step&, Shadow&);
void carry_atomic(Thread&, const Step&, Shadow&);
void carry_reinterpret(Thread&, const Step&, Shadow&);

}  // namespace pallasim::interp::ops
