// Reads and writes through views of refs.
#include <algorithm>
#include <optional>

#include "../../plan/steps.h"
#include "access.h"
#include "elementwise.h"
#include "pallasim/hw/machine.h"

namespace pallasim::interp {
namespace {

bool is_wide(ir::DType t) {
  const CType c = compute_type(t);
  return c == CType::I64 || c == CType::U64;
}

}  // namespace

void check_writable(Emitter& e, const Op& op, const Val& ref) {
  if (!ref.read_only) return;
  const std::string name = ref.name.empty() ? std::string("a read-only ref") : ref.name;
  ir::Diagnostic("PS-RO-001", "write to " + name + ", which is an input")
      .of(e.module().name)
      .at(ir::site_of(e.module(), op.loc))
      .hinted("declare an input/output alias, or write to an output or scratch ref")
      .raise();
}

// Whether an access may leave its ref and goes on where it does (Options::padding, out_of_bounds): it then looks at
// every element.
bool may_leave(Emitter& e, const Val& ref, const Attr* view, bool read) {
  if (ref.edge >= 0) return true;
  const bool padded =
      e.model().spaces.has(hw::Layout::Tiles) && e.options().padding == Options::Padding::All && !ref.through;
  const bool unwritten = read && e.options().out_of_bounds == Options::Oob::Uninitialized &&
                         e.model().outside.loads == hw::Outside::Undefined;
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

void lower_get(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, 0);
  const ir::Type* t = e.type(op.results[0]);
  const Attr* view = op.attr("view");
  if (may_leave(e, ref, view, true)) {
    Val r;
    gather_access(e, op, element_view(e, op, ref, view, Lens::Read), {.mode = GatherPayload::Mode::Load}, &r);
    return e.define(op.results[0], r);
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
        const Val& v = e.operand(op, static_cast<size_t>(d.i));
        p.has_term = true;
        p.term = {e.scalar_slot(v), is_wide(v.dtype), stride, ref.dims[i] - 1, static_cast<int>(i), ref.dims[i], 1};
      }
      Val r;
      r.kind = Val::Kind::Scalar;
      r.dtype = t->dtype;
      r.slot = e.new_slot();
      p.load = e.kernels().load(t->dtype);
      p.bytes = ir::byte_size(t->dtype);
      const int bytes = byte_size(compute_type(t->dtype));
      const bool same_form =
          bytes == ir::byte_size(t->dtype) && t->dtype != ir::DType::F16 && t->dtype != ir::DType::BF16;
      e.emit(same_form && !e.options().checked && !e.options().verify_split ? ops::fast_load_scalar(bytes)
                                                                            : ops::load_scalar,
             e.own(std::move(p)))
          .dst = r.slot;
      return e.define(op.results[0], r);
    }
  }
  ViewResult v = apply_view(e, op, ref, view, ViewUse::Gather, Lens::Read);
  if (v.gather) {
    Val r;
    gather_access(e, op, v, {.mode = GatherPayload::Mode::Load}, &r);
    return e.define(op.results[0], r);
  }
  if (t->is_scalar()) return e.define(op.results[0], e.load_scalar(v.ref));
  Val r = v.ref;
  r.kind = Val::Kind::Strided;
  e.define(op.results[0], r);
}

void store_value(Emitter& e, const Op& op, const Val& ref, const Val& value) {
  const Val v = e.about_to_write(e.written(ref), {value}, &ref)[0];
  if (ref.dims.empty()) {
    ScalarAccess p;
    p.addr = ref.addr;
    p.ref = ref.name;
    p.store = e.kernels().store(ref.dtype);
    p.bytes = ir::byte_size(ref.dtype);
    const uint32_t slot = e.scalar_slot(v);
    e.emit(ops::store_scalar, e.own(std::move(p))).a = slot;
    return;
  }
  e.emit_pending(v, ref);
}

static ViewResult view_to_write(Emitter& e, const Op& op, const Val& ref, Lens lens) {
  check_writable(e, op, ref);
  if (may_leave(e, ref, op.attr("view"), false)) return element_view(e, op, ref, op.attr("view"));
  return apply_view(e, op, ref, op.attr("view"), ViewUse::Gather, lens);
}

void lower_store(Emitter& e, const Op& op) {
  const ViewResult view = view_to_write(e, op, e.operand(op, 0), Lens::Overwrite);
  const Val v = e.operand(op, 1);
  if (view.gather) gather_access(e, op, view, {.mode = GatherPayload::Mode::Store, .value = &v}, nullptr);
  else store_value(e, op, view.ref, v);
  write_back(e, view.opened);
}

void lower_swap(Emitter& e, const Op& op) {
  const ViewResult view = view_to_write(e, op, e.operand(op, 0), Lens::Write);
  Val v = e.operand(op, 1), old;
  if (view.gather) {
    gather_access(e, op, view, {.mode = GatherPayload::Mode::Swap, .value = &v}, &old);
  } else {
    Val now = view.ref;
    now.kind = Val::Kind::Strided;
    old = now.dims.empty() ? e.load_scalar(now) : e.materialized(now);
    store_value(e, op, view.ref, v);
  }
  write_back(e, view.opened);
  e.define(op.results[0], old);
}

static void lower_addupdate(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, 0);
  check_writable(e, op, ref);
  if (e.model().atomic_addupdate && ref.addr.buffer >= kFirstOperandBuffer) {
    const Val v = e.operand(op, 1);
    return gather_access(
        e, op, element_view(e, op, ref, op.attr("view")),
        {.mode = GatherPayload::Mode::Atomic, .value = &v, .atomic = atomic_function(e, op, "add", ref.dtype)},
        nullptr);
  }
  ViewResult view = apply_view(e, op, ref, op.attr("view"), ViewUse::Access, Lens::Write);
  Val now = view.ref;
  now.kind = Val::Kind::Strided;
  StripParams params;
  params.dtype = now.dtype;
  params.semantics = e.semantics();
  if (!e.kernels().strip(ir::OpCode::add, now.dtype))
    e.unsupported(op, "addupdate on " + std::string(ir::name(now.dtype)));
  if (now.dims.empty()) {
    const Val sum =
        e.scalar_result(ir::OpCode::add, now.dtype, now.dtype, {e.load_scalar(now), e.operand(op, 1)}, params);
    store_value(e, op, view.ref, sum);
  } else {
    const Val v = e.strided(e.operand(op, 1));
    store_value(e, op, view.ref, node(e, ir::OpCode::add, now.dtype, now.dtype, {now, v}, now.dims, params));
  }
  write_back(e, view.opened);
}

static void lower_view(Emitter& e, const Op& op) {
  e.define(op.results[0], apply_view_to_each(e, op, e.operand(op, 0), op.attr("view"), ViewUse::Copy, Lens::Keep));
}

Rows memory_rows() {
  static constexpr Row kRows[] = {{OpCode::get, lower_get},
                                  {OpCode::store, lower_store},
                                  {OpCode::swap, lower_swap},
                                  {OpCode::addupdate, lower_addupdate},
                                  {OpCode::view, lower_view}};
  return kRows;
}

}  // namespace pallasim::interp
