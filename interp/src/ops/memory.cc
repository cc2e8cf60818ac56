#include <algorithm>

#include "../plan/payload/places.h"
#include "bodies.h"
#include "definedness_steps.h"
#include "elements.h"
#include "findings.h"
#include "footprint.h"
#include "pallasim/memory/saturate.h"
#include "parts.h"
#include "threaded.h"

namespace pallasim::interp::ops {
namespace {

int64_t index_value(const Thread& t, const IndexTerm& term) {
  return term.wide ? t.slot<int64_t>(term.slot) : t.slot<int32_t>(term.slot);
}

// What is known at run time only, in its place.
IndexTerm at_run_time(const Thread& t, IndexTerm term) {
  if (term.size_slot != Addr::kNoSlot) term.size = term.reach = t.slot<int64_t>(term.size_slot);
  if (term.extent_slot != Addr::kNoSlot) term.extent = t.slot<int64_t>(term.extent_slot);
  return term;
}

bool by_slots(const IndexTerm& term) { return term.size_slot != Addr::kNoSlot || term.extent_slot != Addr::kNoSlot; }

bool is_inside(const Thread& t, const IndexTerm& term, int64_t i) {
  if (!by_slots(term)) [[likely]]
    return i >= term.first && i <= term.last;
  const IndexTerm now = at_run_time(t, term);
  return now.size >= 0 && i >= now.first && memory::add(i, now.reach) <= memory::add(now.extent, now.padding);
}

// Of an index that is not: the run ends, or goes on as the machine does.
int64_t outside_offset(const Thread& t, const Step* s, const IndexTerm& term, int64_t i, const std::string& ref,
                       const std::vector<int64_t>& shape, bool write) {
  if (by_slots(term) || t.exec->options->out_of_bounds != Options::Oob::Machine || term.last < 0)
    diagnose(t).out_of_bounds(t, s, at_run_time(t, term), i, ref, shape, write ? "write" : "read");
  const int64_t used = std::clamp<int64_t>(i, term.first, term.last);
  diagnose(t).note_out_of_bounds(t, s, term, i, used, ref, shape);
  return used * term.stride;
}

bool is_empty(const Thread& t, const IndexPayload& p) {
  return p.empty || std::any_of(p.sizes.begin(), p.sizes.end(), [&](uint32_t n) { return t.slot<int64_t>(n) == 0; });
}

struct IndexBounds {
  using First = int32_t;   // the index, where it is the only one
  using Second = int64_t;  // the offset before
  static constexpr uint8_t kGives = sizeof(int64_t);
  static std::array<uint32_t, 2> operands(const Step& s) {
    const auto& terms = payload<Kind::index_bounds>(s).terms;
    return {terms.size() == 1 && !terms[0].wide ? terms[0].slot : Addr::kNoSlot, s.a};
  }

