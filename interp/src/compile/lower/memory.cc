// Reads and writes through views of refs.
#include <algorithm>
#include <optional>

#include "../../analysis/expressions.h"
#include "../../plan/payload/movement.h"
#include "../../plan/payload/places.h"
#include "../../plan/steps.h"
#include "../values/elementwise.h"
#include "access.h"
#include "copy_forwarding.h"
#include "nans.h"
#include "pallasim/hw/machine.h"
#include "units.h"

namespace pallasim::interp {
static bool uses(const ir::Region& region, ir::ValueId v) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const Op& op) {
    return std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end() ||
           std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) { return uses(r, v); });
  });
}

bool reads_operand(const ir::Module& m, const ir::Graph& index_map, size_t prefetched) {
  const size_t arg = m.grid.size() + prefetched;
  return arg < index_map.region.args.size() && uses(index_map.region, index_map.region.args[arg]);
}

static void note_write(Emitter& e, const Op& op, const Val& ref) {
  ir::Diagnostic d = ir::Diagnostic("PS-RO-001", "write to " + ref.memory().name +
                                                     ", which is an input: it goes to a copy of the launch's own")
                         .of(e.module().name)
                         .at(ir::site_of(e.module(), op.loc))
                         .with({"on the chip it goes to the caller's array, which JAX takes for unchanged"})
                         .hinted(e.model().scratch_advice);
  d.severity = ir::Severity::Note;
  e.plan().findings.push_back(std::move(d));
}

// The pipeline calls index maps ahead of the grid point whose block they name.
static void find_moving_scalars(Emitter& e, const Op& op, const Val& ref) {
  auto& maps = e.state<ScalarsOfIndexMaps>().not_found;
  const auto of = maps.find(ref.origin());
  if (of == maps.end()) return;
  const ir::Operand& o = e.module().operands[of->second];
  ir::Diagnostic d = ir::Diagnostic("PS-PIPE-001", "write to " + o.name + ", which an index map reads")
                         .of(e.module().name)
                         .at(ir::site_of(e.module(), op.loc))
                         .with({"the pipeline of the grid asks for blocks ahead: whether a later block's index map "
                                "sees this write depends on how far"})
                         .hinted("index maps read what was prefetched; keep what changes in scratch memory");
  for (const ir::Operand& reader : e.module().operands)
    if (reader.index_map && reads_operand(e.module(), *reader.index_map, of->second)) {
      ir::Site side = ir::site_of(e.module(), reader.index_map->region.ops.back().loc);
      side.what = "the index map of " + reader.name;
      d.also.push_back(std::move(side));
      break;
    }
  e.plan().findings.push_back(std::move(d));
  maps.erase(of);
}

void check_writable(Emitter& e, const Op& op, const Val& ref) {
  if (!ref.ref().read_only) {
    find_moving_scalars(e, op, ref);
    if (e.state<CallersBuffers>().not_noted.erase(ref.origin()) > 0) note_write(e, op, ref);
    return;
  }
  const std::string name = ref.memory().name.empty() ? std::string("a read-only ref") : ref.memory().name;
  ir::Diagnostic("PS-RO-001", "write to " + name + ", which is an input")
      .of(e.module().name)
      .at(ir::site_of(e.module(), op.loc))
      .hinted("declare an input/output alias, or write to an output or scratch ref")
      .raise();
}

ReadsOutside reads_outside(const Emitter& e, const Val& ref) {
  if (e.options().out_of_bounds == Options::Oob::Uninitialized) return {true};
  const hw::OutsideAccess& chip = e.model().outside;
  if (e.options().out_of_bounds != Options::Oob::Chip || chip.loads != hw::Outside::Undefined) return {};
  if (chip.granule == 0) return {true};
  // Pointers: what lies in the array's allocation can be read.
  const size_t o = ref.memory().addr.buffer - kFirstOperandBuffer;
  if (ref.memory().addr.buffer < kFirstOperandBuffer || o >= e.module().operands.size()) return {};
  const int64_t bytes = e.module().operands[o].array->num_bytes();
  return {true, (bytes + chip.granule - 1) / chip.granule * chip.granule};
}

namespace {
// What is known of integers of the body before anything runs; made when an access asks for it.
struct KnownRanges {
  std::optional<analysis::Expressions> of;
};
}  // namespace

