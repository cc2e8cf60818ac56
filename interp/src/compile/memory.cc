// Reads and writes through views of refs.
#include <algorithm>

#include "../run/steps.h"
#include "compiler.h"

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

}  // namespace

// A dynamic byte offset for `ref`: the sum of the terms, checked.
Val Compiler::index_dynamic(const Val& ref, std::vector<IndexTerm> terms) {
  Val r = ref;
  if (terms.empty()) return r;
  IndexPayload p;
  p.terms = std::move(terms);
  p.ref = ref.name;
  p.shape = ref.dims;
  const uint32_t dyn = new_slot();
  Step& s = emit(run::index_bounds, plan_.own(std::move(p)));
  s.a = ref.addr.dyn;
  s.dst = dyn;
  r.addr.dyn = dyn;
  return r;
}

Compiler::ViewResult Compiler::apply_view(const Op& op, const Val& ref, const Attr* view, bool allow_gather) {
  ViewResult out;
  out.ref = ref;
  Val& r = out.ref;
  if (!view) return out;
  const int size = ref.semaphore >= 0 ? 1 : ir::byte_size(r.dtype);
  for (const Attr& t : view->items) {
    if (out.gather) unsupported(op, "view transform after an array index");
    if (t.is_call("index")) {
      bool arrays = false;
      for (const Attr& d : t.items) arrays |= d.is_call("array") || d.is_call("ref");
      if (arrays && !allow_gather) unsupported(op, "array index in this operation");
      std::vector<IndexTerm> terms;
      std::vector<int64_t> dims, strides;
      size_t array_rank = 0, array_position = 0, slices_seen = 0;
      std::vector<Val> indices(t.items.size());
      if (arrays) {
        out.gather = true;
        for (size_t i = 0; i < t.items.size(); ++i) {
          if (!t.items[i].is_call("array") && !t.items[i].is_call("ref")) continue;
          Val v = operand(op, static_cast<size_t>(t.items[i].items[0].i));
          v.kind = v.kind == Val::Kind::Ref ? Val::Kind::Strided : v.kind;
          indices[i] = dense(v);
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
        bool keeps = false;
        if (d.is_call("slice")) {
          start = &d.items[0];
          count = d.items[1].i;
          step = d.items.size() > 2 ? d.items[2].i : 1;
          keeps = true;
        } else if (arrays && (d.is_call("array") || d.is_call("ref"))) {
          const Val& v = indices[i];
          g.kind = GatherDim::Kind::Array;
          g.array = v.addr;
          g.array_dtype = v.dtype;
          g.wraps = m_.machine == ir::Machine::Generic;
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
        } else if (count > 0 && (start->i < 0 || start->i + span >= extent)) {
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
          if (slot != Addr::kNoSlot)
            terms.push_back({slot, wide, stride * size, extent - 1 - std::max<int64_t>(span, 0), static_cast<int>(i), extent, count});
          else
            r.addr.offset += g.start * stride * size;
          if (keeps) dims.push_back(count), strides.push_back(stride * step);
        } else if (keeps) {
          g.result_dim = static_cast<int>(slices_seen < array_position ? slices_seen : slices_seen + array_rank);
          ++slices_seen;
        }
        out.dims.push_back(g);
      }
      if (arrays) continue;
      out.dims.clear();
      r = index_dynamic(r, std::move(terms));
      r.dims = dims;
      r.strides = strides;
    } else if (t.is_call("reshape")) {
      if (!is_dense(r)) unsupported(op, "reshape of a ref that is not contiguous");
      r.dims = call_ints(t);
      r.strides = dense_strides(r.dims);
    } else if (t.is_call("transpose")) {
      const Val v = r;
      const std::vector<int64_t> perm = call_ints(t);
      for (size_t i = 0; i < perm.size(); ++i)
        r.dims[i] = v.dims[static_cast<size_t>(perm[i])], r.strides[i] = v.strides[static_cast<size_t>(perm[i])];
    } else if (t.is_call("squeeze")) {
      std::vector<int64_t> axes = call_ints(t);
      std::sort(axes.rbegin(), axes.rend());
      for (int64_t a : axes) {
        r.dims.erase(r.dims.begin() + a);
        r.strides.erase(r.strides.begin() + a);
      }
    } else if (t.is_call("bitcast") && !t.items.empty() && t.items[0].is(Attr::Kind::TypeOf) &&
               ir::bit_width(t.items[0].type->dtype) == ir::bit_width(r.dtype)) {
      r.dtype = t.items[0].type->dtype;
    } else {
      unsupported(op, "ref transform " + t.s);
    }
  }
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

void Compiler::op_get(const Op& op) {
  const Val ref = operand(op, 0);
  const ir::Type* t = type(op.results[0]);
  const Attr* view = op.attr("view");
  // One element with at most one dynamic index: a single step.
  if (t->is_scalar() && view && view->items.size() == 1 && view->items[0].is_call("index")) {
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
      const bool same_form = bytes == ir::byte_size(t->dtype) && t->dtype != ir::DType::F16 && t->dtype != ir::DType::BF16;
      emit(same_form && !plan_.options.checked ? run::fast_load_scalar(bytes) : run::load_scalar, plan_.own(std::move(p))).dst = r.slot;
      return define(op.results[0], r);
    }
  }
  ViewResult v = apply_view(op, ref, view, true);
  if (v.gather) {
    Val r;
    gather_access(op, v, GatherPayload::Mode::Load, nullptr, nullptr, nullptr, &r);
    return define(op.results[0], r);
  }
  if (t->is_scalar()) return define(op.results[0], load_scalar(v.ref));
  Val r = v.ref;
  r.kind = Val::Kind::Strided;
  define(op.results[0], r);
}

void Compiler::store_value(const Op& op, const Val& ref, const Val& v) {
  hazard_before_write(ref.root, false);
  if (ref.dims.empty()) {
    ScalarAccess p;
    p.addr = ref.addr;
    p.ref = ref.name;
    p.store = k_.store(ref.dtype);
    p.bytes = ir::byte_size(ref.dtype);
    const uint32_t slot = scalar_slot(v);
    emit(run::store_scalar, plan_.own(std::move(p))).a = slot;
    return;
  }
  copy_value(ref, v);
}

void Compiler::op_store(const Op& op) {
  const Val ref = operand(op, 0);
  check_writable(op, ref);
  Val v = operand(op, 1);
  // The stored value's own entry must not be made memory by the hazard check when it ends here.
  if (auto it = dies_.find(&op); it != dies_.end() &&
      std::find(it->second.begin(), it->second.end(), op.operands[1]) != it->second.end() && uses_[op.operands[1]] <= 1)
    values_[op.operands[1]].kind = Val::Kind::None;
  ViewResult view = apply_view(op, ref, op.attr("view"), true);
  if (view.gather) {
    hazard_before_write(ref.root, false);
    return gather_access(op, view, GatherPayload::Mode::Store, &v, nullptr, nullptr, nullptr);
  }
  store_value(op, view.ref, v);
}

void Compiler::op_swap(const Op& op) {
  const Val ref = operand(op, 0);
  check_writable(op, ref);
  ViewResult view = apply_view(op, ref, op.attr("view"), true);
  Val v = operand(op, 1);
  if (view.gather) {
    hazard_before_write(ref.root, false);
    Val old;
    gather_access(op, view, GatherPayload::Mode::Swap, &v, nullptr, nullptr, &old);
    return define(op.results[0], old);
  }
  Val now = view.ref;
  now.kind = Val::Kind::Strided;
  const Val old = now.dims.empty() ? load_scalar(now) : materialized(now);
  if (v.kind == Val::Kind::Pending) v = materialized(v);
  store_value(op, view.ref, v);
  define(op.results[0], old);
}

void Compiler::op_addupdate(const Op& op) {
  const Val ref = operand(op, 0);
  check_writable(op, ref);
  ViewResult view = apply_view(op, ref, op.attr("view"), false);
  Val now = view.ref;
  now.kind = Val::Kind::Strided;
  StripParams params;
  params.dtype = ref.dtype;
  params.semantics = semantics_;
  if (!k_.strip(ir::OpCode::add, ref.dtype)) unsupported(op, "addupdate on " + std::string(ir::name(ref.dtype)));
  if (now.dims.empty()) {
    const Val sum = scalar_result(ir::OpCode::add, ref.dtype, ref.dtype, {load_scalar(now), operand(op, 1)}, params);
    return store_value(op, view.ref, sum);
  }
  const Val v = strided(operand(op, 1));
  store_value(op, view.ref, node(ir::OpCode::add, ref.dtype, ref.dtype, {now, v}, now.dims, params));
}

void Compiler::op_view(const Op& op) {
  const Val ref = operand(op, 0);
  define(op.results[0], apply_view(op, ref, op.attr("view"), false).ref);
}

void Compiler::op_masked(const Op& op) {
  const Val ref = operand(op, 0);
  const bool load = op.code == ir::OpCode::masked_load;
  if (!load) check_writable(op, ref);
  const Attr* mask_attr = op.attr("mask");
  const Attr* other_attr = load ? op.attr("other") : nullptr;
  const Attr* view = op.attr("view");
  Val value = load ? Val{} : operand(op, 1);
  // Masked-off lanes may lie outside: bounds are checked per element, so the view is kept in indexed form.
  ViewResult v;
  v.ref = ref;
  v.gather = true;
  if (!view || view->items.empty()) {
    for (size_t i = 0; i < ref.dims.size(); ++i) {
      GatherDim g;
      g.extent = ref.dims[i], g.stride = ref.strides[i];
      g.result_dim = static_cast<int>(i);
      v.dims.push_back(g);
    }
    v.result_dims = ref.dims;
  } else {
    // All transforms but the last index are applied to the ref; the last one addresses elements.
    if (!view->items.back().is_call("index")) unsupported(op, "mask after ref transform " + view->items.back().s);
    Attr front = *view, last = Attr::list({view->items.back()});
    front.items.pop_back();
    v.ref = apply_view(op, ref, &front, false).ref;
    const auto& items = last.items[0].items;
    bool arrays = false;
    for (const Attr& d : items) arrays |= d.is_call("array") || d.is_call("ref");
    if (arrays) {
      v = apply_view(op, v.ref, &last, true);
    } else {
      for (size_t i = 0; i < items.size(); ++i) {
        GatherDim g;
        g.extent = v.ref.dims[i], g.stride = v.ref.strides[i];
        const Attr& d = items[i];
        const Attr& start = d.is_call("slice") ? d.items[0] : d;
        if (start.is(Attr::Kind::Operand)) {
          const Val& s = operand(op, static_cast<size_t>(start.i));
          g.start_slot = scalar_slot(s);
          g.wide = is_wide(s.dtype);
        } else {
          g.start = start.i;
        }
        if (d.is_call("slice")) {
          g.step = d.items.size() > 2 ? d.items[2].i : 1;
          g.result_dim = static_cast<int>(v.result_dims.size());
          v.result_dims.push_back(d.items[1].i);
        }
        v.dims.push_back(g);
      }
    }
  }
  Val mask, other;
  if (mask_attr) mask = operand(op, static_cast<size_t>(mask_attr->i));
  if (other_attr) other = operand(op, static_cast<size_t>(other_attr->i));
  if (!load) hazard_before_write(ref.root, false);
  Val result;
  gather_access(op, v,
                load ? GatherPayload::Mode::Load
                     : op.code == ir::OpCode::masked_swap ? GatherPayload::Mode::Swap : GatherPayload::Mode::Store,
                load ? nullptr : &value, mask_attr ? &mask : nullptr, other_attr ? &other : nullptr, &result);
  if (!op.results.empty()) define(op.results[0], result);
}

// Element-wise addressing: array indices and masks.
void Compiler::gather_access(const Op& op, const ViewResult& view, GatherPayload::Mode mode, const Val* value,
                             const Val* mask, const Val* other, Val* result) {
  GatherPayload p;
  p.mode = mode;
  p.dims = view.result_dims;
  p.ref_dims = view.dims;
  p.ref = view.ref.addr;
  p.size = ir::byte_size(view.ref.dtype);
  p.name = view.ref.name;
  p.shape = view.ref.dims;
  const ir::DType dt = view.ref.dtype;
  auto broadcast = [&](const Val& v) {
    Val s = v;
    if (v.kind == Val::Kind::Scalar) s.kind = Val::Kind::Splat, s.dims.clear();
    s = strided(s);
    std::vector<int64_t> strides(p.dims.size(), 0);
    const size_t lead = p.dims.size() - s.dims.size();
    for (size_t i = 0; i < s.dims.size(); ++i)
      if (s.dims[i] != 1) strides[lead + i] = s.strides[i];
    s.dims = p.dims;
    s.strides = strides;
    return s;
  };
  Val kept_mask, kept_other, kept_value;
  if (mask) {
    kept_mask = broadcast(*mask);
    p.has_mask = true;
    p.mask = kept_mask.addr;
    p.mask_strides = kept_mask.strides;
  }
  if (other) {
    kept_other = broadcast(*other);
    p.has_other = true;
    p.other = kept_other.addr;
    p.other_strides = kept_other.strides;
  }
  if (value) {
    kept_value = dense(broadcast(*value));
    p.value = kept_value.addr;
  }
  Val r;
  if (mode != GatherPayload::Mode::Store) {
    r = temp(dt, p.dims);
    (mode == GatherPayload::Mode::Load ? p.value : p.old) = r.addr;
  }
  plan_.step_cost_ns += 50 + 5.0 * static_cast<double>(kept_value.elements() + r.elements());
  emit(run::gather, plan_.own(std::move(p)));
  if (result && mode != GatherPayload::Mode::Store) *result = r.dims.empty() ? load_scalar(r) : r;
}

}  // namespace pallasim::interp
