// Accesses element by element: masks, array indices, atomics, blocks that reach beyond their array.
#include <algorithm>
#include <optional>

#include "../../plan/affine_elements.h"
#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../../plan/payload/movement.h"
#include "../../plan/steps.h"
#include "../values/elementwise.h"
#include "access.h"
#include "pallasim/hw/machine.h"

namespace pallasim::interp {

// How one number or slice addresses a dimension; bounds are checked per element.
static GatherDim element_dim(Emitter& e, const Op& op, const Val& ref, size_t dim, const ir::view::Entry& d) {
  GatherDim g;
  g.extent = ref.dims[dim], g.stride = ref.memory().strides[dim];
  if (d.start.is_operand()) {
    const Val& s = e.operand(op, static_cast<size_t>(d.start.operand));
    g.start_slot = scalar_slot(e, s);
    g.wide = byte_size(compute_type(s.dtype)) == 8;
  } else {
    g.start = d.start.value();
  }
  return g;
}

// Earlier indices of a read that may go outside and on (out_of_bounds): single elements become dimensions that are
// checked with the others, static slices narrow the ref. False, and nothing done, where there is more to them.
static bool pick_elements(Emitter& e, const Op& op, Val* ref, std::span<const ir::View> front,
                          std::vector<GatherDim>* picked) {
  if (!reads_outside(e, *ref).go_on || ref->ref().through || ref->ref().edge >= 0) return false;
  Val r = *ref;
  std::vector<GatherDim> dims;
  for (const ir::View& t : front) {
    const auto* index = std::get_if<ir::view::Index>(&t);
    if (!index || index->has_arrays()) return false;
    std::vector<int64_t> extents, strides;
    for (size_t i = 0; i < index->entries.size(); ++i) {
      const ir::view::Entry& d = index->entries[i];
      if (!d.is_slice()) {
        dims.push_back(element_dim(e, op, r, i, d));
        continue;
      }
      if (!d.start.is_static() || !d.size.is_static() || d.start.value() < 0 ||
          d.start.value() + (d.size.value() - 1) * d.stride.value() >= r.dims[i])
        return false;
      r.memory().addr.offset += d.start.value() * r.memory().strides[i] * ir::byte_size(r.dtype);
      extents.push_back(d.size.value()), strides.push_back(r.memory().strides[i] * d.stride.value());
    }
    r.dims = std::move(extents), r.memory().strides = std::move(strides);
    r.ref().padding.clear(), r.ref().valid.clear();
  }
  *ref = std::move(r);
  *picked = std::move(dims);
  return true;
}

// A block that may reach beyond its array: where it starts, and the dimensions that the kernel does not see.
static void add_block(Emitter& e, ViewResult* v) {
  const Window& w = e.body().windows[static_cast<size_t>(v->ref.ref().edge)];
  const ir::Operand& o = e.module().operands[static_cast<size_t>(w.operand)];
  size_t seen = 0;
  for (size_t d = 0; d < w.dims.size(); ++d) {
    const uint32_t slot = w.edge()->place + 16 * static_cast<uint32_t>(d);
    if (o.block[d].kind == ir::BlockDim::Kind::Squeezed) {
      GatherDim g;
      g.extent = 1;
      v->dims.push_back(g);
    }
    GatherDim& g = o.block[d].kind == ir::BlockDim::Kind::Squeezed ? v->dims.back() : v->dims[seen++];
    g.window_slot = slot;
    g.array_extent = w.dims[d];
  }
}

ViewResult element_view(Emitter& e, const Op& op, const Val& ref, std::span<const ir::View> view, Recast recast) {
  ViewResult v;
  v.ref = ref;
  if (recast == Recast::Write) recast = Recast::Some;
  const auto* last = view.empty() ? nullptr : std::get_if<ir::view::Index>(&view.back());
  if (!last) {
    v = apply_view(e, op, ref, view, ViewUse::Access, recast);
    v.dims.clear();
    for (size_t i = 0; i < v.ref.dims.size(); ++i) {
      GatherDim g;
      g.extent = v.ref.dims[i], g.stride = v.ref.memory().strides[i];
      g.result_dim = static_cast<int>(i);
      v.dims.push_back(g);
    }
    v.result_dims = v.ref.dims;
  } else {
    // All transforms but the last index are applied to the ref; the last one addresses elements.
    const std::span<const ir::View> front = view.first(view.size() - 1);
    std::vector<GatherDim> picked;
    if ((!front.empty() || ref.ref().through) &&
        !(recast == Recast::Read && pick_elements(e, op, &v.ref, front, &picked)))
      v = apply_view(e, op, ref, front, ViewUse::Access, recast);
    v.dims.clear();
    if (last->has_arrays()) {
      std::vector<OpenedRef> opened = std::move(v.opened);
      v = apply_view(e, op, v.ref, view.last(1), ViewUse::Gather);
      v.opened = std::move(opened);
    } else {
      for (size_t i = 0; i < last->entries.size(); ++i) {
        const ir::view::Entry& d = last->entries[i];
        GatherDim g = element_dim(e, op, v.ref, i, d);
        if (e.options().padding == Options::Padding::All && !v.ref.ref().padding.empty())
          g.padding = v.ref.ref().padding[i];
        if (d.is_slice()) {
          if (!d.size.is_static()) e.unsupported(op, "slice of a size that is known at run time only");
          g.step = d.stride.value();
          g.result_dim = static_cast<int>(v.result_dims.size());
          v.result_dims.push_back(d.size.value());
        }
        v.dims.push_back(g);
      }
    }
    v.dims.insert(v.dims.end(), picked.begin(), picked.end());
  }
  v.gather = true;
  if (ref.ref().edge >= 0) add_block(e, &v);
  return v;
}

AtomicFn atomic_function(Emitter& e, const Op& op, const std::string& kind, ir::DType t) {
  const AtomicFn fn = e.functions().atomic_function(kind, t);
  if (!fn) e.unsupported(op, "atomic " + kind + " on " + std::string(ir::name(t)));
  return fn;
}

static const std::vector<Predicate>* mask_conditions(Emitter& e, const Op& op) {
  return e.state<AffineArrays>().find_mask(op.operands[static_cast<size_t>(op.attr("mask")->i)]);
}

// Whether the condition holds for all elements, where that is known while the plan is made.
static std::optional<bool> known_to_hold(const Predicate& c, const std::vector<int64_t>& dims) {
  const std::optional<int64_t> base = known_int(c.values.base), bound = known_int(c.bound);
  return base && bound ? std::optional(always_holds(condition_of(c, dims.size()), *base, *bound, dims)) : std::nullopt;
}

// The elements as a strided view, where it is known while the plan is made that all are inside and the mask takes them.
static std::optional<Val> known_view(const Emitter& e, const ViewResult& v, const std::vector<Predicate>* conditions) {
  const Val::Ref& r = v.ref.ref();
  const bool plain =
      !r.through && !r.choice && !r.tiled && r.edge < 0 && r.extents.empty() && r.valid.empty() && r.before.empty();
  if (!plain || !r.gates.empty() || !v.opened.empty() || !e.options().fuse || v.result_dims.empty()) return {};
  for (size_t i = 0; conditions && i < conditions->size(); ++i)
    if (!known_to_hold((*conditions)[i], v.result_dims).value_or(false)) return {};
  Val out = v.ref;
  out.dims = v.result_dims;
  out.memory().strides.assign(out.dims.size(), 0);
  out.ref().padding.clear();
  for (const GatherDim& g : v.dims) {
    std::vector<int64_t> steps(out.dims.size(), 0);
    if (g.kind == GatherDim::Kind::Range) {
      if (g.start_slot != Addr::kNoSlot) return {};
      if (g.result_dim >= 0) steps[static_cast<size_t>(g.result_dim)] = g.step;
    } else {
      if (g.kind != GatherDim::Kind::Affine || !g.known) return {};
      steps = g.array_strides;
    }
    const Extremes x = extremes(g.start, steps, out.dims);
    if (g.window_slot != Addr::kNoSlot || x.least < 0 || x.greatest >= g.extent) return {};
    out.memory().addr.offset += g.start * g.stride * ir::byte_size(out.dtype);
    for (size_t i = 0; i < steps.size(); ++i) out.memory().strides[i] += steps[i] * g.stride;
  }
  if (out.elements() == 0) return {};
  count(Rewrite::KnownView);
  return out;
}

// Whether no two elements of the view are one, as an order of its dimensions shows.
static bool is_one_to_one(const Val& v) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, elements
  for (size_t i = 0; i < v.dims.size(); ++i)
    if (v.dims[i] != 1) dims.emplace_back(v.memory().strides[i], v.dims[i]);
  std::sort(dims.begin(), dims.end());
  int64_t behind = 1;
  for (const auto& [stride, n] : dims) {
    if (stride < behind) return false;
    behind = stride * (n - 1) + behind;
  }
  return true;
}