// Whether all that the entry takes of a dimension lies inside.
static bool known_inside(Emitter& e, const Op& op, const ir::view::Entry& d, int64_t extent) {
  if (d.is_slice() && (!d.size.is_static() || d.size.value() < 0)) return false;
  const int64_t reach = d.is_slice() ? std::max<int64_t>(d.size.value() - 1, 0) * d.stride.value() : 0;
  analysis::Interval start{0, 0};
  if (d.start.is_static()) {
    start = {d.start.value(), d.start.value()};
  } else {
    if (&e.live().graph() != &e.body_graph()) return false;  // an index map's
    KnownRanges& known = e.state<KnownRanges>();
    if (!known.of) known.of.emplace(e.body_graph(), e.module().grid);
    const analysis::AffineExpr* x = known.of->of(op.operands[static_cast<size_t>(d.start.operand)]);
    if (!x) return false;
    start = x->range();
  }
  return std::min(start.least, start.least + reach) >= 0 && std::max(start.greatest, start.greatest + reach) < extent;
}

// What a transform makes of a shape that it stays in; nothing where nobody knows.
static std::optional<std::vector<int64_t>> dims_inside(Emitter& e, const Op& op, const ir::View& v,
                                                       const std::vector<int64_t>& dims) {
  std::vector<int64_t> r;
  if (const auto* index = std::get_if<ir::view::Index>(&v)) {
    if (index->has_arrays() || index->entries.size() != dims.size()) return {};
    for (size_t i = 0; i < dims.size(); ++i) {
      const ir::view::Entry& d = index->entries[i];
      if (!known_inside(e, op, d, dims[i])) return {};
      if (d.is_slice()) r.push_back(d.size.value());
    }
  } else if (const auto* transpose = std::get_if<ir::view::Transpose>(&v)) {
    for (const int64_t d : transpose->perm) r.push_back(dims[static_cast<size_t>(d)]);
  } else if (const auto* reshape = std::get_if<ir::view::Reshape>(&v)) {
    for (const ir::Dim& d : reshape->dims) {
      if (!d.is_static()) return {};
      r.push_back(d.size);
    }
  } else {
    return {};
  }
  return r;
}

bool may_leave(Emitter& e, const Op& op, const Val& ref, bool read) {
  if (ref.ref().edge >= 0) return true;
  const bool padded =
      e.model().spaces.has(hw::Layout::Tiles) && e.options().padding == Options::Padding::All && !ref.ref().through;
  const std::span<const ir::View> view = op.view();
  if (view.empty() || !std::holds_alternative<ir::view::Index>(view.back())) return false;
  if (!padded && !(read && reads_outside(e, ref).go_on)) return false;
  // Through other widths all of the ref would be read for it: there a load outside stops, as far as the chip decides.
  const auto recast = [](const ir::View& v) { return std::holds_alternative<ir::view::Bitcast>(v); };
  if (!padded && e.options().out_of_bounds == Options::Oob::Chip &&
      (ref.ref().through || std::any_of(view.begin(), view.end(), recast)))
    return false;
  std::optional<std::vector<int64_t>> dims = ref.dims;
  for (const ir::View& v : view)
    if (dims = dims_inside(e, op, v, *dims); !dims) return true;
  return false;
}

// Whether the view is one element with at most one dynamic index: a single step reads or writes it.
static const ir::view::Index* one_element(const Val& ref, std::span<const ir::View> view) {
  const auto* index = view.size() == 1 ? std::get_if<ir::view::Index>(&view.front()) : nullptr;
  const Val::Ref& r = ref.ref();
  const bool plain = !r.through && !r.choice && !r.tiled && r.extents.empty() && r.valid.empty() && r.before.empty() &&
                     r.gates.empty();
  if (!index || !plain) return nullptr;
  int dynamic = 0;
  for (size_t i = 0; i < index->entries.size(); ++i) {
    const ir::view::Entry& d = index->entries[i];
    if (d.kind != ir::view::Entry::Kind::At) return nullptr;
    if (d.start.is_operand()) ++dynamic;
    else if (d.start.value() < 0 || d.start.value() >= ref.dims[i]) return nullptr;
  }
  return dynamic <= 1 ? index : nullptr;
}

