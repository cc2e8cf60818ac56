// Reads and writes through views of refs.
#include <algorithm>
#include <optional>

#include "../../plan/steps.h"
#include "../compiler.h"
#include "pallasim/hw/machine.h"

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

// A dynamic byte offset for `ref`: the sum of the terms, checked.
Val Compiler::index_dynamic(const Val& ref, std::vector<IndexTerm> terms, bool write) {
  Val r = ref;
  if (terms.empty()) return r;
  IndexPayload p;
  p.terms = std::move(terms);
  p.ref = ref.name;
  p.shape = ref.dims;
  p.write = write;
  const uint32_t dyn = new_slot();
  Step& s = emit(ops::index_bounds, plan_.own(std::move(p)));
  s.a = ref.addr.dyn;
  s.dst = dyn;
  r.addr.dyn = dyn;
  return r;
}

Compiler::ViewResult Compiler::apply_view(const Op& op, const Val& ref, const Attr* view, ViewUse use, Lens lens) {
  ViewResult out;
  out.ref = ref;
  Val& r = out.ref;
  const bool allow_gather = use == ViewUse::Gather,
             copy = use == ViewUse::Copy || use == ViewUse::CopyTo || use == ViewUse::Shape;
  const bool opens_to_write = lens == Lens::Write || lens == Lens::Overwrite || lens == Lens::Some;
  const bool moves = use == ViewUse::Copy || use == ViewUse::CopyTo, write = use == ViewUse::CopyTo || opens_to_write;
  const bool boundless = use == ViewUse::Copy && copies_read_on();
  constexpr int64_t kBoundless = INT64_MAX / 4;
  if (ref.choice && !copy) unsupported(op, std::string(ir::name(op.code)) + " on one of several refs");
  if (!ref.extents.empty() && !copy)
    unsupported(op, std::string(ir::name(op.code)) + " on a ref whose extent is known at run time only");
  for (size_t n = 0; view && n < view->items.size(); ++n) {
    if (out.gather) unsupported(op, "view transform after an array index");
    if (ref.edge >= 0 && !allow_gather) unsupported(op, "several indexers on a block that reaches beyond its array");
    const int size = r.semaphore >= 0 ? 1 : ir::byte_size(r.dtype);
    const Attr t = r.through && view->items[n].is_call("index") ? push_index(op, &r, view->items[n]) : view->items[n];
    if (t.is_call("index")) {
      bool arrays = false;
      for (const Attr& d : t.items) arrays |= d.is_call("array") || d.is_call("ref");
      if (arrays && !allow_gather) unsupported(op, "array index in this operation");
      std::vector<IndexTerm> terms;
      std::vector<int64_t> dims, strides;
      std::vector<uint32_t> extents, valid;
      size_t array_rank = 0, array_position = 0, slices_seen = 0;
      std::vector<Val> indices(t.items.size());
      if (arrays) {
        out.gather = true;
        for (size_t i = 0; i < t.items.size(); ++i) {
          if (!t.items[i].is_call("array") && !t.items[i].is_call("ref")) continue;
          Val v = operand(op, static_cast<size_t>(t.items[i].items[0].i));
          if (v.through) v = open_ref(v, Lens::Read, nullptr);
          v.kind = v.kind == Val::Kind::Ref ? Val::Kind::Strided : v.kind;
          // The elements are written one by one: an index must not show what was written before its turn.
          const bool writes = (ir::info(op.code).effects & (ir::kEffectWrite | ir::kEffectAtomic)) != 0;
          indices[i] = dense(writes ? apart_from(written(ref), v) : v);
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
            if (!copy || step != 1) unsupported(op, "slice of a size that is known at run time only");
            size_slot = scalar_slot(scalar_convert(operand(op, static_cast<size_t>(count)), ir::DType::I64));
            count = extent + (use == ViewUse::Shape && !r.padding.empty() ? r.padding[i] : 0);
          }
        } else if (arrays && (d.is_call("array") || d.is_call("ref"))) {
          const Val& v = indices[i];
          g.kind = GatherDim::Kind::Array;
          g.array = v.addr;
          g.array_dtype = v.dtype;
          g.wraps = model_.negative_indices == hw::NegativeIndex::FromEnd;
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
          const Val& v = operand(op, static_cast<size_t>(start->i));
          slot = scalar_slot(v);
          wide = is_wide(v.dtype);
        } else if (size_slot != Addr::kNoSlot || (count > 0 && (start->i < 0 || start->i + span >= extent))) {
          // A static index out of bounds is a finding of the run, not of the compilation: the branch may never run.
          const Val v = const_int(ir::DType::I64, start->i);
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
                moves && !r.padding.empty() && (keeps ? step == 1 : plan_.options.padding == Options::Padding::All);
            const int64_t pad = boundless ? kBoundless : padded ? r.padding[i] : 0;
            terms.push_back({slot, wide, stride * size, extent + pad - 1 - std::max<int64_t>(span, 0),
                             static_cast<int>(i), extent, count, size_slot, pad});
          } else {
            r.addr.offset += g.start * stride * size;
          }
          const uint32_t exists = moves && step == 1
                                      ? valid_slot(r, i, dynamic ? &terms.back() : nullptr, g.start, count, size_slot)
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
      if (use != ViewUse::Shape) r = index_dynamic(r, std::move(terms), write);
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
        unsupported(op, "reshape of a ref whose extent is known at run time only");
      r.padding.clear();
      std::vector<int64_t> to = call_ints(t);
      if (std::optional<std::vector<int64_t>> strides = same_but_for_ones(r, to)) {
        r.strides = std::move(*strides);
      } else {
        if (!is_dense(r) && use != ViewUse::Shape) r = see_through(op, r, r.dtype, to);
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
          unsupported(op, "bitcast of a ref between these widths");
        dims[rows] = dims[rows] * from_bits / to_bits;
        r = see_through(op, r, to, dims);
      }
      r.dtype = to;
    } else {
      unsupported(op, "ref transform " + t.s);
    }
  }
  if (r.through && lens == Lens::Refuse) unsupported(op, "a ref with other element widths or gaps");
  if (r.through && lens != Lens::Keep) r = open_ref(r, out.gather && write ? Lens::Some : lens, &out.opened);
  return out;
}

