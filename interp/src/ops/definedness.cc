#include "definedness.h"

#include <algorithm>

#include "../plan/payload/arithmetic.h"
#include "../plan/payload/array.h"
#include "../plan/payload/bulk.h"
#include "../plan/payload/copies.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/places.h"
#include "../plan/payload/rows.h"
#include "../plan/payload/tensor.h"
#include "definedness_steps.h"
#include "footprint.h"

namespace pallasim::interp::ops {
namespace {

using memory::shadow::Definedness, memory::shadow::View;
using Decides = Shadow::Decides;

// The boxes of a step, which stay.
class Collected : public Boxes {
 public:
  struct Box {
    int32_t thread;
    uint32_t buffer;
    int64_t offset;
    std::vector<int64_t> dims, strides;
    int bytes;
    ir::LocId loc;
    View view() const { return {offset, dims, strides, bytes}; }
    Addr addr() const { return {buffer, Addr::kNoSlot, offset, loc}; }
  };
  Collected(Thread& t, const Step& s) : Boxes(t, s) { footprint(t, s, *this); }
  std::vector<Box> reads, writes;

 private:
  void box(const Access& a) override {
    const auto rank = static_cast<size_t>(a.rank);
    (a.write ? writes : reads)
        .push_back({a.owner < 0 ? a.thread : a.owner,
                    a.buffer,
                    a.offset,
                    {a.dims, a.dims + rank},
                    {a.strides, a.strides + rank},
                    a.element_bytes,
                    a.loc});
  }
};

// One step of a thread.
class Carrier {
 public:
  Carrier(Thread& t, const Step& s, Shadow& shadow) : t_(t), s_(s), shadow_(shadow) {}

  Births load(const Addr& a, std::span<const int64_t> dims, std::span<const int64_t> strides, int bytes) {
    Births r;
    shadow_.memory(t_.index, a.buffer).load(view_of(t_, a, dims, strides, bytes), &r);
    shadow_.read(t_, s_, a.loc, &r);
    return r;
  }
  void store(const Addr& a, std::span<const int64_t> dims, std::span<const int64_t> strides, int bytes,
             const Births& births) {
    shadow_.memory(t_.index, a.buffer).store(view_of(t_, a, dims, strides, bytes), births);
    shadow_.stored(t_, s_, a, births);
  }
  // Of each element one.
  Births load_elements(const Addr& a, std::span<const int64_t> dims, std::span<const int64_t> strides, int bytes) {
    return per_element(load(a, dims, strides, bytes), bytes);
  }

  Birth slot(uint32_t s) { return s == Addr::kNoSlot ? Birth{0} : shadow_.slots(t_.index).at(s); }
  void set_slot(uint32_t s, Birth b) { shadow_.slots(t_.index).set(s, s + 16, b); }
  void decides(uint32_t s, Decides what) { decide_by_slot(t_, s_, s, what, shadow_); }

  void elementwise(const EltProgram& p) {
    store(p.dst, p.dims, p.dst_strides, p.dst_bytes, per_byte(births_of(t_, s_, p, shadow_), p.dst_bytes));
  }

  void copy(const CopyPayload& p) {
    store(p.dst, p.dims, p.dst_strides, p.size, load(p.src, p.dims, p.src_strides, p.size));
  }

  void reduce(const ReducePayload& p) {
    const int64_t dims[] = {p.outer, p.reduce, p.inner}, strides[] = {p.reduce * p.inner, p.inner, 1};
    const Births from = load_elements(p.src, dims, strides, p.element_bytes);
    const Births to = from.empty() ? Births{} : sums(p, from);
    const int bytes = s_.kind == Kind::arg_reduce ? ir::byte_size(p.index) : p.element_bytes;
    const int64_t one = 1, n = p.outer * p.inner * (s_.kind == Kind::cumulative ? p.reduce : 1);
    store(p.dst, {&n, 1}, {&one, 1}, bytes, per_byte(to, bytes));
  }

  Births sums(const ReducePayload& p, const Births& from) {
    const bool cumulative = s_.kind == Kind::cumulative;
    Births to(static_cast<size_t>(p.outer * p.inner * (cumulative ? p.reduce : 1)));
    for (int64_t o = 0; o < p.outer; ++o)
      for (int64_t i = 0; i < p.inner; ++i) {
        Birth sum = 0;
        for (int64_t k = 0; k < p.reduce; ++k) {
          const int64_t at = (o * p.reduce + (cumulative && p.reverse ? p.reduce - 1 - k : k)) * p.inner + i;
          join(&sum, from[static_cast<size_t>(at)]);
          if (cumulative) to[static_cast<size_t>(at)] = sum;
        }
        if (!cumulative) to[static_cast<size_t>(o * p.inner + i)] = sum;
      }
    compute(&to);
    return to;
  }