// Where the element lies.
static ScalarAccess element_access(Emitter& e, const Op& op, const Val& ref, const ir::view::Index& index) {
  ScalarAccess p;
  p.bytes = ir::byte_size(ref.dtype);
  p.addr = ref.memory().addr;
  p.ref = ref.memory().name;
  p.shape = ref.dims;
  p.dtype = ref.dtype;
  for (size_t i = 0; i < index.entries.size(); ++i) {
    const ir::ViewInt& at = index.entries[i].start;
    const int64_t stride = ref.memory().strides[i] * ir::byte_size(ref.dtype);
    if (!at.is_operand()) {
      p.addr.offset += at.value() * stride;
      continue;
    }
    const Val& v = e.operand(op, static_cast<size_t>(at.operand));
    p.has_term = true;
    p.term = {scalar_slot(e, v), is_wide(v.dtype), stride, ref.dims[i] - 1, static_cast<int>(i), ref.dims[i], 1};
  }
  return p;
}

// Whether an element moves between memory and slot as it is, within runs of scalar steps. What clusters and cores of a
// mesh use of the arrays is observed in unchecked runs, too (launch/speculation.cc): there it ends a run.
static bool moves_plainly(const Emitter& e, const Addr& at, ir::DType t) {
  const bool same_form = byte_size(compute_type(t)) == ir::byte_size(t) && t != ir::DType::F16 && t != ir::DType::BF16;
  const bool array =
      at.buffer >= kFirstOperandBuffer && at.buffer - kFirstOperandBuffer < e.plan().module.operands.size();
  return same_form && !(array && e.plan().may_speculate());
}

static Val load_element(Emitter& e, const Op& op, const Val& ref, const ir::view::Index& index) {
  ScalarAccess p = element_access(e, op, ref, index);
  p.outside = reads_outside(e, ref);
  p.load = e.kernels().load(ref.dtype);
  const Val r = e.new_scalar(ref.dtype, op.results[0]);
  const StepForm* fast = moves_plainly(e, p.addr, ref.dtype) ? e.functions().fast_load_scalar(p) : nullptr;
  e.emit<Kind::load_scalar>(fast ? *fast : e.functions().load_scalar, std::move(p)).dst = r.scalar().slot;
  return r;
}

static void store_scalar(Emitter& e, ScalarAccess p, ir::DType dtype, uint32_t slot) {
  p.store = e.kernels().store(dtype);
  const StepForm* fast = moves_plainly(e, p.addr, dtype) ? e.functions().fast_store_scalar(p) : nullptr;
  e.emit<Kind::store_scalar>(fast ? *fast : e.functions().store_scalar, std::move(p)).a = slot;
}

// A read of another CTA's memory: now, into memory of the thread's own.
static void read_elsewhere(Emitter& e, const Op& op, const Elsewhere& where) {
  const Val ref = apply_view(e, op, e.operand(op, 0), where.rest, ViewUse::Access).ref;
  const Val r = e.temp(ref.dtype, ref.dims);
  PeerReadPayload p;
  p.peer = where.peer;
  p.src = ref.memory().addr, p.dst = r.memory().addr;
  p.dims = ref.dims, p.src_strides = ref.memory().strides, p.dst_strides = r.memory().strides;
  p.dtype = ref.dtype;
  e.emit<Kind::peer_read>(std::move(p));
  e.define(op.results[0], r.dims.empty() ? load_scalar(e, r) : r);
}

void lower_get(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, 0);
  const ir::Type* t = e.type(op.results[0]);
  if (const std::optional<Elsewhere> where = elsewhere(e, op, op.view())) return read_elsewhere(e, op, *where);
  // A single element of plain memory looks by itself.
  const ir::view::Index* index = t->is_scalar() ? one_element(ref, op.view()) : nullptr;
  if (!(index && ref.ref().edge < 0 && e.options().padding != Options::Padding::All) && may_leave(e, op, ref, true)) {
    materialise_elided(e, ref);
    Val r;
    gather_access(e, op, element_view(e, op, ref, op.view(), Recast::Read), {.mode = GatherPayload::Mode::Load}, &r);
    return e.define(op.results[0], r);
  }
  if (index) return e.define(op.results[0], load_element(e, op, ref, *index));
  ViewResult v = apply_view(e, op, ref, op.view(), ViewUse::Gather, Recast::Read);
  if (v.gather) {
    Val r;
    gather_access(e, op, v, {.mode = GatherPayload::Mode::Load}, &r);
    return e.define(op.results[0], r);
  }
  if (t->is_scalar()) return e.define(op.results[0], load_scalar(e, v.ref, op.results[0]));
  Val shown = where_elided(e, v.ref).as_strided();
  shown.memory().addr.loc = e.loc();  // whoever uses the value reads it here
  e.define(op.results[0], std::move(shown));
}