static void lower_masked(Emitter& e, const Op& op) {
  const Val ref = e.operand(op, 0);
  const bool load = op.code == ir::OpCode::masked_load;
  const bool pointer = e.model().spaces[e.type(op.operands[0])->space].blocks == hw::BlockAccess::Pointer;
  if (!op.attr("mask") && ref.ref().edge < 0 && !pointer)  // an ordinary access
    return load ? lower_get(e, op) : op.code == ir::OpCode::masked_swap ? lower_swap(e, op) : lower_store(e, op);
  if (!load) check_writable(e, op, ref);
  const Attr* mask_attr = op.attr("mask");
  const Attr* other_attr = load ? op.attr("other") : nullptr;
  const Val value = load ? Val{} : e.operand(op, 1);
  const ViewResult v = element_view(e, op, ref, op.view(), load ? Recast::Read : Recast::Write);
  Val mask, other;
  const auto* conditions = mask_attr ? mask_conditions(e, op) : nullptr;
  if (mask_attr && !conditions) mask = e.operand(op, static_cast<size_t>(mask_attr->i));
  if (other_attr) other = e.operand(op, static_cast<size_t>(other_attr->i));
  Val result;
  if (const bool swap = op.code == ir::OpCode::masked_swap; !swap && (!mask_attr || conditions))
    if (const std::optional<Val> view = known_view(e, v, conditions))
      if (load || is_one_to_one(*view))
        return load ? e.define(op.results[0], view->as_strided()) : store_value(e, op, *view, value);
  gather_access(e, op, v,
                {.mode = load                                 ? GatherPayload::Mode::Load
                         : op.code == ir::OpCode::masked_swap ? GatherPayload::Mode::Swap
                                                              : GatherPayload::Mode::Store,
                 .value = load ? nullptr : &value,
                 .mask = mask_attr && !conditions ? &mask : nullptr,
                 .other = other_attr ? &other : nullptr,
                 .conditions = conditions},
                &result);
  if (!load) write_back(e, v.opened);
  if (!op.results.empty()) e.define(op.results[0], result);
}

