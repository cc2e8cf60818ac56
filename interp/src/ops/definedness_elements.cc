// Definedness of accesses element by element: masks, indices, atomics, refs seen through other widths.
#include <algorithm>

#include "../plan/payload/movement.h"
#include "definedness_steps.h"
#include "elements.h"
#include "pieces.h"

namespace pallasim::interp::ops {
namespace {

using memory::shadow::Definedness;
using Mode = GatherPayload::Mode;

// What the elements of an access are chosen by decides where they lie.
void check_choice(Thread& t, const Step& s, const GatherPayload& p, Shadow& shadow) {
  const auto look = [&](const Addr& a, const std::vector<int64_t>& strides, int size, Shadow::Decides what) {
    const Birth b = shadow.memory(t.index, a.buffer).find(view_of(t, a, p.dims, strides, size));
    if (b != 0) shadow.decides(t, s, b, what);
  };
  if (p.has_mask && p.conditions.empty()) look(p.mask, p.mask_strides, 1, Shadow::Decides::Mask);
  for (const GatherCondition& c : p.conditions)
    for (const uint32_t slot : {c.base, c.bound}) decide_by_slot(t, s, slot, Shadow::Decides::Mask, shadow);
  for (const GatherDim& g : p.ref_dims) {
    if (g.kind == GatherDim::Kind::Array && !p.has_mask)  // lanes that a mask leaves may have any index
      look(g.array, g.array_strides, ir::byte_size(g.array_dtype), Shadow::Decides::Address);
    if (g.start_slot != Addr::kNoSlot) decide_by_slot(t, s, g.start_slot, Shadow::Decides::Address, shadow);
  }
}

// f(number of the element, its place in the buffer or -1, whether the mask takes it), row-major.
template <typename F>
void for_elements(Thread& t, const Step& s, const GatherPayload& p, const F& f) {
  Elements e(t, &s, p);
  const std::byte* const base = t.bases[p.ref.buffer];
  for (int64_t i = 0; i < e.count(); ++i, e.next()) {
    const bool on = e.on();
    const std::byte* const at = on ? e.address() : nullptr;
    f(i, at ? at - base : int64_t{-1}, on, e);
  }
}

class Access {
 public:
  Access(Thread& t, const Step& s, const GatherPayload& p, Shadow& shadow)
      : t_(t), s_(s), p_(p), shadow_(shadow), ref_(shadow.memory(t.index, p.ref.buffer)) {
    check_choice(t, s, p, shadow);
  }

  std::vector<Birth> load() {
    std::vector<Birth> r(bytes());
    std::vector<Birth> other;
    if (p_.has_other)
      shadow_.memory(t_.index, p_.other.buffer).load(view_of(t_, p_.other, p_.dims, p_.other_strides, p_.size), &other);
    for_elements(t_, s_, p_, [&](int64_t i, int64_t at, bool on, const Elements&) {
      const auto to = r.begin() + i * p_.size;
      if (at >= 0)
        for (int b = 0; b < p_.size; ++b) to[b] = ref_.at(at + b);
      else if (on) std::fill_n(to, p_.size, made(&outside_, Shadow::Making::Outside));
      else if (!p_.has_other) std::fill_n(to, p_.size, made(&masked_, Shadow::Making::MaskedLane));
      else std::copy_n(other.begin() + i * p_.size, p_.size, to);
    });
    shadow_.read(t_, s_, p_.ref.loc, &r);
    return r;
  }

  void store(const std::vector<Birth>& value) {
    for_elements(t_, s_, p_, [&](int64_t i, int64_t at, bool, const Elements&) {
      for (int b = 0; at >= 0 && b < p_.size; ++b)
        ref_.set(at + b, at + b + 1, value[static_cast<size_t>(i * p_.size + b)]);
    });
    shadow_.stored(t_, s_, p_.ref, value);
  }

  void dense(const Addr& a, const std::vector<Birth>& births) {
    shadow_.memory(t_.index, a.buffer).store(view_of(t_, a, p_.dims, strides_, p_.size), births);
  }
  std::vector<Birth> value() {
    std::vector<Birth> r;
    shadow_.memory(t_.index, p_.value.buffer).load(view_of(t_, p_.value, p_.dims, strides_, p_.size), &r);
    shadow_.read(t_, s_, p_.value.loc, &r);
    return r;
  }

