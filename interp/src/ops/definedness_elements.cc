// Definedness of accesses element by element: masks, indices, atomics, refs seen through other widths.
#include <algorithm>

#include "../plan/array.h"
#include "../plan/payload/movement.h"
#include "definedness_steps.h"
#include "elements.h"
#include "pieces.h"

namespace pallasim::interp::ops {
namespace {

using memory::shadow::Definedness;
using Mode = GatherPayload::Mode;

// Lanes that a mask leaves may have any index, those that it takes may not.
void check_taken(Thread& t, const Step& s, const GatherPayload& p, const GatherDim& g, Shadow& shadow) {
  Births index;
  const int size = ir::byte_size(g.array_dtype);
  shadow.memory(t.index, g.array.buffer).load(view_of(t, g.array, p.dims, g.array_strides, size), &index);
  if (index.empty()) return;
  index = per_element(index, size);
  Elements e(t, &s, p);
  for (int64_t i = 0; i < e.count(); ++i, e.next())
    if (index[static_cast<size_t>(i)] != 0 && e.on())
      shadow.decides(t, s, index[static_cast<size_t>(i)], Shadow::Decides::Address);
}

// Of an undefined mask over elements that all lie inside: the births of its lanes; empty where it is defined. What such
// a lane loads or leaves is undefined, nothing else.
Births undefined_mask(Thread& t, const Step& s, const GatherPayload& p, Shadow& shadow) {
  if (!p.has_mask || !p.conditions.empty() || p.mode == Mode::Atomic || !Elements(t, &s, p).regular()) return {};
  Births r;
  shadow.memory(t.index, p.mask.buffer).load(view_of(t, p.mask, p.dims, p.mask_strides, 1), &r);
  return r;
}

// What the elements of an access are chosen by decides where they lie.
void check_choice(Thread& t, const Step& s, const GatherPayload& p, bool mask, Shadow& shadow) {
  const auto look = [&](const Addr& a, const std::vector<int64_t>& strides, int size, Shadow::Decides what) {
    const Birth b = shadow.memory(t.index, a.buffer).find(view_of(t, a, p.dims, strides, size));
    if (b != 0) shadow.decides(t, s, b, what);
  };
  if (mask && p.has_mask && p.conditions.empty()) look(p.mask, p.mask_strides, 1, Shadow::Decides::Mask);
  for (const GatherCondition& c : p.conditions)
    for (const uint32_t slot : {c.base, c.bound}) decide_by_slot(t, s, slot, Shadow::Decides::Mask, shadow);
  for (const GatherDim& g : p.ref_dims) {
    if (g.kind == GatherDim::Kind::Array) {
      if (p.has_mask) check_taken(t, s, p, g, shadow);
      else look(g.array, g.array_strides, ir::byte_size(g.array_dtype), Shadow::Decides::Address);
    }
    if (g.start_slot != Addr::kNoSlot) decide_by_slot(t, s, g.start_slot, Shadow::Decides::Address, shadow);
  }
}

// The elements of an access, row-major, to `see`: run(number of the first, its place in the buffer, how many follow
// each other there), off(number of the first, how many) of those that the mask leaves, outside(number).
template <typename See>
void visit(Thread& t, const Step& s, const GatherPayload& p, See&& see) {
  Elements e(t, &s, p);
  const std::byte* const base = t.bases[p.ref.buffer];
  const int64_t n = p.dims.empty() ? 1 : p.dims.back();
  ElementRow row;
  for (int64_t first = 0; first < e.count(); first += n) {
    if (p.dims.empty() || !e.row(&row)) {
      for (int64_t i = first; i < first + n; ++i, e.next()) {
        const bool on = e.on();
        const std::byte* const at = on ? e.address() : nullptr;
        if (at) see.run(i, at - base, 1);
        else if (on) see.outside(i);
        else see.off(i, 1);
      }
      continue;
    }
    const int64_t begin = row.first - base;
    const std::byte* const mask = e.mask_row();
    if (row.begin > 0) see.off(first, row.begin);
    if (!mask && row.offsets.empty() && row.step == 1 && row.end > row.begin) {
      see.run(first + row.begin, begin, row.end - row.begin);
    } else {
      for (int64_t i = row.begin; i < row.end; ++i)
        if (mask && !static_cast<bool>(mask[i * p.mask_strides.back()])) see.off(first + i, 1);
        else see.run(first + i, begin + row.offset(i) * p.size, 1);
    }
    if (row.end < n) see.off(first + row.end, n - row.end);
    e.next_row();
  }
}

// A mask that leaves lanes, or an element that lies outside.
struct Leaves {
  bool has_other, any = false;
  void run(int64_t, int64_t, int64_t) {}
  void outside(int64_t) { any = true; }
  void off(int64_t, int64_t) { any = any || !has_other; }
};
bool leaves_any(Thread& t, const Step& s, const GatherPayload& p) {
  if (const Elements e(t, &s, p); e.regular() && e.takes_all()) return false;
  Leaves leaves{p.has_other};
  visit(t, s, p, leaves);
  return leaves.any;
}

// Lanes that the mask leaves get other births.
struct Left {
  Births& births;
  const Births& from;
  int64_t size;
  void run(int64_t, int64_t, int64_t) {}
  void outside(int64_t) {}
  void off(int64_t i, int64_t n) { std::copy_n(from.begin() + i * size, n * size, births.begin() + i * size); }
};

class Access {
 public:
  Access(Thread& t, const Step& s, const GatherPayload& p, Shadow& shadow)
      : t_(t), s_(s), p_(p), shadow_(shadow), ref_(shadow.memory(t.index, p.ref.buffer)) {
    choice_ = undefined_mask(t, s, p, shadow);
    check_choice(t, s, p, choice_.empty(), shadow);
  }