  static const Step* run(Thread& t, const Step* s) {
    const auto& p = payload<Kind::index_bounds>(s);
    int64_t offset = s->a == Addr::kNoSlot ? 0 : t.slot<int64_t>(s->a);
    for (const IndexTerm& term : p.terms) {
      const int64_t i = index_value(t, term);
      if (is_inside(t, term, i)) [[likely]]
        offset += i * term.stride;
      else if (!is_empty(t, p)) offset += outside_offset(t, s, term, i, p.ref, p.shape, p.write);
    }
    t.slot<int64_t>(s->dst) = offset;
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    const auto& p = payload<Kind::index_bounds>(s);
    int64_t offset = s->a == Addr::kNoSlot ? 0 : operand<(given & 2) != 0, int64_t>(t, s->a, value);
    for (const IndexTerm& term : p.terms) {
      if (term.wide || by_slots(term)) [[unlikely]]
        return by_engine<IndexBounds, int64_t>(t, s);
      const int64_t i = operand<(given & 1) != 0, int32_t>(t, term.slot, value);
      if (i < term.first || i > term.last) [[unlikely]]
        return by_engine<IndexBounds, int64_t>(t, s);
      offset += i * term.stride;
    }
    return go_on<int64_t>(t, s, offset);
  }
};
}  // namespace
const StepForm kIndexBounds = kFormOf<Kind::index_bounds, IndexBounds>;

const Step* clamp_index(Thread& t, const Step* s) {
  const auto& p = payload<Kind::clamp_index>(s);
  int64_t offset = s->a == Addr::kNoSlot ? 0 : t.slot<int64_t>(s->a);
  for (const IndexTerm& term : p.terms) offset += std::clamp<int64_t>(index_value(t, term), 0, term.last) * term.stride;
  t.slot<int64_t>(s->dst) = offset;
  return s + 1;
}

bool may_read_at(const ReadsOutside& p, int64_t begin, int64_t bytes) {
  return p.go_on && (p.end < 0 || (begin >= 0 && memory::add(begin, bytes) <= p.end));
}

namespace {
// Null: of a load that goes on where it left its ref.
std::byte* scalar_address(Thread& t, const Step* s, const ScalarAccess& p) {
  std::byte* at = t.resolve(p.addr);
  if (!p.has_term) return at;
  const int64_t i = index_value(t, p.term);
  if (is_inside(t, p.term, i)) return at + i * p.term.stride;
  const int64_t offset = memory::add(at - t.bases[p.addr.buffer], memory::mul(i, p.term.stride));
  if (!p.store && may_read_at(p.outside, offset, p.bytes)) {
    diagnose(t).note_read_outside(t, s, p.term, i, p.ref, p.shape);
    return nullptr;
  }
  return at + outside_offset(t, s, p.term, i, p.ref, p.shape, p.store != nullptr);
}

// What is loaded from outside: what memory holds that nobody wrote.
using Unwritten = std::array<std::byte, 16>;
Unwritten unwritten(const Thread& t, const ScalarAccess& p) {
  Unwritten r{};
  poison(r.data(), 1, p.dtype, t.exec->options->uninitialized);
  return r;
}
}  // namespace

static const Step* load_scalar(Thread& t, const Step* s) {
  const auto& p = payload<Kind::load_scalar>(s);
  if (const std::byte* at = scalar_address(t, s, p)) p.load(t.arena + s->dst, at, 1, 1);
  else p.load(t.arena + s->dst, unwritten(t, p).data(), 1, 1);
  return s + 1;
}

bool leaves_ref(Thread& t, const Step& s) {
  const auto& p = payload<Kind::load_scalar>(s);
  return p.has_term && p.outside.go_on && !is_inside(t, p.term, index_value(t, p.term));
}

static const Step* store_scalar(Thread& t, const Step* s) {
  const auto& p = payload<Kind::store_scalar>(s);
  std::byte* at = scalar_address(t, s, p);
  p.store(at, t.arena + s->a, 1, 1);
  t.exec->progressed = true;
  return s + 1;
}

ElementAccess element(const Thread& t, const Step& s) {
  const bool write = s.kind == Kind::store_scalar;
  const ScalarAccess& p = write ? payload<Kind::store_scalar>(s) : payload<Kind::load_scalar>(s);
  ElementAccess r{t.index, s.id, p.addr.buffer, write, -1, p.bytes};
  if (r.buffer < kTempBuffer || t.exec->plan->memory.is_alias(r.buffer)) return r;
  int64_t offset = p.addr.offset + (p.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.addr.dyn));
  if (p.has_term) {
    const int64_t i = index_value(t, p.term);
    if (!is_inside(t, p.term, i)) return r;
    offset += i * p.term.stride;
  }
  r.offset = offset;
  return r;
}

static void element_box(Thread& t, const Step& s, const ScalarAccess& p, bool write, Boxes& out) {
  const uint32_t buffer = p.addr.buffer;
  if (buffer < kTempBuffer || !out.wants(buffer)) return;
  int64_t offset = element(t, s).offset;
  if (offset < 0) {
    const std::byte* const at = scalar_address(t, &s, p);
    if (!at) return;
    offset = at - t.bases[buffer];
  }
  out.element_at({buffer, Addr::kNoSlot, offset, p.addr.loc}, p.bytes, write);
}
void load_scalar_footprint(Thread& t, const Step& s, Boxes& out) {
  element_box(t, s, payload<Kind::load_scalar>(s), false, out);
}
void store_scalar_footprint(Thread& t, const Step& s, Boxes& out) {
  element_box(t, s, payload<Kind::store_scalar>(s), true, out);
}
const StepForm kLoadScalar{Kind::load_scalar, load_scalar}, kStoreScalar{Kind::store_scalar, store_scalar};

namespace {
// Where an element lies: at a place of memory that does not move, there by one index of 32 bits,
// or anywhere.
enum class Where : uint8_t { Fixed, Indexed, Anywhere };
Where where(const ScalarAccess& p) {
  if (p.addr.dyn != Addr::kNoSlot) return Where::Anywhere;
  if (!p.has_term) return Where::Fixed;
  return !p.term.wide && !by_slots(p.term) && p.term.last >= 0 ? Where::Indexed : Where::Anywhere;
}
template <Where where, bool given>
std::byte* place(const Thread& t, const ScalarAccess& p, uint64_t value) {  // null: it takes a longer look
  if constexpr (where == Where::Anywhere) return nullptr;
  std::byte* const base = t.bases[p.addr.buffer] + p.addr.offset;
  if constexpr (where == Where::Fixed) return base;
  const int64_t i = operand<given, int32_t>(t, p.term.slot, value);
  if (static_cast<uint64_t>(i) > static_cast<uint64_t>(p.term.last)) [[unlikely]]
    return nullptr;
  return base + i * p.term.stride;
}
template <Where where>
uint32_t index_slot(const ScalarAccess& p) {
  return where == Where::Indexed ? p.term.slot : Addr::kNoSlot;
}

template <typename T, Where where>
struct Load {
  using First = int32_t;
  using Second = int32_t;
  static constexpr uint8_t kGives = sizeof(T);
  static std::array<uint32_t, 2> operands(const Step& s) {
    return {index_slot<where>(payload<Kind::load_scalar>(s)), Addr::kNoSlot};
  }

