// How definedness travels through kinds of steps, for definedness.cc.
#pragma once
#include <algorithm>

#include "definedness.h"

namespace pallasim::interp::ops {

inline memory::shadow::View view_of(const Thread& t, const Addr& a, std::span<const int64_t> dims,
                                    std::span<const int64_t> strides, int64_t bytes) {
  return {a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn)), dims, strides, bytes};
}
inline Birth any_of(const std::vector<Birth>& b) {
  const auto i = std::find_if(b.begin(), b.end(), [](Birth x) { return x != 0; });
  return i == b.end() ? Birth{0} : *i;
}
inline void join(Birth* into, Birth b) {
  if (*into == 0) *into = b;
}
// Of each element of `size` bytes one.
inline std::vector<Birth> per_element(const std::vector<Birth>& bytes, int size) {
  std::vector<Birth> r(bytes.size() / static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) join(&r[i / static_cast<size_t>(size)], bytes[i]);
  return r;
}
// Of elements of `size` bytes, per byte.
inline std::vector<Birth> per_byte(const std::vector<Birth>& elements, int size) {
  std::vector<Birth> r;
  r.reserve(elements.size() * static_cast<size_t>(size));
  for (const Birth b : elements) r.insert(r.end(), static_cast<size_t>(size), b);
  return r;
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
void carry_multiply(const Contraction&, const std::vector<Birth>& a, const std::vector<Birth>& b,
                    std::vector<Birth>* to);
void carry_gather(Thread&, const Step&, Shadow&);
void carry_load_in_place(Thread&, const Step&, Shadow&);
void carry_store_rows(Thread&, const Step&, Shadow&);
void carry_atomic(Thread&, const Step&, Shadow&);
void carry_reinterpret(Thread&, const Step&, Shadow&);

}  // namespace pallasim::interp::ops