void Compiler::check_writable(const Op& op, const Val& ref) {
  if (!ref.read_only) return;
  ir::Diagnostic d;
  d.code = "PS-RO-001";
  d.kernel = m_.name;
  d.message = "write to " + (ref.name.empty() ? std::string("a read-only ref") : ref.name) + ", which is an input";
  d.site = ir::site_of(m_, op.loc);
  d.hint = "declare an input/output alias, or write to an output or scratch ref";
  throw ir::DiagnosticError(std::move(d));
}

// Whether an access may leave its ref and goes on where it does (Options::padding, out_of_bounds): it then looks at
// every element.
bool Compiler::may_leave(const Val& ref, const Attr* view, bool read) const {
  if (ref.edge >= 0) return true;
  const bool padded =
      model_.spaces.has(hw::Layout::Tiles) && plan_.options.padding == Options::Padding::All && !ref.through;
  const bool unwritten = read && plan_.options.out_of_bounds == Options::Oob::Uninitialized &&
                         model_.outside.loads == hw::Outside::Undefined;
  if (!(padded || unwritten) || !view || view->items.empty() || !view->items.back().is_call("index")) return false;
  const auto& index = view->items.back().items;
  for (size_t i = 0; i < index.size(); ++i) {
    const Attr& start = index[i].is_call("slice") ? index[i].items[0] : index[i];
    if (!start.is_int() || start.i < 0 || view->items.size() > 1) return true;
    const int64_t step = index[i].is_call("slice") && index[i].items.size() > 2 ? index[i].items[2].i : 1;
    const int64_t count = index[i].is_call("slice") ? index[i].items[1].i : 1;
    if (i >= ref.dims.size() || (count > 0 && start.i + (count - 1) * step >= ref.dims[i])) return true;
  }
  return false;
}

void Compiler::op_get(const Op& op) {
  const Val ref = operand(op, 0);
  const ir::Type* t = type(op.results[0]);
  const Attr* view = op.attr("view");
  if (may_leave(ref, view, true)) {
    Val r;
    gather_access(op, element_view(op, ref, view, Lens::Read), {.mode = GatherPayload::Mode::Load}, &r);
    return define(op.results[0], r);
  }
  // One element with at most one dynamic index: a single step.
  if (t->is_scalar() && !ref.through && view && view->items.size() == 1 && view->items[0].is_call("index")) {
    int dynamic = 0;
    bool simple = true;
    for (const Attr& d : view->items[0].items) {
      if (d.is(Attr::Kind::Operand)) ++dynamic;
      else simple &= d.is_int() && d.i >= 0;
    }
    for (size_t i = 0; simple && i < view->items[0].items.size(); ++i) {
      const Attr& d = view->items[0].items[i];
      simple = d.is(Attr::Kind::Operand) || d.i < ref.dims[i];
    }
    if (simple && dynamic <= 1) {
      ScalarAccess p;
      p.addr = ref.addr;
      p.ref = ref.name;
      p.shape = ref.dims;
      for (size_t i = 0; i < view->items[0].items.size(); ++i) {
        const Attr& d = view->items[0].items[i];
        const int64_t stride = ref.strides[i] * ir::byte_size(ref.dtype);
        if (!d.is(Attr::Kind::Operand)) {
          p.addr.offset += d.i * stride;
          continue;
        }
        const Val& v = operand(op, static_cast<size_t>(d.i));
        p.has_term = true;
        p.term = {scalar_slot(v), is_wide(v.dtype), stride, ref.dims[i] - 1, static_cast<int>(i), ref.dims[i], 1};
      }
      Val r;
      r.kind = Val::Kind::Scalar;
      r.dtype = t->dtype;
      r.slot = new_slot();
      p.load = k_.load(t->dtype);
      p.bytes = ir::byte_size(t->dtype);
      const int bytes = byte_size(compute_type(t->dtype));
      const bool same_form =
          bytes == ir::byte_size(t->dtype) && t->dtype != ir::DType::F16 && t->dtype != ir::DType::BF16;
      emit(same_form && !plan_.options.checked && !plan_.options.verify_split ? ops::fast_load_scalar(bytes)
                                                                              : ops::load_scalar,
           plan_.own(std::move(p)))
          .dst = r.slot;
      return define(op.results[0], r);
    }
  }
  ViewResult v = apply_view(op, ref, view, ViewUse::Gather, Lens::Read);
  if (v.gather) {
    Val r;
    gather_access(op, v, {.mode = GatherPayload::Mode::Load}, &r);
    return define(op.results[0], r);
  }
  if (t->is_scalar()) return define(op.results[0], load_scalar(v.ref));
  Val r = v.ref;
  r.kind = Val::Kind::Strided;
  define(op.results[0], r);
}

