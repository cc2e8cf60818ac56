// Shape operations: most are new strides over the same bytes.
#include <algorithm>
#include <numeric>

#include "../../plan/steps.h"
#include "../compiler.h"

namespace pallasim::interp {
void Compiler::op_constant(const Op& op) {
  const Attr& value = *op.attr("value");
  const ir::Type* t = type(op.results[0]);
  if (value.is(Attr::Kind::Bits) && ir::byte_size(value.dtype) <= 8) {
    Val v = const_scalar(value.dtype, static_cast<uint64_t>(value.i));
    if (!t->is_scalar()) v.kind = Val::Kind::Splat, v.dims = dims_of(t);
    return define(op.results[0], v);
  }
  if (!value.is(Attr::Kind::Dense)) unsupported(op, "constant kept outside the module");
  Val v;
  v.kind = Val::Kind::Strided;
  v.dtype = t->dtype;
  v.dims = dims_of(t);
  v.strides = dense_strides(v.dims);
  const size_t at = (plan_.constants.size() + 63) / 64 * 64;
  plan_.constants.resize(at + value.s.size());
  std::memcpy(plan_.constants.data() + at, value.s.data(), value.s.size());
  v.addr = {kConstBuffer, Addr::kNoSlot, static_cast<int64_t>(at)};
  if (v.dims.empty()) v = load_scalar(v);
  define(op.results[0], v);
}

// Shape parameters are bound before a plan is made.
void Compiler::op_dim_value(const Op& op) {
  define(op.results[0], const_scalar(type(op.results[0])->dtype, static_cast<uint64_t>(op.attr("dim")->i)));
}

void Compiler::op_iota(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val v;
  v.kind = Val::Kind::Strided;
  v.dtype = t->dtype;
  v.dims = dims_of(t);
  v.strides.assign(v.dims.size(), 0);
  v.strides[axis] = 1;
  const int64_t n = v.dims[axis];
  require_memory(n * ir::byte_size(t->dtype), "an iota");
  const size_t at = (plan_.constants.size() + 63) / 64 * 64;
  plan_.constants.resize(at + static_cast<size_t>(n) * static_cast<size_t>(ir::byte_size(t->dtype)));
  k_.iota(plan_.constants.data() + at, t->dtype, 0, n);
  v.addr = {kConstBuffer, Addr::kNoSlot, static_cast<int64_t>(at)};
  define(op.results[0], v);
}

void Compiler::op_broadcast(const Op& op) {
  Val v = operand(op, 0);
  const std::vector<int64_t> dims = dims_of(type(op.results[0]));
  if (v.kind == Val::Kind::Scalar || v.kind == Val::Kind::Splat) {
    v.kind = dims.empty() ? Val::Kind::Scalar : Val::Kind::Splat;
    v.dims = dims;
    return define(op.results[0], v);
  }
  if (v.dims == dims) return define(op.results[0], v);
  v = strided(v);
  const std::vector<int64_t> map = ints(op.attr("dims"));
  std::vector<int64_t> strides(dims.size(), 0);
  for (size_t i = 0; i < map.size(); ++i)
    if (v.dims[i] != 1) strides[static_cast<size_t>(map[i])] = v.strides[i];
  v.dims = dims;
  v.strides = strides;
  define(op.results[0], v);
}

void Compiler::op_reshape(const Op& op) {
  Val v = operand(op, 0);
  const std::vector<int64_t> dims = dims_of(type(op.results[0]));
  if (v.dims == dims) return define(op.results[0], v);
  if (v.kind == Val::Kind::Scalar || v.kind == Val::Kind::Splat) {
    v.kind = dims.empty() ? Val::Kind::Scalar : Val::Kind::Splat;
    v.dims = dims;
    return define(op.results[0], v);
  }
  if (v.kind == Val::Kind::Strided && !is_dense(v)) {
    // Only dims of size 1 come or go: strides follow.
    std::vector<int64_t> real, real_strides;
    for (size_t i = 0; i < v.dims.size(); ++i)
      if (v.dims[i] != 1) real.push_back(v.dims[i]), real_strides.push_back(v.strides[i]);
    std::vector<int64_t> strides(dims.size(), 0);
    size_t next = 0;
    bool ok = true;
    for (size_t i = 0; i < dims.size() && ok; ++i) {
      if (dims[i] == 1) continue;
      ok = next < real.size() && real[next] == dims[i];
      if (ok) strides[i] = real_strides[next++];
    }
    if (ok && next == real.size()) {
      v.dims = dims;
      v.strides = strides;
      return define(op.results[0], v);
    }
  }
  v = dense(v);
  v.dims = dims;
  v.strides = dense_strides(dims);
  if (dims.empty()) v = load_scalar(v);
  define(op.results[0], v);
}

void Compiler::op_transpose(const Op& op) {
  Val v = operand(op, 0);
  const std::vector<int64_t> perm = ints(op.attr("perm"));
  if (v.kind == Val::Kind::Scalar) return define(op.results[0], v);
  if (v.kind != Val::Kind::Splat) v = strided(v);
  Val r = v;
  for (size_t i = 0; i < perm.size(); ++i) {
    r.dims[i] = v.dims[static_cast<size_t>(perm[i])];
    if (v.kind == Val::Kind::Strided) r.strides[i] = v.strides[static_cast<size_t>(perm[i])];
  }
  define(op.results[0], r);
}

void Compiler::op_slice(const Op& op) {
  Val v = operand(op, 0);
  const std::vector<int64_t> dims = dims_of(type(op.results[0]));
  if (v.kind == Val::Kind::Splat || v.kind == Val::Kind::Scalar) {
    v.dims = dims;
    return define(op.results[0], v);
  }
  v = strided(v);
  const std::vector<int64_t> start = ints(op.attr("start"));
  std::vector<int64_t> stride = ints(op.attr("stride"));
  stride.resize(start.size(), 1);
  for (size_t i = 0; i < start.size(); ++i) {
    if (v.elements()) v.addr.offset += start[i] * v.strides[i] * ir::byte_size(v.dtype);
    v.strides[i] *= stride[i];
  }
  v.dims = dims;
  define(op.results[0], v);
}

void Compiler::op_rev(const Op& op) {
  Val v = operand(op, 0);
  if (v.kind == Val::Kind::Splat || v.kind == Val::Kind::Scalar) return define(op.results[0], v);
  v = strided(v);
  for (int64_t a : ints(op.attr("axes"))) {
    const auto i = static_cast<size_t>(a);
    if (v.dims[i] > 0) v.addr.offset += (v.dims[i] - 1) * v.strides[i] * ir::byte_size(v.dtype);
    v.strides[i] = -v.strides[i];
  }
  define(op.results[0], v);
}

// Starts, operands of `op` from `first` on, clamped so that a slice of `sizes` stays inside `v`.
IndexPayload Compiler::clamped_starts(const Op& op, size_t first, const Val& v, const std::vector<int64_t>& sizes) {
  IndexPayload p;
  p.shape = v.dims;
  for (size_t d = 0; d < v.dims.size(); ++d) {
    const int64_t last = v.dims[d] - sizes[d];
    if (last <= 0) continue;
    Val start = operand(op, first + d);
    const CType c = compute_type(start.dtype);
    if (c == CType::U32 ||
        c == CType::U64) {  // the step reads signed numbers: what lies beyond the end is put at the end
      StripParams params;
      params.dtype = start.dtype;
      const int64_t greatest =
          ir::bit_width(start.dtype) < 32 ? (int64_t{1} << ir::bit_width(start.dtype)) - 1 : INT32_MAX;
      start = scalar_result(ir::OpCode::min, start.dtype, start.dtype,
                            {start, const_int(start.dtype, std::min(last, greatest))}, params);
    }
    const bool wide = c == CType::I64 || c == CType::U64;
    p.terms.push_back({scalar_slot(start), wide, v.strides[d] * ir::byte_size(v.dtype), last, static_cast<int>(d),
                       v.dims[d], sizes[d]});
  }
  return p;
}

void Compiler::op_dynamic_slice(const Op& op) {
  const std::vector<int64_t> sizes = dims_of(type(op.results[0]));
  Val v = operand(op, 0);
  if (v.kind == Val::Kind::Splat || v.kind == Val::Kind::Scalar) {
    v.dims = sizes;
    return define(op.results[0], v);
  }
  v = strided(v);
  IndexPayload p = clamped_starts(op, 1, v, sizes);
  if (!p.terms.empty()) {
    const uint32_t dyn = new_slot();
    Step& s = emit(ops::clamp_index, plan_.own(std::move(p)));
    s.a = v.addr.dyn;
    s.dst = dyn;
    v.addr.dyn = dyn;
  }
  v.dims = sizes;
  define(op.results[0], v);
}

void Compiler::op_dynamic_update(const Op& op) {
  Val base = operand(op, 0);
  const Val update = operand(op, 1);
  if (base.dims.empty()) return define(op.results[0], update);
  Val r = temp(base.dtype, base.dims);
  emit_pending(base, r);
  Val part = r;
  part.dims = update.dims;
  IndexPayload p = clamped_starts(op, 2, r, update.dims);
  if (!p.terms.empty()) {
    const uint32_t dyn = new_slot();
    Step& s = emit(ops::clamp_index, plan_.own(std::move(p)));
    s.a = Addr::kNoSlot;
    s.dst = dyn;
    part.addr.dyn = dyn;
  }
  copy_value(part, update);
  define(op.results[0], r);
}

void Compiler::op_concatenate(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val r = temp(t->dtype, dims_of(t));
  Val part = r;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Val& v = operand(op, i);
    part.dims = v.dims;
    if (v.elements()) copy_value(part, v);
    part.addr.offset += v.dims[axis] * r.strides[axis] * ir::byte_size(t->dtype);
  }
  define(op.results[0], r);
}