void store_value(Emitter& e, const Op& op, const Val& ref, const Val& value) {
  const Val v = e.about_to_write(e.live().written(ref), {value}, &ref)[0];
  if (ref.dims.empty()) {
    ScalarAccess p;
    p.addr = ref.memory().addr;
    p.ref = ref.memory().name;
    p.bytes = ir::byte_size(ref.dtype);
    return store_scalar(e, std::move(p), ref.dtype, scalar_slot(e, v));
  }
  Val to = ref;
  to.memory().addr.loc = e.loc();  // the step may be the operation's that made the value
  emit_pending(e, v, to);
}

static ViewResult view_to_write(Emitter& e, const Op& op, const Val& ref, Recast recast) {
  check_writable(e, op, ref);
  if (may_leave(e, op, ref, false)) return element_view(e, op, ref, op.view());
  return apply_view(e, op, ref, op.view(), ViewUse::Gather, recast);
}

void lower_store(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, 0);
  const ir::view::Index* index = e.type(op.operands[1])->is_scalar() ? one_element(ref, op.view()) : nullptr;
  if (index && !may_leave(e, op, ref, false)) {
    check_writable(e, op, ref);
    const Val v = e.about_to_write(e.live().written(ref), {e.operand(op, 1)})[0];
    const ScalarAccess p = element_access(e, op, ref, *index);
    count(Rewrite::OneStepStore);
    return store_scalar(e, p, ref.dtype, scalar_slot(e, v));
  }
  const ViewResult view = view_to_write(e, op, e.operand(op, 0), Recast::Overwrite);
  const Val v = e.operand(op, 1);
  if (view.gather) gather_access(e, op, view, {.mode = GatherPayload::Mode::Store, .value = &v}, nullptr);
  else if (view.opened.empty() && waits_for_copy(e, op, view.ref, v)) return;
  else store_value(e, op, view.ref, v);
  write_back(e, view.opened);
}

void lower_swap(Emitter& e, const Op& op) {
  const ViewResult view = view_to_write(e, op, e.operand(op, 0), Recast::Write);
  Val v = e.operand(op, 1), old;
  if (view.gather) {
    gather_access(e, op, view, {.mode = GatherPayload::Mode::Swap, .value = &v}, &old);
  } else {
    const Val now = view.ref.as_strided();
    old = now.dims.empty() ? load_scalar(e, now) : materialized(e, now);
    store_value(e, op, view.ref, v);
  }
  write_back(e, view.opened);
  e.define(op.results[0], old);
}

static void lower_addupdate(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, 0);
  check_writable(e, op, ref);
  if (e.model().atomic_addupdate && ref.memory().addr.buffer >= kFirstOperandBuffer) {
    const Val v = e.operand(op, 1);
    return gather_access(
        e, op, element_view(e, op, ref, op.view()),
        {.mode = GatherPayload::Mode::Atomic, .value = &v, .atomic = atomic_function(e, op, "add", ref.dtype)},
        nullptr);
  }
  const Emitter::Adding adding(e);
  ViewResult view = apply_view(e, op, ref, op.view(), ViewUse::Access, Recast::Write);
  const Val now = view.ref.as_strided();
  StripParams params;
  params.dtype = now.dtype;
  params.semantics = e.semantics();
  if (!e.kernels().strip(ir::OpCode::add, now.dtype))
    e.unsupported(op, "addupdate on " + std::string(ir::name(now.dtype)));
  if (now.dims.empty()) {
    const Val before = load_scalar(e, now);
    const Val sum = scalar_result(e, ir::OpCode::add, now.dtype, now.dtype, {before, e.operand(op, 1)}, params);
    if (looks_for_nans(e)) look_for_nans(e, sum, {{before, {}}, {e.operand(op, 1), {}}});
    store_value(e, op, view.ref, sum);
  } else {
    const Val v = strided(e, e.operand(op, 1));
    Val sum = node(e, ir::OpCode::add, now.dtype, now.dtype, {now, v}, now.dims, params);
    if (looks_for_nans(e)) {
      const Lanes same = same_element(now.dims.size());
      sum = strided(e, sum);
      look_for_nans(e, sum, {{now, same}, {v, same}});
    }
    store_value(e, op, view.ref, sum);
  }
  write_back(e, view.opened);
}

static void lower_view(Emitter& e, const Op& op) {
  e.define(op.results[0], apply_view_to_each(e, op, e.operand(op, 0), op.view(), ViewUse::Copy, Recast::Keep));
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
