// Definedness of asynchronous operations, as their bytes move.
#include <algorithm>

#include "../plan/payload/arithmetic.h"
#include "../plan/payload/tensor.h"
#include "bodies.h"
#include "definedness_steps.h"

namespace pallasim::interp::ops {
namespace {

using memory::shadow::Definedness, memory::shadow::View;

View view_of(const memory::Side& side, const int64_t* dims) {
  return {side.place.offset,
          {dims, static_cast<size_t>(side.rank)},
          {side.strides, static_cast<size_t>(side.rank)},
          side.element_bytes()};
}

// One receiver of a movement.
void carry_part(Execution& ex, const memory::AsyncOperation& op, const memory::Side& from, const memory::Side& to,
                Shadow& shadow) {
  Definedness& into = shadow.memory(to.place.thread, to.place.buffer);
  Births births;
  shadow.memory(from.place.thread, from.place.buffer).load(view_of(from, from.dims), &births);
  if (op.rest != memory::Rest::None)
    into.set(view_of(to, to.dims), op.rest == memory::Rest::Unwritten ? shadow.padding(op) : Birth{0});
  if (from.empty()) return;
  const Thread& t = ex.threads[static_cast<size_t>(op.thread)];
  const Step& s = ex.plan->steps[static_cast<size_t>(op.step)];
  shadow.taken(t, s, &births);
  View place = view_of(to, from.dims);
  place.offset += op.skipped;
  if (op.combine != memory::Combine::Replace) {
    Births there;
    into.load(place, &there);
    if (births.empty()) births.swap(there);
    for (size_t i = 0; i < there.size(); ++i) join(&births[i], there[i]);
  }
  into.store(place, births);
  shadow.stored(t, s, {to.place.buffer, Addr::kNoSlot, place.offset}, births);
}

void carry_rows(Execution& ex, const memory::AsyncOperation& op, const memory::Side& all_from,
                const memory::Side& all_to, Shadow& shadow) {
  const bool of_dst = all_to.row_dim >= 0;
  const int d = of_dst ? all_to.row_dim : all_from.row_dim;
  memory::Side from = all_from, to = all_to;  // of one row
  from.row_dim = to.row_dim = -1;
  from.dims[d] = to.dims[d] = 1;
  for (size_t i = 0; i < op.rows.size(); ++i) {
    if (op.rows[i] < 0) continue;
    const auto next = static_cast<int64_t>(i);
    to.place.offset = all_to.place.offset + (of_dst ? op.rows[i] : next) * to.strides[d] * to.element_bytes();
    from.place.offset = all_from.place.offset + (of_dst ? next : op.rows[i]) * from.strides[d] * from.element_bytes();
    carry_part(ex, op, from, to, shadow);
  }
}

// What is added to is the last read.
void carry_product(Execution& ex, const memory::AsyncOperation& op, const Births& held, Shadow& shadow) {
  const Step& s = ex.plan->steps[static_cast<size_t>(op.step)];
  const Contraction& c = payload<Kind::wgmma>(s).contraction;
  Definedness registers;
  const auto load = [&](const memory::Side& side) {
    Births all;
    View v = view_of(side, side.dims);
    if (side.held >= 0) {
      v.offset = side.held - op.span(side).begin;
      registers.load(v, &all);
    } else {
      shadow.memory(side.place.thread, side.place.buffer).load(v, &all);
    }
    return per_element(all, side.element_bytes());
  };
  const int64_t bytes = std::ssize(held), one = 1;
  registers.store({0, {&bytes, 1}, {&one, 1}, 1}, held);
  const memory::Side& to = op.writes.front();
  Births sum;
  if (op.reads.size() > 2) sum = load(op.reads[2]);
  carry_multiply(c, load(op.reads[0]), load(op.reads[1]), &sum);
  shadow.memory(to.place.thread, to.place.buffer).store(view_of(to, to.dims), per_byte(sum, to.element_bytes()));
}

// Of a pair of CTAs each has the columns of both right operands; undefined scales and metadata are in every element.
void carry_tensor_product(const memory::AsyncOperation& op, const TensorProductPayload& p, Shadow& shadow) {
  const auto elements = [&](const memory::Side& side) {
    Births all;
    shadow.memory(side.place.thread, side.place.buffer).load(view_of(side, side.dims), &all);
    return per_element(all, side.element_bytes());
  };
  const size_t ctas = op.writes.size(), sums = ctas * (2 + (p.scaled ? 2 : 0) + (p.sparse ? 1 : 0));
  Birth all = 0;
  for (size_t i = 2 * ctas; i < sums; ++i) join(&all, any_of(elements(op.reads[i])));
  const auto m = static_cast<size_t>(p.contraction.m), n = static_cast<size_t>(p.contraction.n);
  for (size_t cta = 0; cta < ctas; ++cta) {
    const memory::Side& to = op.writes[cta];
    Births sum;
    if (op.reads.size() > sums) sum = elements(op.reads[sums + cta]);
    const Births left = elements(op.reads[cta]);
    for (size_t of = 0; of < ctas; ++of) {
      const Births right = elements(op.reads[ctas + of]);
      if (left.empty() && right.empty() && all == 0) continue;
      sum.resize(m * n * ctas);
      Births rows(m), columns(n);
      for (size_t i = 0; i < left.size(); ++i) join(&rows[i / (left.size() / m)], left[i]);
      for (size_t i = 0; i < right.size(); ++i) join(&columns[i % n], right[i]);
      for (size_t i = 0; i < m; ++i)
        for (size_t k = 0; k < n; ++k) {
          Birth& r = sum[i * n * ctas + of * n + k];
          join(&r, rows[i]);
          join(&r, columns[k]);
          join(&r, all);
        }
    }
    shadow.memory(to.place.thread, to.place.buffer).store(view_of(to, to.dims), per_byte(sum, to.element_bytes()));
  }
}

}  // namespace

// Births of what an operation takes from registers as it is issued.
Births births_held(Execution& ex, const memory::AsyncOperation& op, Shadow& shadow) {
  Births r;
  const Step& s = ex.plan->steps[static_cast<size_t>(op.step)];
  if (s.kind == Kind::tmem_store) {
    const auto& p = payload<Kind::tmem_store>(s);
    const std::vector<int64_t>& dims = p.memory.extents.dims;
    const Thread& t = ex.threads[static_cast<size_t>(op.thread)];
    shadow.memory(op.thread, p.registers.buffer)
        .load(view_of(t, p.registers, dims, dense_strides(dims), ir::byte_size(p.dtype)), &r);
    return r;
  }
  for (const memory::Side& side : op.reads) {
    if (side.held < 0) continue;
    const Definedness& m = shadow.memory(side.place.thread, side.place.buffer);
    const memory::Span span = op.span(side);
    if (m.find(side.place.offset + span.begin, side.place.offset + span.end) == 0) continue;
    r.resize(op.held.size());
    for (int64_t at = span.begin; at < span.end; ++at)
      r[static_cast<size_t>(side.held + at - span.begin)] = m.at(side.place.offset + at);
  }
  return r;
}

void carry(Execution& ex, const memory::AsyncOperation& op, const Births& held, Shadow& shadow) {
  const Step& s = ex.plan->steps[static_cast<size_t>(op.step)];
  if (s.kind == Kind::tcgen05_mma) return carry_tensor_product(op, payload<Kind::tcgen05_mma>(s), shadow);
  if (row(s).definedness == interp::Definedness::Contraction) return carry_product(ex, op, held, shadow);
  if (op.writes.empty()) return;
  if (op.reads.empty()) {  // of registers, or made on the way
    const memory::Side& to = op.writes.front();
    Definedness& into = shadow.memory(to.place.thread, to.place.buffer);
    if (held.empty()) return into.set(view_of(to, to.dims), 0);
    return into.store(view_of(to, to.dims), listed(held, std::ssize(op.held)));
  }
  const memory::Side& from = op.reads.front();
  for (const memory::Side& to : op.writes)
    if (from.row_dim >= 0 || to.row_dim >= 0) carry_rows(ex, op, from, to, shadow);
    else carry_part(ex, op, from, to, shadow);
}

}  // namespace pallasim::interp::ops