static void lower_atomic(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val ref = e.operand(op, 0);
  check_writable(e, op, ref);
  const bool cas = op.code == ir::OpCode::atomic_cas;
  const Val value = e.operand(op, cas ? 2 : 1), compare = cas ? e.operand(op, 1) : Val{};
  const ViewResult v = element_view(e, op, ref, op.view());
  Val mask;
  const Attr* mask_attr = op.attr("mask");
  const auto* conditions = mask_attr ? mask_conditions(e, op) : nullptr;
  if (mask_attr && !conditions) mask = e.operand(op, static_cast<size_t>(mask_attr->i));
  const bool used = e.live().uses(op.results[0]) > 0;
  Val old;
  gather_access(e, op, v,
                {.mode = GatherPayload::Mode::Atomic,
                 .value = &value,
                 .mask = mask_attr && !conditions ? &mask : nullptr,
                 .compare = cas ? &compare : nullptr,
                 .conditions = conditions,
                 .atomic = atomic_function(e, op, cas ? "cas" : op.attr("kind")->s, ref.dtype),
                 .spins = e.live().in_while() && used && v.result_dims.empty()},
                used ? &old : nullptr);
  if (used) e.define(op.results[0], old);
}

// The same without a result, by an operation whose ref is an attribute.
static void lower_atomic_store(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const ir::Viewed& viewed = *op.viewed("ref");
  const Val ref = e.operand(op, static_cast<size_t>(viewed.operand)),
            value = e.operand(op, static_cast<size_t>(op.attr("value")->i));
  check_writable(e, op, ref);
  gather_access(e, op, element_view(e, op, ref, viewed.transforms),
                {.mode = GatherPayload::Mode::Atomic,
                 .value = &value,
                 .atomic = atomic_function(e, op, op.attr("kind")->s, ref.dtype)},
                nullptr);
}