 private:
  size_t bytes() const {
    int64_t n = p_.size;
    for (const int64_t d : p_.dims) n *= d;
    return static_cast<size_t>(n);
  }
  Birth made(Birth* known, Shadow::Making how) {
    if (*known == 0) *known = shadow_.made(t_, s_, how);
    return *known;
  }
  Thread& t_;
  const Step& s_;
  const GatherPayload& p_;
  Shadow& shadow_;
  Definedness& ref_;
  const std::vector<int64_t> strides_ = dense_strides(p_.dims);
  Birth outside_ = 0, masked_ = 0;
};

}  // namespace

// A mask that leaves lanes, or an element that lies outside.
static bool leaves_any(Thread& t, const Step& s, const GatherPayload& p) {
  if (p.mode != Mode::Load) return false;
  Elements e(t, &s, p);
  if (e.count() == 0 || (e.regular() && e.takes_all())) return false;
  const int64_t n = p.dims.empty() ? 1 : p.dims.back();
  ElementRow row;
  for (int64_t done = 0; done < e.count(); done += n) {
    if (p.dims.empty() || !e.row(&row)) {
      for (int64_t i = 0; i < n; ++i, e.next())
        if (e.on() ? !e.address() : !p.has_other) return true;
      continue;
    }
    if (!p.has_other) {
      if (row.begin != 0 || row.end != n) return true;
      const std::byte* const mask = e.mask_row();
      for (int64_t i = 0; mask && i < n; ++i)
        if (!static_cast<bool>(mask[i * p.mask_strides.back()])) return true;
    }
    e.next_row();
  }
  return false;
}

bool leaves_lanes(Thread& t, const Step& s) {
  return leaves_any(t, s, s.kind == Kind::gather ? payload<Kind::gather>(s) : payload<Kind::load_in_place>(s).access);
}

void carry_gather(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::gather>(s);
  Access a(t, s, p, shadow);
  if (p.mode == Mode::Load) return a.dense(p.value, a.load());
  const std::vector<Birth> value = a.value();
  if (p.mode == Mode::Swap) {
    // What the mask leaves gives back the value that it did not store.
    std::vector<Birth> old = a.load();
    for_elements(t, s, p, [&](int64_t i, int64_t, bool on, const Elements&) {
      if (!on) std::copy_n(value.begin() + i * p.size, p.size, old.begin() + i * p.size);
    });
    a.dense(p.old, old);
  }
  a.store(value);
}

void carry_load_in_place(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::load_in_place>(s);
  Access a(t, s, p.access, shadow);
  const std::vector<Birth> births = a.load();
  a.dense(p.access.value, births);
  if (!p.dense)
    shadow.memory(t.index, p.own.buffer).store(view_of(t, p.own, p.access.dims, p.strides, p.access.size), births);
}

void carry_store_rows(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::store_rows>(s);
  Access a(t, s, p.access, shadow);
  a.store(per_byte(births_of(t, s, p.program, shadow), p.access.size));
}

// Each element is read, combined with its operand and written.
void carry_atomic(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::atomic>(s);
  Access a(t, s, p, shadow);
  std::vector<Birth> value = a.value();
  const std::vector<Birth> old = a.load();
  if (p.has_old) {
    std::vector<Birth> given = old;
    for_elements(t, s, p, [&](int64_t i, int64_t at, bool, const Elements&) {
      if (at < 0) std::fill_n(given.begin() + i * p.size, p.size, Birth{0});  // zeros
    });
    a.dense(p.old, given);
  }
  for (size_t i = 0; i < value.size(); ++i)
    if (value[i] == 0) value[i] = old[i];
  a.store(value);
}

void carry_reinterpret(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::reinterpret>(s);
  const ReinterpretPayload::Level& view = p.levels.front();
  const Pieces pieces(t, p.levels, t.bases);
  const uint32_t buffer = p.levels.back().addr.buffer;
  Definedness &memory = shadow.memory(t.index, buffer), &copy = shadow.memory(t.index, p.copy.buffer);
  std::vector<Birth> births;
  copy.load({p.copy.offset + pieces.offset(0, 0), view.dims, view.strides, view.bytes}, &births);
  const std::byte* const before = p.has_before ? t.bases[p.before.buffer] + p.before.offset : nullptr;
  const std::byte* const bytes = t.bases[p.copy.buffer] + p.copy.offset;
  const auto n = static_cast<int64_t>(births.size()) / view.bytes;
  for (int64_t i = 0; i < n; ++i) {
    const auto of = births.begin() + i * view.bytes;
    const int64_t at = pieces.offset(0, i);
    if (p.write && before && std::memcmp(bytes + at, before + at, static_cast<size_t>(view.bytes)) == 0) continue;
    if (!p.write) std::fill_n(of, view.bytes, Birth{0});
    pieces.visit(0, i, 0, view.bits, 0, [&](const Piece& piece) {
      const int64_t place = piece.at - t.bases[buffer], length = std::max(1, piece.bits / 8);
      for (int64_t b = 0; b < length; ++b) {
        Birth& one = of[piece.from / 8 + b];
        if (p.write) memory.set(place + b, place + b + 1, one);
        else if (one == 0) one = memory.at(place + b);
      }
    });
  }
  if (p.write) return shadow.stored(t, s, p.levels.back().addr, births);
  shadow.read(t, s, p.levels.back().addr.loc, &births);
  copy.store({p.copy.offset + pieces.offset(0, 0), view.dims, view.strides, view.bytes}, births);
}

}  // namespace pallasim::interp::ops
