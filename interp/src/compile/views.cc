// Views of refs: what a list of transforms shows, as strides, checked indices and copies.
#include <algorithm>
#include <optional>

#include "../plan/steps.h"
#include "pallasim/hw/machine.h"
#include "views.h"

namespace pallasim::interp {
namespace {

bool is_wide(ir::DType t) {
  const CType c = compute_type(t);
  return c == CType::I64 || c == CType::U64;
}

std::vector<int64_t> call_ints(const ir::Attr& call) {
  std::vector<int64_t> r;
  for (const ir::Attr& a : call.items) r.push_back(a.i);
  return r;
}

// Strides of `ref` in the shape `to` where the two differ in dimensions of one element alone.
std::optional<std::vector<int64_t>> same_but_for_ones(const Val& ref, const std::vector<int64_t>& to) {
  std::vector<int64_t> strides(to.size(), 1);
  size_t from = 0;
  auto skip_ones = [&] {
    while (from < ref.dims.size() && ref.dims[from] == 1) ++from;
  };
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 1) continue;
    skip_ones();
    if (from == ref.dims.size() || ref.dims[from] != to[d]) return std::nullopt;
    strides[d] = ref.strides[from++];
  }
  skip_ones();
  if (from != ref.dims.size()) return std::nullopt;
  return strides;
}

}  // namespace

// Whether a copy may take what lies behind its source's end.
bool copies_read_on(Emitter& e) {
  return e.options().out_of_bounds == Options::Oob::Uninitialized &&
         e.model().outside.copy_sources == hw::Outside::Undefined;
}

// The slot that says how much of a slice of dim `d` exists, kNoSlot where all of it does.
uint32_t valid_slot(Emitter& e, const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size,
                    uint32_t size_slot) {
  const bool partial = !ref.valid.empty() && ref.valid[d] != Addr::kNoSlot;
  const bool padded = term ? term->padding > 0 : !ref.padding.empty() && ref.padding[d] > 0;
  if (!partial && (!padded || (!term && start + size <= ref.dims[d]))) return Addr::kNoSlot;
  ValidPayload p{};
  p.extent = ref.dims[d];
  p.extent_slot = partial ? ref.valid[d] : Addr::kNoSlot;
  p.start = start;
  p.start_slot = term ? term->slot : Addr::kNoSlot;
  p.wide = term && term->wide;
  p.size = size;
  p.size_slot = size_slot;
  const uint32_t slot = e.new_slot();
  e.emit(ops::valid_extent, e.own(p)).dst = slot;
  return slot;
}

// A dynamic byte offset for `ref`: the sum of the terms, checked.
Val index_dynamic(Emitter& e, const Val& ref, std::vector<IndexTerm> terms, bool write) {
  Val r = ref;
  if (terms.empty()) return r;
  IndexPayload p;
  p.terms = std::move(terms);
  p.ref = ref.name;
  p.shape = ref.dims;
  p.write = write;
  const uint32_t dyn = e.new_slot();
  Step& s = e.emit(ops::index_bounds, e.own(std::move(p)));
  s.a = ref.addr.dyn;
  s.dst = dyn;
  r.addr.dyn = dyn;
  return r;
}