// Whether a store computes its value where it goes to: one that waits to be computed, into rows that no array of
// indices and no mask in memory tears apart.
static bool is_row_program(const Emitter& e, const ElementAccess& access, const GatherPayload& p, const Val& value) {
  return e.options().fuse && !e.options().checked && access.mode == GatherPayload::Mode::Store && value.is_pending() &&
         value.node()->elementwise() && !access.mask && !p.dims.empty() && value.dims == p.dims &&
         std::none_of(p.ref_dims.begin(), p.ref_dims.end(), [](const GatherDim& g) {
           return g.kind == GatherDim::Kind::Array && g.array_strides.back() != 0;
         });
}

// How far apart the elements of a load lie, in elements per dimension of the result, where it is known while the plan
// is made, no two of them are one and those of a row lie side by side; and how many elements there are from the first
// to the last.
struct Apart {
  std::vector<int64_t> strides;
  int64_t span = 1;
};
static std::optional<Apart> elements_apart(const GatherPayload& p) {
  Apart r{std::vector<int64_t>(p.dims.size(), 0)};
  const std::vector<int64_t> dense = dense_strides(p.dims);
  for (const GatherDim& g : p.ref_dims) {
    if (g.kind == GatherDim::Kind::Array) return {};
    if (g.kind == GatherDim::Kind::Range && g.result_dim >= 0)
      r.strides[static_cast<size_t>(g.result_dim)] += g.step * g.stride;
    for (size_t i = 0; g.kind == GatherDim::Kind::Affine && i < p.dims.size(); ++i)
      r.strides[i] += g.array_strides[i] * g.stride;
  }
  for (size_t i = p.dims.size(), rows = 0; i-- > 0;) {
    if (p.dims[i] == 1) {
      r.strides[i] = dense[i];
      continue;
    }
    if (rows++ == 0 ? r.strides[i] != 1 : r.strides[i] < r.span) return {};
    r.span += (p.dims[i] - 1) * r.strides[i];
  }
  return r;
}

// Whether it is known while the plan is made that the mask leaves out an element.
static bool always_cut(const std::vector<Predicate>& conditions, const std::vector<int64_t>& dims) {
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](const Predicate& c) { return !known_to_hold(c, dims).value_or(true); });
}

// A load as a view whose address a step finds: of the array, or of memory of its own where not all elements are there.
static std::optional<Val> load_in_place(Emitter& e, const ViewResult& view, const ElementAccess& access,
                                        GatherPayload* p) {
  constexpr int64_t kMostApart = 16, kMostBytes = 1 << 20;  // memory of its own is not for gaps
  const Val::Ref& r = view.ref.ref();
  const PlanOptions& o = e.options();
  if (!o.rewrites() || p->mode != GatherPayload::Mode::Load || access.mask || p->dims.empty() ||
      view.ref.memory().storage || r.through || r.choice || r.tiled || !view.opened.empty() ||
      (access.conditions && always_cut(*access.conditions, p->dims)))
    return {};
  const std::optional<Apart> apart = elements_apart(*p);
  Val shown = view.ref.as_strided();
  shown.dims = p->dims;
  const int64_t elements = shown.elements();
  if (!apart || elements == 0 || apart->span > kMostApart * elements || apart->span * p->size > kMostBytes) return {};
  Val own = e.temp(p->dtype, p->dims);
  p->value = own.memory().addr;
  const bool dense = own.memory().strides == apart->strides;
  if (!dense) own = e.temp(p->dtype, {apart->span});
  shown.memory().strides = apart->strides;
  shown.memory().addr = own.memory().addr;
  shown.memory().addr.dyn = e.new_slot();
  shown.memory().storage = own.memory().storage;
  const uint32_t alias = shown.memory().addr.buffer = e.plan().memory.new_alias();
  e.emit<Kind::load_in_place>(LoadedInPlace{std::move(*p), own.memory().addr, apart->strides, dense, alias}).dst =
      shown.memory().addr.dyn;
  count(Rewrite::LoadedInPlace);
  return shown;
}

