// Loads, stores and swaps through array indices, masks, or bounds per element.
#include <algorithm>

#include "../plan/payload/movement.h"
#include "elements.h"
#include "footprint.h"
#include "row_program.h"

namespace pallasim::interp::ops {
namespace {

using Mode = GatherPayload::Mode;

// Everything is inside and nothing is masked: strided copies.
void copy_regular(Thread& t, const GatherPayload& p, const Elements& e, std::byte* value, std::byte* old) {
  const int rank = static_cast<int>(p.dims.size());
  const std::vector<int64_t> dense = dense_strides(p.dims);
  if (p.mode == Mode::Load)
    return copy_strided(value, dense.data(), e.base(), e.strides(), p.dims.data(), rank, p.size);
  if (old) copy_strided(old, dense.data(), e.base(), e.strides(), p.dims.data(), rank, p.size);
  copy_strided(e.base(), e.strides(), value, dense.data(), p.dims.data(), rank, p.size);
}

bool taken(const std::byte* mask, int64_t stride, int64_t i) { return !mask || static_cast<bool>(mask[i * stride]); }

// The operands of one row: `value` of elements of `p.size`, what masked-off elements of a load are.
struct RowOperands {
  std::byte* value;
  const std::byte *mask, *other;
  int64_t mask_stride, other_stride;
};

// Elements begin to end of a row that the mask takes, N bytes each: they move between `value` and memory.
template <size_t N>
void move_row(const GatherPayload& p, const ElementRow& row, const RowOperands& o) {
  constexpr auto size = static_cast<int64_t>(N);
  const bool load = p.mode == Mode::Load;
  for (int64_t i = row.begin; i < row.end; ++i) {
    std::byte* v = o.value + i * size;
    if (taken(o.mask, o.mask_stride, i)) {
      std::byte* at = row.first + row.offset(i) * size;
      load ? std::memcpy(v, at, N) : std::memcpy(at, v, N);
    } else if (load) {
      std::memcpy(v, o.other ? o.other + i * o.other_stride * size : reinterpret_cast<const std::byte*>(p.fill), N);
    }
  }
}

// The same where the mask takes all of them and they lie one stride apart.
template <size_t N>
void move_run(const GatherPayload& p, const ElementRow& row, const RowOperands& o) {
  constexpr auto size = static_cast<int64_t>(N);
  const bool load = p.mode == Mode::Load;
  const int64_t n = row.end - row.begin;
  std::byte *v = o.value + row.begin * size, *at = row.first;
  if (row.step == 1) {
    load ? std::memcpy(v, at, static_cast<size_t>(n) * N) : std::memcpy(at, v, static_cast<size_t>(n) * N);
    return;
  }
  const int64_t step = row.step * size;
  if (load)
    for (int64_t i = 0; i < n; ++i) std::memcpy(v + i * size, at + i * step, N);
  else
    for (int64_t i = 0; i < n; ++i) std::memcpy(at + i * step, v + i * size, N);
}

template <size_t N>
void fill_row(const GatherPayload& p, int64_t begin, int64_t end, const RowOperands& o) {
  constexpr auto size = static_cast<int64_t>(N);
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(o.value + i * size,
                o.other ? o.other + i * o.other_stride * size : reinterpret_cast<const std::byte*>(p.fill), N);
}

bool takes_all(const ElementRow& row, const RowOperands& o) {
  bool all = true;
  if (o.mask)
    for (int64_t i = row.begin; i < row.end; ++i) all &= static_cast<bool>(o.mask[i * o.mask_stride]);
  return all;
}

template <size_t N>
void access_row(const GatherPayload& p, const ElementRow& row, const RowOperands& o) {
  if (p.mode == Mode::Load) {
    fill_row<N>(p, 0, row.begin, o);
    fill_row<N>(p, row.end, p.dims.back(), o);
  }
  if (row.begin == row.end) return;
  row.offsets.empty() && takes_all(row, o) ? move_run<N>(p, row, o) : move_row<N>(p, row, o);
}

using RowFn = void (*)(const GatherPayload&, const ElementRow&, const RowOperands&);
RowFn row_function(const GatherPayload& p) {
  if (p.dims.empty() || p.mode == Mode::Swap) return nullptr;
  switch (p.size) {
    case 1: return access_row<1>;
    case 2: return access_row<2>;
    case 4: return access_row<4>;
    case 8: return access_row<8>;
    case 16: return access_row<16>;
    default: return nullptr;
  }
}

// What a masked-off element gives: `other`, or the fill.
void masked_off(const GatherPayload& p, const Elements& e, const std::byte* other, std::byte* into) {
  const auto size = static_cast<size_t>(p.size);
  if (other) std::memcpy(into, other + e.dot(p.other_strides) * p.size, size);
  else std::memcpy(into, p.fill, std::min<size_t>(size, 16));
}

RowOperands row_operands(Thread& t, const GatherPayload& p, const Elements& e, std::byte* value) {
  RowOperands o{value, e.mask_row(), nullptr, 0, 0};
  if (o.mask) o.mask_stride = p.mask_strides.back();
  if (p.has_other)
    o.other = t.resolve(p.other) + e.dot(p.other_strides) * p.size, o.other_stride = p.other_strides.back();
  return o;
}

// The next n elements, wherever they lie.
void one_by_one(Thread& t, const GatherPayload& p, Elements& e, int64_t n, std::byte* value, std::byte* old) {
  const std::byte* other = p.has_other ? t.resolve(p.other) : nullptr;
  const auto size = static_cast<size_t>(p.size);
  for (int64_t i = 0; i < n; ++i, e.next()) {
    std::byte* v = value + i * p.size;
    std::byte* into = p.mode == Mode::Load ? v : old ? old + i * p.size : nullptr;
    if (!e.on()) {
      // A swap gives back the value that it did not store.
      if (into) old ? static_cast<void>(std::memcpy(into, v, size)) : masked_off(p, e, other, into);
      continue;
    }
    std::byte* at = e.address();
    if (!at) {
      if (into) poison(into, 1, p.dtype, t.exec->options->uninitialized);
      continue;
    }
    if (into) std::memcpy(into, at, size);
    if (p.mode != Mode::Load) std::memcpy(at, v, size);
  }
}

// All of a load, store or swap, whose value is there.
void access(Thread& t, const Step* s, const GatherPayload& p) {
  Elements e(t, s, p);
  std::byte* value = t.resolve(p.value);
  std::byte* old = p.mode == Mode::Swap ? t.resolve(p.old) : nullptr;
  t.exec->progressed |= p.mode != Mode::Load;
  if (e.count() == 0) return;
  if (e.regular() && e.takes_all()) return copy_regular(t, p, e, value, old);
  const RowFn move = row_function(p);
  const int64_t n = p.dims.empty() ? 1 : p.dims.back();
  ElementRow row;
  for (int64_t done = 0; done < e.count(); done += n) {
    if (move && e.row(&row)) {
      const RowOperands o = row_operands(t, p, e, value + done * p.size);
      move(p, row, o);
      e.next_row();
    } else {
      one_by_one(t, p, e, n, value + done * p.size, old ? old + done * p.size : nullptr);
    }
  }
}

// The current row of a store, computed into its value.
void store_row(Thread& t, const StoredRows& p, Elements& e, const ElementRow* row, int64_t n, RowProgram& program) {
  std::byte* value = t.resolve(p.access.value);
  program.run(e.index(), 0, n, value);
  if (row) {
    row_function(p.access)(p.access, *row, row_operands(t, p.access, e, value));
    return e.next_row();
  }
  one_by_one(t, p.access, e, n, value, nullptr);
}

}  // namespace

const Step* gather(Thread& t, const Step* s) {
  access(t, s, payload<Kind::gather>(s));
  return s + 1;
}

// -- footprints --
void index_boxes(const GatherPayload& p, Boxes& out) {
  if (p.has_mask && p.conditions.empty()) out.internal(p.mask, p.dims, p.mask_strides, 1, false);
  for (const GatherDim& g : p.ref_dims)
    if (g.kind == GatherDim::Kind::Array)
      out.internal(g.array, p.dims, g.array_strides, ir::byte_size(g.array_dtype), false);
}

namespace {

// The operands beside the ref itself.
void operand_boxes(const GatherPayload& p, Boxes& out) {
  const std::vector<int64_t> dense = dense_strides(p.dims);
  index_boxes(p, out);
  if (p.has_other) out.internal(p.other, p.dims, p.other_strides, p.size, false);
  out.internal(p.value, p.dims, dense, p.size, p.mode == Mode::Load);
  if (p.mode == Mode::Swap) out.internal(p.old, p.dims, dense, p.size, true);
}

void row_boxes(const GatherPayload& p, const ElementRow& row, const std::byte* mask, ChosenElements* chosen) {
  const int64_t stride = mask ? p.mask_strides.back() : 0;
  for (int64_t i = row.begin; i < row.end;) {
    const int64_t begin = i;
    while (i < row.end && taken(mask, stride, i) && (i == begin || row.offsets.empty())) ++i;
    if (i > begin) chosen->add_row(row.first + row.offset(begin) * p.size, i - begin, row.step, p.size);
    else ++i;
  }
}

}  // namespace

void chosen_boxes(const GatherPayload& p, Elements& e, ChosenElements* chosen) {
  const int64_t n = p.dims.empty() ? 1 : p.dims.back();
  ElementRow row;
  for (int64_t done = 0; done < e.count(); done += n) {
    if (!p.dims.empty() && e.row(&row)) {
      row_boxes(p, row, e.mask_row(), chosen);
      e.next_row();
      continue;
    }
    for (int64_t i = 0; i < n; ++i, e.next())
      if (std::byte* at = e.on() ? e.address() : nullptr) chosen->add(at, p.size);
  }
}

namespace {

void access_boxes(Thread& t, const Step& s, const GatherPayload& p, Boxes& out) {
  Elements e(t, &s, p);
  if (e.count() == 0) return;
  operand_boxes(p, out);
  const uint32_t buffer = p.ref.buffer;
  const bool write = p.mode != Mode::Load;
  if (!out.wants(buffer)) return;
  if (e.regular() && e.takes_all()) {
    const Addr at{buffer, Addr::kNoSlot, e.base() - t.bases[buffer]};
    if (p.mode == Mode::Swap) out.internal(at, p.dims, {e.strides(), p.dims.size()}, p.size, false);
    return out.add(at, p.dims, {e.strides(), p.dims.size()}, p.size, {.write = write});
  }
  if (p.mode == Mode::Swap && out.wants_internal()) {
    Elements all = e;
    ChosenElements old(out, t, buffer, {.internal = true});
    chosen_boxes(p, all, &old);
    old.flush();
  }
  ChosenElements chosen(out, t, buffer, {.write = write});
  chosen_boxes(p, e, &chosen);
  chosen.flush();
}

}  // namespace

void gather_footprint(Thread& t, const Step& s, Boxes& out) { access_boxes(t, s, payload<Kind::gather>(s), out); }

void load_in_place_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::load_in_place>(s);
  access_boxes(t, s, p.access, out);
  if (!p.dense) out.internal(p.own, p.access.dims, p.strides, p.access.size, true);
}