void Compiler::op_pad(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  Val v = operand(op, 0);
  Val fill = operand(op, 1);
  Val r = temp(t->dtype, dims_of(t));
  Val splat = fill;
  if (splat.kind != Val::Kind::Scalar && splat.kind != Val::Kind::Splat) splat = load_scalar(strided(splat));
  splat.kind = Val::Kind::Splat;
  splat.dims = r.dims;
  emit_pending(splat, r);
  const std::vector<int64_t> low = ints(op.attr("low")), interior = ints(op.attr("interior"));
  // The operand's elements that land inside: element i goes to low + i * (interior + 1).
  Val src = v.kind == Val::Kind::Scalar || v.kind == Val::Kind::Splat ? v : strided(v);
  Val dst = r;
  const int size = ir::byte_size(t->dtype);
  for (size_t d = 0; d < low.size(); ++d) {
    const int64_t step = interior[d] + 1;
    int64_t first = low[d] >= 0 ? 0 : (-low[d] + step - 1) / step;
    int64_t n = v.dims[d];
    while (n > first && low[d] + (n - 1) * step >= r.dims[d]) --n;
    const int64_t count = std::max<int64_t>(0, n - first);
    src.dims[d] = dst.dims[d] = count;
    if (src.kind == Val::Kind::Strided) src.addr.offset += first * src.strides[d] * size;
    if (count) dst.addr.offset += (low[d] + first * step) * r.strides[d] * size;
    dst.strides[d] = r.strides[d] * step;
  }
  if (dst.elements()) emit_pending(src, dst);
  if (r.dims.empty()) r = load_scalar(r);
  define(op.results[0], r);
}