ViewResult apply_view(Emitter& e, const Op& op, const Val& ref, const Attr* view, ViewUse use, Lens lens) {
  ViewResult out;
  out.ref = ref;
  Val& r = out.ref;
  const bool allow_gather = use == ViewUse::Gather,
             copy = use == ViewUse::Copy || use == ViewUse::CopyTo || use == ViewUse::Shape;
  const bool opens_to_write = lens == Lens::Write || lens == Lens::Overwrite || lens == Lens::Some;
  const bool moves = use == ViewUse::Copy || use == ViewUse::CopyTo, write = use == ViewUse::CopyTo || opens_to_write;
  const bool boundless = use == ViewUse::Copy && copies_read_on(e);
  constexpr int64_t kBoundless = INT64_MAX / 4;
  if (ref.choice && !copy) e.unsupported(op, std::string(ir::name(op.code)) + " on one of several refs");
  if (!ref.extents.empty() && !copy)
    e.unsupported(op, std::string(ir::name(op.code)) + " on a ref whose extent is known at run time only");
  for (size_t n = 0; view && n < view->items.size(); ++n) {
    if (out.gather) e.unsupported(op, "view transform after an array index");
    if (ref.edge >= 0 && !allow_gather) e.unsupported(op, "several indexers on a block that reaches beyond its array");
    const int size = r.semaphore >= 0 ? 1 : ir::byte_size(r.dtype);
    const Attr t =
        r.through && view->items[n].is_call("index") ? push_index(e, op, &r, view->items[n]) : view->items[n];
    if (t.is_call("index")) {
      bool arrays = false;
      for (const Attr& d : t.items) arrays |= d.is_call("array") || d.is_call("ref");
      if (arrays && !allow_gather) e.unsupported(op, "array index in this operation");
      std::vector<IndexTerm> terms;
      std::vector<int64_t> dims, strides;
      std::vector<uint32_t> extents, valid;
      size_t array_rank = 0, array_position = 0, slices_seen = 0;
      std::vector<Val> indices(t.items.size());
      if (arrays) {
        out.gather = true;
        for (size_t i = 0; i < t.items.size(); ++i) {
          if (!t.items[i].is_call("array") && !t.items[i].is_call("ref")) continue;
          Val v = e.operand(op, static_cast<size_t>(t.items[i].items[0].i));
          if (v.through) v = open_ref(e, v, Lens::Read, nullptr);
          v.kind = v.kind == Val::Kind::Ref ? Val::Kind::Strided : v.kind;
          // The elements are written one by one: an index must not show what was written before its turn.
          const bool writes = (ir::info(op.code).effects & (ir::kEffectWrite | ir::kEffectAtomic)) != 0;
          indices[i] = e.dense(writes ? e.apart_from(e.written(ref), v) : v);
          out.keep.push_back(indices[i].storage);
          array_rank = std::max(array_rank, indices[i].dims.size());
        }
        // NumPy's placement: the arrays' dims (scalar indices count as arrays) stand where the first one does when they
        // are adjacent, else in front.
        size_t slices_before = 0, last_array = 0, first_array = t.items.size(), arrays_seen = 0;
        for (size_t i = 0; i < t.items.size(); ++i) {
          if (t.items[i].is_call("slice")) continue;
          if (first_array == t.items.size()) first_array = i, slices_before = i;
          last_array = i;
          ++arrays_seen;
        }
        array_position = last_array - first_array + 1 == arrays_seen ? slices_before : 0;
        for (const Attr& d : t.items)
          if (d.is_call("slice")) out.result_dims.push_back(d.items[1].i);
        out.result_dims.insert(out.result_dims.begin() + static_cast<std::ptrdiff_t>(array_position), array_rank, 1);
        for (const Val& v : indices)
          for (size_t k = 0; k < v.dims.size(); ++k) {
            int64_t& n = out.result_dims[array_position + array_rank - v.dims.size() + k];
            n = std::max(n, v.dims[k]);
          }
      }
      for (size_t i = 0; i < t.items.size(); ++i) {
        const Attr& d = t.items[i];
        const int64_t stride = r.strides[i], extent = r.dims[i];
        GatherDim g;
        g.extent = extent;
        g.stride = stride;
        const Attr* start = &d;
        int64_t count = 1, step = 1;
        uint32_t size_slot = Addr::kNoSlot;
        bool keeps = false;
        if (d.is_call("slice")) {
          start = &d.items[0];
          count = d.items[1].i;
          step = d.items.size() > 2 ? d.items[2].i : 1;
          keeps = true;
          if (d.items[1].is(Attr::Kind::Operand)) {
            if (!copy || step != 1) e.unsupported(op, "slice of a size that is known at run time only");
            size_slot = e.scalar_slot(e.scalar_convert(e.operand(op, static_cast<size_t>(count)), ir::DType::I64));
            count = extent + (use == ViewUse::Shape && !r.padding.empty() ? r.padding[i] : 0);
          }
        } else if (arrays && (d.is_call("array") || d.is_call("ref"))) {
          const Val& v = indices[i];
          g.kind = GatherDim::Kind::Array;
          g.array = v.addr;
          g.array_dtype = v.dtype;
          g.wraps = e.model().negative_indices == hw::NegativeIndex::FromEnd;
          g.array_strides.assign(out.result_dims.size(), 0);
          for (size_t k = 0; k < v.dims.size(); ++k)
            if (v.dims[k] != 1) g.array_strides[array_position + array_rank - v.dims.size() + k] = v.strides[k];
          out.dims.push_back(g);
          continue;
        }
        g.step = step;
        uint32_t slot = Addr::kNoSlot;
        bool wide = false;
        const int64_t span = (count - 1) * step;
        if (start->is(Attr::Kind::Operand)) {
          const Val& v = e.operand(op, static_cast<size_t>(start->i));
          slot = e.scalar_slot(v);
          wide = is_wide(v.dtype);
        } else if (size_slot != Addr::kNoSlot || (count > 0 && (start->i < 0 || start->i + span >= extent))) {
          // A static index out of bounds is a finding of the run, not of the compilation: the branch may never run.
          const Val v = e.const_int(ir::DType::I64, start->i);
          slot = v.slot;
          wide = true;
        } else {
          g.start = start->i;
        }
        g.start_slot = slot;
        g.wide = wide;
        if (!arrays) {
          const bool dynamic = slot != Addr::kNoSlot;
          if (dynamic) {
            const bool padded =
                moves && !r.padding.empty() && (keeps ? step == 1 : e.options().padding == Options::Padding::All);
            const int64_t pad = boundless ? kBoundless : padded ? r.padding[i] : 0;
            terms.push_back({slot, wide, stride * size, extent + pad - 1 - std::max<int64_t>(span, 0),
                             static_cast<int>(i), extent, count, size_slot, pad});
          } else {
            r.addr.offset += g.start * stride * size;
          }
          const uint32_t exists =
              moves && step == 1 ? valid_slot(e, r, i, dynamic ? &terms.back() : nullptr, g.start, count, size_slot)
                                 : Addr::kNoSlot;
          if (keeps) {
            dims.push_back(count), strides.push_back(stride * step), extents.push_back(size_slot);
            valid.push_back(exists);
          } else if (exists != Addr::kNoSlot) {
            r.gates.push_back(exists);
          }
        } else if (keeps) {
          g.result_dim = static_cast<int>(slices_seen < array_position ? slices_seen : slices_seen + array_rank);
          ++slices_seen;
        }
        out.dims.push_back(g);
      }
      if (arrays) continue;
      out.dims.clear();
      if (use != ViewUse::Shape) r = index_dynamic(e, r, std::move(terms), write);
      r.dims = dims;
      r.strides = strides;
      const auto none = [](const std::vector<uint32_t>& v) {
        return std::all_of(v.begin(), v.end(), [](uint32_t e) { return e == Addr::kNoSlot; });
      };
      r.extents = none(extents) ? std::vector<uint32_t>() : std::move(extents);
      r.valid = none(valid) ? std::vector<uint32_t>() : std::move(valid);
      r.padding.clear();
    } else if (t.is_call("reshape")) {
      if (!r.extents.empty() || !r.valid.empty())
        e.unsupported(op, "reshape of a ref whose extent is known at run time only");
      r.padding.clear();
      std::vector<int64_t> to = call_ints(t);
      if (std::optional<std::vector<int64_t>> strides = same_but_for_ones(r, to)) {
        r.strides = std::move(*strides);
      } else {
        if (!is_dense(r) && use != ViewUse::Shape) r = see_through(e, op, r, r.dtype, to);
        r.strides = dense_strides(to);
      }
      r.dims = std::move(to);
    } else if (t.is_call("transpose")) {
      const Val v = r;
      const std::vector<int64_t> perm = call_ints(t);
      for (size_t i = 0; i < perm.size(); ++i) {
        const auto from = static_cast<size_t>(perm[i]);
        r.dims[i] = v.dims[from], r.strides[i] = v.strides[from];
        if (!v.extents.empty()) r.extents[i] = v.extents[from];
        if (!v.valid.empty()) r.valid[i] = v.valid[from];
        if (!v.padding.empty()) r.padding[i] = v.padding[from];
      }
    } else if (t.is_call("squeeze")) {
      std::vector<int64_t> axes = call_ints(t);
      std::sort(axes.rbegin(), axes.rend());
      for (int64_t a : axes) {
        r.dims.erase(r.dims.begin() + a);
        r.strides.erase(r.strides.begin() + a);
        if (!r.extents.empty()) r.extents.erase(r.extents.begin() + a);
        if (!r.valid.empty()) r.valid.erase(r.valid.begin() + a);
        if (!r.padding.empty()) r.padding.erase(r.padding.begin() + a);
      }
    } else if (t.is_call("bitcast") && !t.items.empty() && t.items[0].is(Attr::Kind::TypeOf)) {
      const ir::DType to = t.items[0].type->dtype;
      const int from_bits = ir::bit_width(r.dtype), to_bits = ir::bit_width(to);
      if (from_bits != to_bits) {
        std::vector<int64_t> dims = r.dims;
        const size_t rows = dims.size() - 2;
        if (dims.size() < 2 || dims[rows] * from_bits % to_bits != 0 || std::max(from_bits, to_bits) > 64 ||
            r.semaphore >= 0)
          e.unsupported(op, "bitcast of a ref between these widths");
        dims[rows] = dims[rows] * from_bits / to_bits;
        r = see_through(e, op, r, to, dims);
      }
      r.dtype = to;
    } else {
      e.unsupported(op, "ref transform " + t.s);
    }
  }
  if (r.through && lens == Lens::Refuse) e.unsupported(op, "a ref with other element widths or gaps");
  if (r.through && lens != Lens::Keep) r = open_ref(e, r, out.gather && write ? Lens::Some : lens, &out.opened);
  return out;
}

