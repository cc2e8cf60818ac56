// Shape operations: most are new strides over the same bytes.
#include <algorithm>
#include <numeric>

#include "../../plan/payload/places.h"
#include "../../plan/steps.h"
#include "../views/views.h"
#include "lowering.h"

namespace pallasim::interp {
static void lower_constant(Emitter& e, const Op& op) {
  const Attr& value = *op.attr("value");
  const ir::Type* t = e.type(op.results[0]);
  if (value.is(Attr::Kind::Bits) && ir::byte_size(value.dtype) <= 8) {
    const Val v = e.const_scalar(value.dtype, static_cast<uint64_t>(value.i));
    return e.define(op.results[0], v.spread(dims_of(t)));
  }
  if (!value.is(Attr::Kind::Dense)) e.unsupported(op, "constant kept outside the module");
  Val v(t->dtype, dims_of(t), Val::Strided{});
  v.memory().strides = dense_strides(v.dims);
  const size_t at = (e.plan().memory.constants.size() + 63) / 64 * 64;
  e.plan().memory.constants.resize(at + value.s.size());
  std::memcpy(e.plan().memory.constants.data() + at, value.s.data(), value.s.size());
  v.memory().addr = {kConstBuffer, Addr::kNoSlot, static_cast<int64_t>(at)};
  if (v.dims.empty()) v = load_scalar(e, v);
  e.define(op.results[0], v);
}

// Shape parameters are bound before a plan is made.
static void lower_dim_value(Emitter& e, const Op& op) {
  e.define(op.results[0], e.const_scalar(e.type(op.results[0])->dtype, static_cast<uint64_t>(op.attr("dim")->i)));
}

static void lower_iota(Emitter& e, const Op& op) {
  const ir::Type* t = e.type(op.results[0]);
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val v(t->dtype, dims_of(t), Val::Strided{});
  v.memory().strides.assign(v.dims.size(), 0);
  v.memory().strides[axis] = 1;
  const int64_t n = v.dims[axis];
  require_memory(e, n * ir::byte_size(t->dtype), "an iota");
  const size_t at = (e.plan().memory.constants.size() + 63) / 64 * 64;
  e.plan().memory.constants.resize(at + static_cast<size_t>(n) * static_cast<size_t>(ir::byte_size(t->dtype)));
  e.kernels().iota(e.plan().memory.constants.data() + at, t->dtype, 0, n);
  v.memory().addr = {kConstBuffer, Addr::kNoSlot, static_cast<int64_t>(at)};
  e.define(op.results[0], v);
}

static void lower_broadcast(Emitter& e, const Op& op) {
  Val v = e.operand(op, 0);
  const std::vector<int64_t> dims = dims_of(e.type(op.results[0]));
  if (v.is_uniform()) return e.define(op.results[0], v.spread(dims));
  if (v.dims == dims) return e.define(op.results[0], v);
  v = strided(e, v);
  const std::vector<int64_t> map = ints(op.attr("dims"));
  std::vector<int64_t> strides(dims.size(), 0);
  for (size_t i = 0; i < map.size(); ++i)
    if (v.dims[i] != 1) strides[static_cast<size_t>(map[i])] = v.memory().strides[i];
  v.dims = dims;
  v.memory().strides = strides;
  e.define(op.results[0], v);
}

static void lower_reshape(Emitter& e, const Op& op) {
  Val v = e.operand(op, 0);
  const std::vector<int64_t> dims = dims_of(e.type(op.results[0]));
  if (v.dims == dims) return e.define(op.results[0], v);
  if (v.is_uniform()) return e.define(op.results[0], v.spread(dims));
  if (v.is_strided() && !is_dense(v))
    if (std::optional<std::vector<int64_t>> strides = same_but_for_ones(v, dims)) {
      v.dims = dims;
      v.memory().strides = std::move(*strides);
      return e.define(op.results[0], v);
    }
  if (!v.is_strided() || !is_dense(v)) return define_into(e, op.results[0], {v}, {Into::Reshaped{}});
  v.dims = dims;
  v.memory().strides = dense_strides(dims);
  if (dims.empty()) v = load_scalar(e, v, op.results[0]);
  e.define(op.results[0], v);
}

static void lower_transpose(Emitter& e, const Op& op) {
  Val v = e.operand(op, 0);
  const std::vector<int64_t> perm = ints(op.attr("perm"));
  if (v.is_scalar()) return e.define(op.results[0], v);
  if (v.kind() != Val::Kind::Splat) v = strided(e, v);
  Val r = v;
  for (size_t i = 0; i < perm.size(); ++i) {
    r.dims[i] = v.dims[static_cast<size_t>(perm[i])];
    if (v.is_strided()) r.memory().strides[i] = v.memory().strides[static_cast<size_t>(perm[i])];
  }
  e.define(op.results[0], r);
}

static void lower_slice(Emitter& e, const Op& op) {
  const Val v = e.operand(op, 0);
  const std::vector<int64_t> dims = dims_of(e.type(op.results[0]));
  if (v.is_uniform()) return e.define(op.results[0], v.spread(dims));
  const std::vector<int64_t> start = ints(op.attr("start"));
  std::vector<int64_t> stride = ints(op.attr("stride"));
  stride.resize(start.size(), 1);
  e.define(op.results[0], box(strided(e, v), start, dims, stride));
}

static void lower_rev(Emitter& e, const Op& op) {
  Val v = e.operand(op, 0);
  if (v.is_uniform()) return e.define(op.results[0], v);
  v = strided(e, v);
  for (int64_t a : ints(op.attr("axes"))) {
    const auto i = static_cast<size_t>(a);
    if (v.dims[i] > 0) v.memory().addr.offset += (v.dims[i] - 1) * v.memory().strides[i] * ir::byte_size(v.dtype);
    v.memory().strides[i] = -v.memory().strides[i];
  }
  e.define(op.results[0], v);
}

// Starts, operands of `op` from `first` on, clamped so that a slice of `sizes` stays inside `v`.
static IndexPayload clamped_starts(Emitter& e, const Op& op, size_t first, const Val& v,
                                   const std::vector<int64_t>& sizes) {
  IndexPayload p;
  p.shape = v.dims;
  for (size_t d = 0; d < v.dims.size(); ++d) {
    const int64_t last = v.dims[d] - sizes[d];
    if (last <= 0) continue;
    Val start = e.operand(op, first + d);
    const CType c = compute_type(start.dtype);
    // The step reads signed numbers: what lies beyond the end is put at the end.
    if (c == CType::U32 || c == CType::U64) {
      StripParams params;
      params.dtype = start.dtype;
      const int64_t greatest =
          ir::bit_width(start.dtype) < 32 ? (int64_t{1} << ir::bit_width(start.dtype)) - 1 : INT32_MAX;
      start = scalar_result(e, ir::OpCode::min, start.dtype, start.dtype,
                            {start, e.const_int(start.dtype, std::min(last, greatest))}, params);
    }
    p.terms.push_back({scalar_slot(e, start), is_wide(start.dtype), v.memory().strides[d] * ir::byte_size(v.dtype),
                       last, static_cast<int>(d), v.dims[d], sizes[d]});
  }
  return p;
}

static void lower_dynamic_slice(Emitter& e, const Op& op) {
  const std::vector<int64_t> sizes = dims_of(e.type(op.results[0]));
  Val v = e.operand(op, 0);
  if (v.is_uniform()) return e.define(op.results[0], v.spread(sizes));
  v = strided(e, v);
  IndexPayload p = clamped_starts(e, op, 1, v, sizes);
  if (!p.terms.empty()) {
    const uint32_t dyn = e.new_slot();
    Step& s = e.emit<Kind::clamp_index>(std::move(p));
    s.a = v.memory().addr.dyn;
    s.dst = dyn;
    v.memory().addr.dyn = dyn;
  }
  v.dims = sizes;
  e.define(op.results[0], v);
}

static void lower_dynamic_update(Emitter& e, const Op& op) {
  Val base = e.operand(op, 0);
  const Val update = e.operand(op, 1);
  if (base.dims.empty()) return e.define(op.results[0], update);
  Val r = e.temp(base.dtype, base.dims);
  emit_pending(e, base, r);
  Val part = r;
  part.dims = update.dims;
  IndexPayload p = clamped_starts(e, op, 2, r, update.dims);
  if (!p.terms.empty()) {
    const uint32_t dyn = e.new_slot();
    Step& s = e.emit<Kind::clamp_index>(std::move(p));
    s.a = Addr::kNoSlot;
    s.dst = dyn;
    part.memory().addr.dyn = dyn;
  }
  copy_value(e, part, update);
  e.define(op.results[0], r);
}

static void lower_concatenate(Emitter& e, const Op& op) {
  define_into(e, op.results[0], e.operands(op), {Into::Concatenated{static_cast<size_t>(op.attr("axis")->i)}});
}

static void lower_pad(Emitter& e, const Op& op) {
  const std::vector<int64_t> low = ints(op.attr("low")), interior = ints(op.attr("interior"));
  Val fill = e.operand(op, 1);
  if (!fill.is_uniform()) fill = load_scalar(e, strided(e, fill));
  // The operand's elements that land inside: element i goes to low + i * (interior + 1).
  const Val v = e.operand(op, 0);
  const std::vector<int64_t> dims = dims_of(e.type(op.results[0]));
  std::vector<int64_t> begin(low.size()), first(low.size()), count(low.size()), step(low.size());
  bool apart = false;
  for (size_t d = 0; d < low.size(); ++d) {
    step[d] = interior[d] + 1;
    begin[d] = low[d] >= 0 ? 0 : (-low[d] + step[d] - 1) / step[d];
    int64_t n = v.dims[d];
    while (n > begin[d] && low[d] + (n - 1) * step[d] >= dims[d]) --n;
    count[d] = std::max<int64_t>(0, n - begin[d]);
    first[d] = low[d] + begin[d] * step[d];
    apart |= interior[d] > 0 || count[d] == 0;
  }
  const Val inside = v.is_uniform() ? v.spread(count) : box(strided(e, v), begin, count);
  define_into(e, op.results[0], {inside, fill},
              {Into::Padded{std::move(first), std::move(count), std::move(step), apart}});
}

static void lower_tile(Emitter& e, const Op& op) {
  const ir::Type* t = e.type(op.results[0]);
  std::vector<int64_t> reps = ints(op.attr("reps"));
  if (op.code == ir::OpCode::repeat) {
    reps.assign(dims_of(t).size(), 1);
    reps[static_cast<size_t>(op.attr("axis")->i)] = op.attr("repeats")->i;
  }
  Val v = e.operand(op, 0);
  if (v.is_uniform()) return e.define(op.results[0], v.spread(dims_of(t)));
  define_into(e, op.results[0], {strided(e, v)}, {Into::Tiled{std::move(reps)}});
}

static void lower_split(Emitter& e, const Op& op) {
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val v = e.operand(op, 0);
  if (v.kind() != Val::Kind::Splat) v = strided(e, v);
  for (size_t i = 0; i < op.results.size(); ++i) {
    Val part = v;
    part.dims = dims_of(e.type(op.results[i]));
    e.define(op.results[i], part);
    if (v.is_strided()) v.memory().addr.offset += part.dims[axis] * v.memory().strides[axis] * ir::byte_size(v.dtype);
  }
}

static void lower_stack(Emitter& e, const Op& op) {
  define_into(e, op.results[0], e.operands(op), {Into::Stacked{static_cast<size_t>(op.attr("axis")->i)}});
}

static void lower_unstack(Emitter& e, const Op& op) {
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val v = strided(e, e.operand(op, 0));
  for (size_t i = 0; i < op.results.size(); ++i) {
    Val part = v;
    part.memory().addr.offset += static_cast<int64_t>(i) * v.memory().strides[axis] * ir::byte_size(v.dtype);
    part.dims.erase(part.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    part.memory().strides.erase(part.memory().strides.begin() + static_cast<std::ptrdiff_t>(axis));
    if (part.dims.empty()) part = load_scalar(e, part);
    e.define(op.results[i], part);
  }
}

Rows shape_rows() {
  static constexpr Row kRows[] = {{OpCode::constant, lower_constant},
                                  {OpCode::dim_value, lower_dim_value},
                                  {OpCode::iota, lower_iota},
                                  {OpCode::broadcast_in_dim, lower_broadcast},
                                  {OpCode::reshape, lower_reshape},
                                  {OpCode::transpose, lower_transpose},
                                  {OpCode::slice, lower_slice},
                                  {OpCode::dynamic_slice, lower_dynamic_slice},
                                  {OpCode::dynamic_update_slice, lower_dynamic_update},
                                  {OpCode::concatenate, lower_concatenate},
                                  {OpCode::pad, lower_pad},
                                  {OpCode::rev, lower_rev},
                                  {OpCode::tile, lower_tile},
                                  {OpCode::repeat, lower_tile},
                                  {OpCode::split, lower_split},
                                  {OpCode::stack, lower_stack},
                                  {OpCode::unstack, lower_unstack}};
  return kRows;
}

}  // namespace pallasim::interp