void Compiler::store_value(const Op& op, const Val& ref, const Val& value) {
  const Val v = about_to_write(written(ref), {value}, &ref)[0];
  if (ref.dims.empty()) {
    ScalarAccess p;
    p.addr = ref.addr;
    p.ref = ref.name;
    p.store = k_.store(ref.dtype);
    p.bytes = ir::byte_size(ref.dtype);
    const uint32_t slot = scalar_slot(v);
    emit(ops::store_scalar, plan_.own(std::move(p))).a = slot;
    return;
  }
  emit_pending(v, ref);
}

Compiler::ViewResult Compiler::view_to_write(const Op& op, const Val& ref, Lens lens) {
  check_writable(op, ref);
  if (may_leave(ref, op.attr("view"), false)) return element_view(op, ref, op.attr("view"));
  return apply_view(op, ref, op.attr("view"), ViewUse::Gather, lens);
}

void Compiler::op_store(const Op& op) {
  const ViewResult view = view_to_write(op, operand(op, 0), Lens::Overwrite);
  const Val v = operand(op, 1);
  if (view.gather) gather_access(op, view, {.mode = GatherPayload::Mode::Store, .value = &v}, nullptr);
  else store_value(op, view.ref, v);
  write_back(view.opened);
}

void Compiler::op_swap(const Op& op) {
  const ViewResult view = view_to_write(op, operand(op, 0), Lens::Write);
  Val v = operand(op, 1), old;
  if (view.gather) {
    gather_access(op, view, {.mode = GatherPayload::Mode::Swap, .value = &v}, &old);
  } else {
    Val now = view.ref;
    now.kind = Val::Kind::Strided;
    old = now.dims.empty() ? load_scalar(now) : materialized(now);
    store_value(op, view.ref, v);
  }
  write_back(view.opened);
  define(op.results[0], old);
}

void Compiler::op_addupdate(const Op& op) {
  const Val ref = operand(op, 0);
  check_writable(op, ref);
  if (model_.atomic_addupdate && ref.addr.buffer >= kFirstOperandBuffer) {
    const Val v = operand(op, 1);
    return gather_access(
        op, element_view(op, ref, op.attr("view")),
        {.mode = GatherPayload::Mode::Atomic, .value = &v, .atomic = atomic_function(op, "add", ref.dtype)}, nullptr);
  }
  ViewResult view = apply_view(op, ref, op.attr("view"), ViewUse::Access, Lens::Write);
  Val now = view.ref;
  now.kind = Val::Kind::Strided;
  StripParams params;
  params.dtype = now.dtype;
  params.semantics = semantics_;
  if (!k_.strip(ir::OpCode::add, now.dtype)) unsupported(op, "addupdate on " + std::string(ir::name(now.dtype)));
  if (now.dims.empty()) {
    const Val sum = scalar_result(ir::OpCode::add, now.dtype, now.dtype, {load_scalar(now), operand(op, 1)}, params);
    store_value(op, view.ref, sum);
  } else {
    const Val v = strided(operand(op, 1));
    store_value(op, view.ref, node(ir::OpCode::add, now.dtype, now.dtype, {now, v}, now.dims, params));
  }
  write_back(view.opened);
}

void Compiler::op_view(const Op& op) {
  define(op.results[0], apply_view_to_each(op, operand(op, 0), op.attr("view"), ViewUse::Copy, Lens::Keep));
}

}  // namespace pallasim::interp