void gather_access(Emitter& e, const Op& op, const ViewResult& view, const ElementAccess& access, Val* result) {
  using Mode = GatherPayload::Mode;
  GatherPayload p;
  p.mode = access.mode;
  if (p.mode == Mode::Load) p.reads_outside = reads_outside(e, view.ref);
  p.atomic = access.atomic;
  p.spins = access.spins;
  p.dims = view.result_dims;
  p.ref_dims = view.dims;
  p.ref = view.ref.memory().addr;
  p.size = ir::byte_size(view.ref.dtype);
  p.name = view.ref.memory().name;
  p.shape = view.ref.dims;
  p.dtype = view.ref.dtype;
  if (const size_t o = p.ref.buffer - kFirstOperandBuffer;
      p.ref.buffer >= kFirstOperandBuffer && o < e.module().operands.size() &&
      e.model().spaces[e.module().operands[o].space].blocks == hw::BlockAccess::Pointer)
    p.array_elements = e.module().operands[o].array->num_elements();
  // The step reads its operands element by element while it writes: none of them may show what it writes.
  const bool waited_for = (ir::info(op.code).effects & ir::kEffectAtomic) != 0;  // other programs may act on it
  const analysis::WriteSet writes = p.mode == Mode::Load ? analysis::WriteSet()
                                    : waited_for         ? everything()
                                                         : e.live().written(view.ref);
  const auto given = [](const Val* v) { return v ? *v : Val(); };
  const std::vector<Val> operands =
      e.about_to_write(writes, {given(access.mask), given(access.other), given(access.value), given(access.compare)});
  auto broadcast = [&](const Val& v) {
    Val s = strided(e, v);
    std::vector<int64_t> strides(p.dims.size(), 0);
    const size_t lead = p.dims.size() - s.dims.size();
    for (size_t i = 0; i < s.dims.size(); ++i)
      if (s.dims[i] != 1) strides[lead + i] = s.memory().strides[i];
    s.dims = p.dims;
    s.memory().strides = strides;
    return s;
  };
  Val kept_mask, kept_other, kept_value, kept_compare;
  if (access.mask) {
    kept_mask = broadcast(operands[0]);
    p.has_mask = true;
    p.mask = kept_mask.memory().addr;
    p.mask_strides = kept_mask.memory().strides;
  }
  if (access.conditions) {
    count(Rewrite::AffineMask);
    p.has_mask = true;
    for (const Predicate& c : *access.conditions) p.conditions.push_back(condition_of(c, p.dims.size()));
  }
  if (access.other) {
    kept_other = broadcast(operands[1]);
    p.has_other = true;
    p.other = kept_other.memory().addr;
    p.other_strides = kept_other.memory().strides;
  }
  if (access.compare) {
    kept_compare = dense(e, broadcast(operands[3]));
    p.compare = kept_compare.memory().addr;
  }
  if (std::optional<Val> shown = load_in_place(e, view, access, &p)) {
    e.plan().split.step_cost_ns += host_cost::kElement.step;
    *result = std::move(*shown);
    return;
  }
  const bool in_place = is_row_program(e, access, p, operands[2]);
  if (access.value && !in_place) {
    kept_value = dense(e, broadcast(operands[2]));
    p.value = kept_value.memory().addr;
  }
  Val r;
  if (result && p.mode != Mode::Store) {
    r = e.temp(p.dtype, p.dims);
    (p.mode == Mode::Load ? p.value : p.old) = r.memory().addr;
    p.has_old = p.mode != Mode::Load;
  }
  if (in_place) {
    kept_value = e.temp(p.dtype, p.dims);
    p.value = kept_value.memory().addr;
    std::vector<const ir::Op*> sources;
    EltProgram program = elementwise_program(e, kept_value, operands[2], false, &sources);
    count(Rewrite::StoredInPlace);
    e.emit<Kind::store_rows>(StoredRows{std::move(p), std::move(program)});
    sources.push_back(&op);
    e.plan().step_ops.replace(sources);
    return;
  }
  e.plan().split.step_cost_ns += host_cost::kElements.of(static_cast<double>(kept_value.elements() + r.elements()));
  if (p.mode == Mode::Atomic) e.emit<Kind::atomic>(std::move(p));
  else e.emit<Kind::gather>(std::move(p));
  if (r.kind() != Val::Kind::None) *result = r.dims.empty() ? load_scalar(e, r) : r;
}

Rows gather_rows() {
  static constexpr Row kRows[] = {{OpCode::masked_load, lower_masked}, {OpCode::masked_store, lower_masked},
                                  {OpCode::masked_swap, lower_masked}, {OpCode::atomic_rmw, lower_atomic},
                                  {OpCode::atomic_cas, lower_atomic},  {OpCode::gpu_atomic_store, lower_atomic_store}};
  return kRows;
}

}  // namespace pallasim::interp