  void contraction(const ContractPayload& p) {
    const Contraction& c = p.contraction;
    const int64_t a_dims[] = {c.batch, c.m, c.k}, a_strides[] = {c.a_batch, c.a_row, c.a_col},
                  b_dims[] = {c.batch, c.k, c.n}, b_strides[] = {c.b_batch, c.b_row, c.b_col},
                  dims[] = {c.batch, c.m, c.n}, strides[] = {c.c_batch, c.c_row, 1};
    const Births a = load_elements(p.a, a_dims, a_strides, ir::byte_size(c.in)),
                 b = load_elements(p.b, b_dims, b_strides, ir::byte_size(c.in_rhs));
    const int bytes = ir::byte_size(c.out);
    Births to;
    if (c.accumulate) to = load_elements(p.dst, dims, strides, bytes);
    carry_multiply(c, a, b, &to);
    compute(&to);
    store(p.dst, dims, strides, bytes, per_byte(to, bytes));
  }

  void compute(Births* births) {
    for (Birth& b : *births)
      if (b != 0) b = shadow_.computed(b);
  }

  // Operands that the body only moves carry their births through it; of others one is enough for all results.
  void array(const ArrayPayload& p) {
    std::vector<Births> in;
    Birth opaque = 0, moved = 0;
    const int64_t one = 1;
    for (size_t i = 0; i < p.in.size(); ++i) {
      in.push_back(load(p.in[i].addr, {&p.in[i].elements, 1}, {&one, 1}, p.in[i].element_bytes));
      join(p.body.moves >> i & 1 ? &moved : &opaque, any_of(in.back()));
    }
    std::vector<Births> out(p.out.size());
    if (opaque != 0 || moved != 0) {
      for (size_t i = 0; i < out.size(); ++i)
        out[i].assign(static_cast<size_t>(p.out[i].elements * p.out[i].element_bytes), opaque);
      if (p.body.lanes) lanes(p, in, &out);
      else if (opaque == 0) move(p, &in, &out);
    }
    for (size_t i = 0; i < p.out.size(); ++i)
      store(p.out[i].addr, {&p.out[i].elements, 1}, {&one, 1}, p.out[i].element_bytes, out[i]);
  }

  static void lanes(const ArrayPayload& p, const std::vector<Births>& in, std::vector<Births>* out) {
    for (size_t o = 0; o < out->size(); ++o) {
      Births& to = (*out)[o];
      std::fill(to.begin(), to.end(), Birth{0});
      for (size_t i = 0; i < in.size(); ++i)
        for (size_t b = 0; b < in[i].size(); ++b) {
          const size_t element = b / static_cast<size_t>(p.in[i].element_bytes);
          const auto bytes = static_cast<size_t>(p.out[o].element_bytes);
          for (size_t k = 0; in[i][b] != 0 && k < bytes && element * bytes + k < to.size(); ++k)
            join(&to[element * bytes + k], in[i][b]);
        }
    }
  }

  // The body moves births in place of bytes, and once more where all are defined: what it fills with is equal in both.
  void move(const ArrayPayload& p, std::vector<Births>* in, std::vector<Births>* out) {
    std::vector<Births> filled = *out;
    for (std::vector<Births>* to : {out, &filled}) {
      std::vector<const std::byte*> from;
      std::vector<std::byte*> into;
      for (size_t i = 0; i < p.in.size(); ++i) {
        (*in)[i].resize(static_cast<size_t>(p.in[i].elements * p.in[i].element_bytes));
        if (to == &filled) std::fill((*in)[i].begin(), (*in)[i].end(), Birth{0});
        from.push_back(p.body.moves >> i & 1 ? reinterpret_cast<const std::byte*>((*in)[i].data())
                                             : t_.resolve(p.in[i].addr));
      }
      for (Births& b : *to) into.push_back(reinterpret_cast<std::byte*>(b.data()));
      p.body({t_, from.data(), into.data()});
    }
    for (size_t i = 0; i < out->size(); ++i)
      for (size_t b = 0; b < (*out)[i].size(); ++b)
        if ((*out)[i][b] == filled[i][b]) (*out)[i][b] = 0;
  }

  // Boxes that are written get what is read: element by element where they are one of each and of equal bytes.
  void boxes() {
    Collected boxes(t_, s_);
    Birth all = 0;
    Births from;
    for (const auto& r : boxes.reads) {
      shadow_.memory(r.thread, r.buffer).load(r.view(), &from);
      shadow_.read(t_, s_, r.loc, &from);
      join(&all, any_of(from));
    }
    for (const auto& w : boxes.writes) {
      const View v = w.view();
      const int64_t n = v.elements() * v.bytes;
      const Births to = boxes.reads.size() == 1 && std::ssize(from) == n ? from : all_of(n, all);
      shadow_.memory(w.thread, w.buffer).store(v, to);
      shadow_.stored(t_, s_, w.addr(), to);
    }
  }