  static const Step* run(Thread& t, const Step* s) {
    const auto& p = payload<Kind::load_scalar>(s);
    const std::byte* at = place<where, false>(t, p, 0);
    if (!at) at = scalar_address(t, s, p);
    if (!at) [[unlikely]]
      std::memcpy(t.arena + s->dst, unwritten(t, p).data(), sizeof(T));
    else t.slot<T>(s->dst) = *reinterpret_cast<const T*>(at);
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    const std::byte* at = place<where, (given & 1) != 0>(t, payload<Kind::load_scalar>(s), value);
    if (!at) [[unlikely]]
      return by_engine<Load, T>(t, s);
    return go_on<T>(t, s, *reinterpret_cast<const T*>(at));
  }
};

template <typename T, Where where>
struct Store {
  using First = int32_t;
  using Second = T;
  static constexpr uint8_t kGives = 0;
  static std::array<uint32_t, 2> operands(const Step& s) {
    return {index_slot<where>(payload<Kind::store_scalar>(s)), s.a};
  }

  static const Step* run(Thread& t, const Step* s) {
    const auto& p = payload<Kind::store_scalar>(s);
    std::byte* at = place<where, false>(t, p, 0);
    *reinterpret_cast<T*>(at ? at : scalar_address(t, s, p)) = t.slot<T>(s->a);
    t.exec->progressed = true;
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    std::byte* at = place<where, (given & 1) != 0>(t, payload<Kind::store_scalar>(s), value);
    if (!at) [[unlikely]]
      return longer(t, s);
    t.exec->progressed = true;
    *reinterpret_cast<T*>(at) = operand<(given & 2) != 0, T>(t, s->a, value);
    return go_on(t, s);
  }

 private:
  [[gnu::noinline]] static const Step* longer(Thread& t, const Step* s) {
    run(t, s);
    return go_on(t, s);
  }
};

template <Kind kind, template <typename, Where> typename Of, typename T>
const StepForm* of_place(Where w) {
  return w == Where::Fixed     ? &kFormOf<kind, Of<T, Where::Fixed>>
         : w == Where::Indexed ? &kFormOf<kind, Of<T, Where::Indexed>>
                               : &kFormOf<kind, Of<T, Where::Anywhere>>;
}

// f(0 of the unsigned type of so many bytes); null for widths that no word has.
template <typename F>
const StepForm* of_word(int bytes, const F& f) {
  return bytes == 1 ? f(uint8_t{}) : bytes == 4 ? f(uint32_t{}) : bytes == 8 ? f(uint64_t{}) : nullptr;
}
}  // namespace

const StepForm* fast_store_scalar(const ScalarAccess& p) {
  return of_word(p.bytes, [&](auto word) { return of_place<Kind::store_scalar, Store, decltype(word)>(where(p)); });
}

const StepForm* fast_load_scalar(const ScalarAccess& p) {
  return of_word(p.bytes, [&](auto word) { return of_place<Kind::load_scalar, Load, decltype(word)>(where(p)); });
}

const Step* copy(Thread& t, const Step* s) {
  const auto& p = payload<Kind::copy>(s);
  std::byte* dst = t.resolve(p.dst);
  const std::byte* src = t.resolve(p.src);
  t.exec->progressed |= s->b != 0;
  const int64_t one = 1;
  if (!p.contiguous)
    copy_in_parts(*t.exec, dst, p.dst_strides.data(), src, p.src_strides.data(), p.dims.data(),
                  static_cast<int>(p.dims.size()), p.size);
  else if (t.exec->host.helpers && (dst + p.bytes <= src || src + p.bytes <= dst))
    copy_in_parts(*t.exec, dst, &one, src, &one, &p.bytes, 1, 1);
  else std::memmove(dst, src, static_cast<size_t>(p.bytes));
  return s + 1;
}

const Step* fill(Thread& t, const Step* s) {
  const auto& p = payload<Kind::fill>(s);
  fill_strided(t.resolve(p.dst), p.strides.data(), &p.element, p.dims.data(), static_cast<int>(p.dims.size()), p.size);
  if (!p.name.empty())
    t.exec->events->memory(
        {MemoryEvent::What::Fresh, t.index, p.dst.buffer, p.dst.offset, p.dims[0] * p.size, &p.name});
  return s + 1;
}

}  // namespace pallasim::interp::ops