  // Of each byte one.
  Births load() {
    if (choice_.empty() && ref_.all_defined() && !leaves_any(t_, s_, p_) && !other_undefined()) return {};
    Births r(static_cast<size_t>(arrays::count(p_.dims) * p_.size)), other;
    if (p_.has_other)
      shadow_.memory(t_.index, p_.other.buffer).load(view_of(t_, p_.other, p_.dims, p_.other_strides, p_.size), &other);
    visit(t_, s_, p_, Load{*this, r.data(), other.empty() ? nullptr : other.data()});
    shadow_.read(t_, s_, p_.ref.loc, &r);
    choose(&r);
    return r;
  }

  void store(const Births& value) {
    if (choice_.empty() && value.empty() && ref_.all_defined()) return;
    visit(t_, s_, p_, Store{*this, value.empty() ? nullptr : value.data()});
    if (!choice_.empty()) leave_or_store();
    shadow_.stored(t_, s_, p_.ref, value);
    if (!choice_.empty()) shadow_.stored(t_, s_, p_.ref, choice_);
  }

  // Each element is read, combined with its operand and written, lane after lane: several may have the same one. What
  // they found; where there is none, zeros.
  Births combine(const Births& value) {
    if (value.empty() && ref_.all_defined()) return {};
    Births old(static_cast<size_t>(arrays::count(p_.dims) * p_.size));
    visit(t_, s_, p_, Combine{*this, value.empty() ? nullptr : value.data(), old.data()});
    shadow_.stored(t_, s_, p_.ref, listed(value, std::ssize(old)));
    shadow_.stored(t_, s_, p_.ref, old);
    return old;
  }

  // Which of two values these lanes have nobody knows.
  void choose(Births* r) const {
    for (size_t i = 0; i < choice_.size(); ++i)
      if (choice_[i] != 0) std::fill_n(r->begin() + static_cast<int64_t>(i) * p_.size, p_.size, choice_[i]);
  }

  void dense(const Addr& a, const Births& births) {
    shadow_.memory(t_.index, a.buffer).store(view_of(t_, a, p_.dims, strides_, p_.size), births);
  }
  Births value() {
    Births r;
    shadow_.memory(t_.index, p_.value.buffer).load(view_of(t_, p_.value, p_.dims, strides_, p_.size), &r);
    shadow_.read(t_, s_, p_.value.loc, &r);
    return r;
  }