  void load_scalar() {
    Collected boxes(t_, s_);
    const auto& p = payload<Kind::load_scalar>(s_);
    if (p.has_term) decides(p.term.slot, Decides::Address);
    Births from;
    for (const auto& r : boxes.reads) {
      shadow_.memory(r.thread, r.buffer).load(r.view(), &from);
      shadow_.read(t_, s_, r.loc, &from);
    }
    if (leaves_ref(t_, s_)) from.push_back(shadow_.made(t_, s_, Shadow::Making::Outside));
    set_slot(s_.dst, any_of(from));
  }
  void store_scalar() {
    Collected boxes(t_, s_);
    const auto& p = payload<Kind::store_scalar>(s_);
    if (p.has_term) decides(p.term.slot, Decides::Address);
    for (const auto& w : boxes.writes) {
      const Births to = all_of(w.bytes, slot(s_.a));
      shadow_.memory(w.thread, w.buffer).store(w.view(), to);
      shadow_.stored(t_, s_, w.addr(), to);
    }
  }

  // A word of another subcore: what it held, and what is added to it.
  void fetch_and_add() {
    Collected boxes(t_, s_);
    Births word;
    Birth old = 0;
    for (const auto& r : boxes.reads) {
      shadow_.memory(r.thread, r.buffer).load(r.view(), &word);
      shadow_.read(t_, s_, r.loc, &word);
      join(&old, any_of(word));
    }
    const Birth added = slot(payload<Kind::fetch_and_add>(s_).value_slot);
    set_slot(s_.dst, old);
    for (const auto& w : boxes.writes) {
      const Births to = all_of(w.bytes, old ? old : added);
      shadow_.memory(w.thread, w.buffer).store(w.view(), to);
      shadow_.stored(t_, s_, w.addr(), to);
    }
  }
  // The list of a copy of chosen rows decides where they lie.
  void row_copy(const RowCopyPayload& p) {
    const ChosenRows& r = p.rows;
    if (p.chooses) {
      decides(r.count_slot, Decides::Size);
      const int64_t n = r.count_slot == Addr::kNoSlot ? r.count : std::max<int64_t>(t_.slot<int64_t>(r.count_slot), 0);
      const Birth b = shadow_.memory(t_.index, r.list.buffer)
                          .find(view_of(t_, r.list, {&n, 1}, {&r.stride, 1}, ir::byte_size(r.dtype)));
      if (b != 0) shadow_.decides(t_, s_, b, Decides::Address);
    }
    boxes();
  }
  void extent(const ValidPayload& p) {
    for (const uint32_t slot : {p.extent_slot, p.start_slot, p.size_slot}) decides(slot, Decides::Size);
    set_slot(s_.dst, 0);
  }

  void index(const IndexPayload& p) {
    for (const IndexTerm& term : p.terms) {
      decides(term.slot, Decides::Address);
      decides(term.size_slot, Decides::Size);
    }
    set_slot(s_.dst, 0);
  }
  void semaphore(const SemPayload& p) {
    decides(p.value_slot, Decides::Count);
    decides(p.index.dyn, Decides::Address);
    decides(p.peer.device.slot, Decides::Unit);
    decides(p.peer.core_slot, Decides::Unit);
  }

  Birth scalar(int arity) {
    Birth r = 0;
    const uint32_t from[] = {s_.a, s_.b, s_.c};
    for (int i = 0; i < std::min(arity, 3); ++i) join(&r, slot(from[i]));
    return r == 0 ? r : shadow_.computed(r);
  }
  // Truth values and integers that the other operand settles.
  bool settled() {
    const ir::OpCode op = s_.form->op;
    const CType type = s_.form->type;
    if (type == CType::F32 || type == CType::F64) return false;
    if (op != ir::OpCode::and_ && op != ir::OpCode::or_ && op != ir::OpCode::mul) return false;
    const auto settles = [&](uint32_t at) {
      if (slot(at) != 0) return false;
      const int64_t v = type == CType::Bool    ? t_.slot<uint8_t>(at)
                        : byte_size(type) == 4 ? t_.slot<int32_t>(at)
                                               : t_.slot<int64_t>(at);
      return op == ir::OpCode::or_ ? v == (type == CType::Bool ? 1 : -1) : v == 0;
    };
    return settles(s_.a) || settles(s_.b);
  }
  void select() {
    const Birth by = slot(s_.a);
    set_slot(s_.dst, by ? by : slot(t_.slot<uint8_t>(s_.a) ? s_.c : s_.b));
  }