void store_rows_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::store_rows>(s);
  footprint(p.program, out);
  access_boxes(t, s, p.access, out);
}

const Step* load_in_place(Thread& t, const Step* s) {
  const auto& p = payload<Kind::load_in_place>(s);
  const uint32_t array = p.access.ref.buffer;
  if (t.exec->elides_copies)
    if (const Elements e(t, s, p.access); e.regular() && e.takes_all()) {
      t.exec->set_alias(t, p.alias, {t.index, array});
      t.slot<int64_t>(s->dst) = e.base() - t.bases[array] - p.own.offset;
      return s + 1;
    }
  std::byte* const own = t.resolve(p.own);
  t.exec->set_alias(t, p.alias, {t.index, p.own.buffer});
  t.slot<int64_t>(s->dst) = 0;
  access(t, s, p.access);
  if (!p.dense)
    copy_strided(own, p.strides.data(), t.resolve(p.access.value), dense_strides(p.access.dims).data(),
                 p.access.dims.data(), static_cast<int>(p.access.dims.size()), p.access.size);
  return s + 1;
}

const Step* store_rows(Thread& t, const Step* s) {
  const auto& p = payload<Kind::store_rows>(s);
  Elements e(t, s, p.access);
  t.exec->progressed = true;
  const int64_t n = p.access.dims.back();
  if (e.count() == 0) return s + 1;
  RowProgram program(t, p.program);
  ElementRow row;
  for (int64_t done = 0; done < e.count(); done += n) {
    const bool known = e.row(&row);
    if (!known || row.step != 1 || !row.offsets.empty()) {
      store_row(t, p, e, known ? &row : nullptr, n, program);
      continue;
    }
    if (row.begin < row.end) program.run(e.index(), row.begin, row.end, row.first);
    e.next_row();
  }
  return s + 1;
}

}  // namespace pallasim::interp::ops
