// Refs seen through a copy: other element widths, or another shape of memory with gaps.
#include <algorithm>
#include <numeric>

#include "../../plan/host_cost.h"
#include "../../plan/payload/array.h"
#include "../../plan/payload/movement.h"
#include "../../plan/steps.h"
#include "../values/arrays.h"
#include "views.h"

namespace pallasim::interp {

Val see_through(Emitter& e, const Op& op, const Val& ref, ir::DType dtype, std::vector<int64_t> dims) {
  if (ref.ref().semaphore >= 0 || ref.ref().choice || !ref.ref().extents.empty() || !ref.ref().valid.empty())
    e.unsupported(op, "a change of element width or shape of this ref");
  auto t = std::make_shared<RefThrough>();
  t->base = ref;
  t->dtype = dtype;
  t->dims = dims;
  Val r = ref;
  r.ref().through = std::move(t);
  r.dtype = dtype;
  r.memory().strides = dense_strides(dims);
  r.dims = std::move(dims);
  r.ref().padding.clear();
  r.memory().addr = {e.body().temps, Addr::kNoSlot, 0};
  return r;
}

ir::view::Index push_index(Emitter& e, const Op& op, Val* ref, const ir::view::Index& index) {
  using Entry = ir::view::Entry;
  const RefThrough& t = *ref->ref().through;
  const bool untouched = ref->memory().addr.offset == 0 && ref->memory().addr.dyn == Addr::kNoSlot &&
                         ref->dims == t.dims && is_dense(*ref);
  const bool widths =
      t.base.dtype != t.dtype && t.base.dims.size() == t.dims.size() && t.dims.size() == index.entries.size();
  if (!untouched || !widths || t.base.ref().through || index.has_arrays()) return index;
  const auto whole = [](int64_t size) {
    Entry r;
    r.kind = Entry::Kind::Slice;
    r.size = size;
    return r;
  };
  ir::view::Index first = index, rest = index;
  const size_t rows = t.dims.size() - 2;
  std::vector<int64_t> dims = t.dims;
  for (size_t d = 0; d < index.entries.size(); ++d) {
    const Entry& at = index.entries[d];
    if (d == rows) {
      first.entries[d] = whole(t.base.dims[d]);
    } else if (at.is_slice()) {
      if (!at.size.is_static()) return index;
      dims[d] = at.size.value();
      rest.entries[d] = whole(dims[d]);
    } else {
      first.entries[d] = whole(1);
      first.entries[d].start = at.start;
      dims[d] = 1;
      rest.entries[d].start = 0;
    }
  }
  const ir::View view = first;
  *ref = see_through(e, op, apply_view(e, op, t.base, {&view, 1}, ViewUse::Access).ref, t.dtype, dims);
  return rest;
}

namespace {
ArrayBody between(const ArrayFunctions& arrays, const Val& from, const Val& to) {
  if (from.dims.size() < 2 || ir::bit_width(from.dtype) == ir::bit_width(to.dtype))
    return arrays.regroup(1, 1, from.elements(), from.dtype, from.dtype);
  const size_t rows = from.dims.size() - 2;
  const int64_t block = from.dims[rows] * from.dims[rows + 1];
  return arrays.regroup(block ? from.elements() / block : 0, from.dims[rows], from.dims[rows + 1], from.dtype,
                        to.dtype);
}
}  // namespace

namespace {
// Whether a ref shows all of the dense array behind it, in its order.
bool shows_all(const Val& ref) {
  const RefThrough& t = *ref.ref().through;
  return ref.memory().addr.offset == 0 && ref.memory().addr.dyn == Addr::kNoSlot && is_dense(ref) &&
         ref.elements() == arrays::count(t.dims);
}
}  // namespace

static Val open_part(Emitter& e, const Val& ref, Recast recast, std::vector<OpenedRef>* opened);

// What the ref shows of the copy of all that lies behind it.
static Val shown_in(Emitter& e, const Val& copy, const Val& ref, Recast recast) {
  Val r = ref;
  r.ref().through = nullptr;
  Val::Memory& m = r.memory();
  m.addr = {copy.memory().addr.buffer, m.addr.dyn, copy.memory().addr.offset + m.addr.offset};
  m.storage = copy.memory().storage;
  m.origin = recast != Recast::Read ? e.live().fresh_origin() : kNoOrigin;
  return r;
}

Val open_ref(Emitter& e, const Val& ref, Recast recast, std::vector<OpenedRef>* opened) {
  if (!shows_all(ref) || recast == Recast::Some) return open_part(e, ref, recast, opened);
  Val base = ref.ref().through->base;
  if (base.ref().through) base = open_ref(e, base, recast, opened);
  const Val now = base.as_strided();
  Val shape;
  shape.dtype = ref.ref().through->dtype;
  const ArrayResult dense{ref.ref().through->dtype, ref.ref().through->dims};
  const Val copy = recast == Recast::Overwrite
                       ? e.temp(dense.dtype, dense.dims)
                       : emit_array(e, {now}, {dense}, between(e.functions().arrays, now, shape))[0];
  const Val r = shown_in(e, copy, ref, recast);
  if (opened) opened->push_back({base, copy});
  return r;
}

std::vector<ReinterpretPayload::Level> levels_of(const Val& ref) {
  std::vector<ReinterpretPayload::Level> levels;
  for (const Val* v = &ref;; v = &v->ref().through->base) {
    ReinterpretPayload::Level level{v->memory().addr,        v->dims,
                                    v->memory().strides,     ir::bit_width(v->dtype),
                                    ir::byte_size(v->dtype), ir::is_signed_int(v->dtype)};
    if (v->ref().through && v->ref().through->dims.size() >= 2) {
      level.rows = v->ref().through->dims[v->ref().through->dims.size() - 2];
      level.inner = v->ref().through->dims.back();
    }
    levels.push_back(std::move(level));
    if (!v->ref().through) return levels;
  }
}

// A part of what lies behind the ref: only the bytes of its elements are read, and written.
static Val open_part(Emitter& e, const Val& ref, Recast recast, std::vector<OpenedRef>* opened) {
  ReinterpretPayload p;
  p.levels = levels_of(ref);
  const Val* v = &ref;
  while (v->ref().through) v = &v->ref().through->base;
  const auto bytes_of = [&] { return e.temp(ref.ref().through->dtype, ref.ref().through->dims); };
  const Val copy = bytes_of();
  p.copy = copy.memory().addr;
  e.plan().split.step_cost_ns += host_cost::kReinterpret.of(static_cast<double>(ref.elements()));
  if (recast != Recast::Overwrite) e.emit<Kind::reinterpret>(p);
  const Val r = shown_in(e, copy, ref, recast);
  if (recast == Recast::Read || !opened) return r;
  OpenedRef o{*v, copy};
  p.write = true;
  if (recast == Recast::Some) {
    const Val before = bytes_of();
    ReinterpretPayload was = p;
    was.write = false;
    was.copy = before.memory().addr;
    e.emit<Kind::reinterpret>(std::move(was));
    p.before = before.memory().addr;
    p.has_before = true;
    o.copy.memory().storage = std::shared_ptr<Storage>(
        copy.memory().storage.get(), [a = copy.memory().storage, b = before.memory().storage](Storage*) {});
  }
  o.recast = e.own(std::move(p));
  opened->push_back(std::move(o));
  return r;
}

void write_back(Emitter& e, const std::vector<OpenedRef>& opened) {
  for (size_t i = opened.size(); i-- > 0;) {
    const OpenedRef& o = opened[i];
    e.about_to_write(e.live().written(o.base));
    if (o.recast) {
      e.emit<Kind::reinterpret>(o.recast);
      continue;
    }
    Val bytes =
        emit_array(e, {o.copy}, {{o.base.dtype, o.base.dims}}, between(e.functions().arrays, o.copy, o.base))[0];
    emit_copy(e, o.base, bytes);
  }
}

}  // namespace pallasim::interp