 private:
  // Whether these elements have the old value or the new one nobody knows.
  void leave_or_store() {
    const Elements all(t_, &s_, p_);
    const std::byte* const base = t_.bases[p_.ref.buffer];
    std::vector<int64_t> index(p_.dims.size());
    size_t i = 0;
    do {
      if (choice_[i++] == 0) continue;
      int64_t at = all.base() - base;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * all.strides()[d] * p_.size;
      ref_.set(at, at + p_.size, choice_[i - 1]);
    } while (memory::next_index(index.data(), index.size(), p_.dims.data()));
  }
  struct Load {
    Access& a;
    Birth* to;
    const Birth* other;
    void run(int64_t i, int64_t at, int64_t n) { a.ref_.load(at, n * a.p_.size, to + i * a.p_.size); }
    void outside(int64_t i) {
      std::fill_n(to + i * a.p_.size, a.p_.size, a.made(&a.outside_, Shadow::Making::Outside));
    }
    void off(int64_t i, int64_t n) {
      if (!a.p_.has_other)
        std::fill_n(to + i * a.p_.size, n * a.p_.size, a.made(&a.masked_, Shadow::Making::MaskedLane));
      else if (other) std::copy_n(other + i * a.p_.size, n * a.p_.size, to + i * a.p_.size);
    }
  };
  struct Store {
    Access& a;
    const Birth* value;
    void run(int64_t i, int64_t at, int64_t n) {
      if (value) a.ref_.store(at, n * a.p_.size, value + i * a.p_.size);
      else a.ref_.set(at, at + n * a.p_.size, 0);
    }
    void outside(int64_t) {}
    void off(int64_t, int64_t) {}
  };
  struct Combine {
    Access& a;
    const Birth* value;
    Birth* old;
    void run(int64_t i, int64_t at, int64_t n) {
      for (int64_t b = i * a.p_.size, end = b + n * a.p_.size; b < end; ++b, ++at) {
        old[b] = a.named(a.ref_.at(at));
        a.ref_.set(at, at + 1, value && value[b] != 0 ? value[b] : old[b]);
      }
    }
    void outside(int64_t) {}
    void off(int64_t, int64_t) {}
  };
  Birth named(Birth b) {
    if (b == 0) return b;
    Births one{b};
    shadow_.read(t_, s_, p_.ref.loc, &one);
    return one[0];
  }
  bool other_undefined() const {
    return p_.has_other &&
           shadow_.memory(t_.index, p_.other.buffer).find(view_of(t_, p_.other, p_.dims, p_.other_strides, p_.size)) !=
               0;
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
  Births choice_;  // see undefined_mask
  Birth outside_ = 0, masked_ = 0;
};

}  // namespace

bool leaves_lanes(Thread& t, const Step& s) {
  const GatherPayload& p = s.kind == Kind::gather ? payload<Kind::gather>(s) : payload<Kind::load_in_place>(s).access;
  return p.mode == Mode::Load && leaves_any(t, s, p);
}

void carry_gather(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::gather>(s);
  Access a(t, s, p, shadow);
  if (p.mode == Mode::Load) return a.dense(p.value, a.load());
  const Births value = a.value();
  if (p.mode == Mode::Swap) {
    // What the mask leaves gives back the value that it did not store.
    Births old = a.load();
    if (!old.empty() || !value.empty()) {
      const Births given = listed(value, arrays::count(p.dims) * p.size);
      old.resize(given.size());
      visit(t, s, p, Left{old, given, p.size});
      a.choose(&old);
    }
    a.dense(p.old, old);
  }
  a.store(value);
}

void carry_load_in_place(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::load_in_place>(s);
  Access a(t, s, p.access, shadow);
  const Births births = a.load();
  a.dense(p.access.value, births);
  if (!p.dense)
    shadow.memory(t.index, p.own.buffer).store(view_of(t, p.own, p.access.dims, p.strides, p.access.size), births);
}

void carry_store_rows(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::store_rows>(s);
  Access a(t, s, p.access, shadow);
  a.store(per_byte(births_of(t, s, p.program, shadow), p.access.size));
}

void carry_atomic(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::atomic>(s);
  Access a(t, s, p, shadow);
  const Births old = a.combine(a.value());
  if (p.has_old) a.dense(p.old, old);
}

void carry_reinterpret(Thread& t, const Step& s, Shadow& shadow) {
  const auto& p = payload<Kind::reinterpret>(s);
  const ReinterpretPayload::Level& view = p.levels.front();
  const Pieces pieces(t, p.levels, t.bases);
  const uint32_t buffer = p.levels.back().addr.buffer;
  Definedness &memory = shadow.memory(t.index, buffer), &copy = shadow.memory(t.index, p.copy.buffer);
  Births births;
  copy.load({p.copy.offset + pieces.offset(0, 0), view.dims, view.strides, view.bytes}, &births);
  births.resize(static_cast<size_t>(arrays::count(view.dims) * view.bytes));
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