  Thread& t_;
  const Step& s_;
  Shadow& shadow_;
};

}  // namespace

void carry_multiply(const Contraction& c, const Births& a, const Births& b, Births* to) {
  if (a.empty() && b.empty()) return;
  to->resize(static_cast<size_t>(c.batch * c.m * c.n));
  for (int64_t i = 0; i < c.batch; ++i) {
    Births rows(static_cast<size_t>(c.m)), columns(static_cast<size_t>(c.n));
    for (int64_t k = 0; k < c.k; ++k) {
      for (int64_t m = 0; m < c.m && !a.empty(); ++m)
        join(&rows[static_cast<size_t>(m)], a[static_cast<size_t>((i * c.m + m) * c.k + k)]);
      for (int64_t n = 0; n < c.n && !b.empty(); ++n)
        join(&columns[static_cast<size_t>(n)], b[static_cast<size_t>((i * c.k + k) * c.n + n)]);
    }
    for (int64_t m = 0; m < c.m; ++m)
      for (int64_t n = 0; n < c.n; ++n) {
        Birth& r = (*to)[static_cast<size_t>((i * c.m + m) * c.n + n)];
        join(&r, rows[static_cast<size_t>(m)]);
        join(&r, columns[static_cast<size_t>(n)]);
      }
  }
}

bool may_make_undefined(Thread& t, const Step& s) {
  if (s.kind == Kind::gather || s.kind == Kind::load_in_place) return leaves_lanes(t, s);
  if (s.kind == Kind::load_scalar) return leaves_ref(t, s);
  return s.kind == Kind::window_staged;
}

void carry(Thread& t, const Step& s, Shadow& shadow) {
  Carrier c(t, s, shadow);
  switch (s.kind) {
    case Kind::branch_if_false:
    case Kind::branch_table: return c.decides(s.a, Decides::Branch);
    case Kind::move: return c.set_slot(s.dst, c.slot(s.a));
    case Kind::loop_begin:
      for (const uint32_t slot : {s.a, s.b, s.c}) c.decides(slot, Decides::Trips);
      return c.set_slot(s.dst, 0);
    case Kind::index_bounds: return c.index(payload<Kind::index_bounds>(s));
    case Kind::clamp_index: return c.index(payload<Kind::clamp_index>(s));
    case Kind::check: return c.decides(s.a, Decides::Check);
    case Kind::sem_signal: return c.semaphore(payload<Kind::sem_signal>(s));
    case Kind::sem_wait: return c.semaphore(payload<Kind::sem_wait>(s));
    case Kind::sem_read: c.semaphore(payload<Kind::sem_read>(s)); return c.set_slot(s.dst, 0);
    case Kind::load_scalar: return c.load_scalar();
    case Kind::store_scalar: return c.store_scalar();
    case Kind::window_staged:
    case Kind::window_flush: return carry_window(t, s, shadow);
    case Kind::tmem_load:
    case Kind::peer_read: return c.boxes();
    case Kind::row_copy: return c.row_copy(payload<Kind::row_copy>(s));
    case Kind::copy: return c.copy(payload<Kind::copy>(s));
    case Kind::fill: return c.boxes();
    case Kind::reinterpret: return carry_reinterpret(t, s, shadow);
    case Kind::gather: return carry_gather(t, s, shadow);
    case Kind::load_in_place: return carry_load_in_place(t, s, shadow);
    case Kind::store_rows: return carry_store_rows(t, s, shadow);
    case Kind::atomic: return carry_atomic(t, s, shadow);
    case Kind::scalar: return c.set_slot(s.dst, c.settled() ? Birth{0} : c.scalar(ir::info(s.form->op).min_operands));
    case Kind::scalar_by_power:
    case Kind::scalar_convert: return c.set_slot(s.dst, c.scalar(1));
    case Kind::scalar_mul_add: return c.set_slot(s.dst, c.scalar(3));
    case Kind::scalar_select: return c.select();
    case Kind::scalar_strip: return c.set_slot(s.dst, c.scalar(payload<Kind::scalar_strip>(s).arity));
    case Kind::elementwise: return c.elementwise(payload<Kind::elementwise>(s));
    case Kind::reduce: return c.reduce(payload<Kind::reduce>(s));
    case Kind::arg_reduce: return c.reduce(payload<Kind::arg_reduce>(s));
    case Kind::cumulative: return c.reduce(payload<Kind::cumulative>(s));
    case Kind::contraction: return c.contraction(payload<Kind::contraction>(s));
    case Kind::array_op: return c.array(payload<Kind::array_op>(s));
    case Kind::fetch_and_add: return c.fetch_and_add();
    case Kind::valid_extent: return c.extent(payload<Kind::valid_extent>(s));
    default:
      // What it reads is in all that it writes; of what it starts the operation knows.
      if (row(s).footprint == Footprint::Dynamic && !starts_operation(s)) c.boxes();
      return;
  }
}

}  // namespace pallasim::interp::ops