Val viewed_operand(Emitter& e, const Op& op, const char* key, ViewUse use, Lens lens) {
  const Attr& view = *op.attr(key);
  return apply_view_to_each(e, op, e.operand(op, static_cast<size_t>(view.items[0].i)), &view.items[1], use, lens);
}

// The view of a ref, or of each of those that it may be.
Val apply_view_to_each(Emitter& e, const Op& op, const Val& ref, const Attr* view, ViewUse use, Lens lens) {
  if (!ref.choice) return apply_view(e, op, ref, view, use, lens).ref;
  Val v = ref;
  v.choice = std::make_shared<Choice>(*ref.choice);
  for (Val& r : v.choice->refs) r = apply_view_to_each(e, op, r, view, use, lens);
  return v;
}

void for_each_choice(Emitter& e, const Val& v, const std::function<void(const Val&)>& body) {
  if (!v.choice) return body(v);
  auto* table = e.own(std::vector<int32_t>());
  Step& s = e.emit(ops::kBranchTable, table);
  s.a = v.choice->slot;
  s.imm = 4;
  std::vector<int> ends;
  for (const Val& r : v.choice->refs) {
    table->push_back(e.here());
    for_each_choice(e, r, body);  // a ref may itself be one of several
    ends.push_back(e.here());
    e.emit(ops::kJump);
  }
  for (int end : ends) e.jump_to(end, e.here());
}

}  // namespace pallasim::interp