void Compiler::op_tile(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  std::vector<int64_t> reps = ints(op.attr("reps"));
  if (op.code == ir::OpCode::repeat) {
    reps.assign(dims_of(t).size(), 1);
    reps[static_cast<size_t>(op.attr("axis")->i)] = op.attr("repeats")->i;
  }
  Val v = operand(op, 0);
  if (v.kind == Val::Kind::Splat || v.kind == Val::Kind::Scalar) {
    v.dims = dims_of(t);
    return define(op.results[0], v);
  }
  v = strided(v);
  Val r = temp(t->dtype, dims_of(t));
  // [rep0, d0, rep1, d1, …] with stride 0 along the repetitions.
  Val src = v, dst = r;
  src.dims.clear(), src.strides.clear(), dst.dims.clear(), dst.strides.clear();
  const size_t lead = r.dims.size() - v.dims.size();
  for (size_t i = 0; i < r.dims.size(); ++i) {
    const int64_t n = i < lead ? 1 : v.dims[i - lead];
    src.dims.push_back(reps[i]), src.strides.push_back(0);
    src.dims.push_back(n), src.strides.push_back(i < lead ? 0 : v.strides[i - lead]);
    dst.strides.push_back(r.strides[i] * n), dst.strides.push_back(r.strides[i]);
  }
  dst.dims = src.dims;
  emit_copy(dst, src);
  define(op.results[0], r);
}

void Compiler::op_split(const Op& op) {
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val v = operand(op, 0);
  if (v.kind != Val::Kind::Splat) v = strided(v);
  for (size_t i = 0; i < op.results.size(); ++i) {
    Val part = v;
    part.dims = dims_of(type(op.results[i]));
    define(op.results[i], part);
    if (v.kind == Val::Kind::Strided) v.addr.offset += part.dims[axis] * v.strides[axis] * ir::byte_size(v.dtype);
  }
}

void Compiler::op_stack(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val r = temp(t->dtype, dims_of(t));
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Val part = r;
    part.dims.erase(part.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    part.strides.erase(part.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    part.addr.offset += static_cast<int64_t>(i) * r.strides[axis] * ir::byte_size(t->dtype);
    copy_value(part, operand(op, i));
  }
  define(op.results[0], r);
}

void Compiler::op_unstack(const Op& op) {
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  Val v = strided(operand(op, 0));
  for (size_t i = 0; i < op.results.size(); ++i) {
    Val part = v;
    part.addr.offset += static_cast<int64_t>(i) * v.strides[axis] * ir::byte_size(v.dtype);
    part.dims.erase(part.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    part.strides.erase(part.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    if (part.dims.empty()) part = load_scalar(part);
    define(op.results[i], part);
  }
}

}  // namespace pallasim::interp
