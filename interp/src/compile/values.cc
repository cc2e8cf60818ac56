// Values and their memory: temporaries, copies, evaluation.
#include <algorithm>

#include "../plan/steps.h"
#include "emitter.h"
#include "lower/elementwise.h"

namespace pallasim::interp {

bool is_dense(const Val& v) {
  if (v.elements() == 0) return true;
  int64_t n = 1;
  for (size_t i = v.dims.size(); i-- > 0;) {
    if (v.dims[i] != 1 && v.strides[i] != n) return false;
    n *= v.dims[i];
  }
  return true;
}

Val Emitter::temp(ir::DType dtype, std::vector<int64_t> dims) {
  Val v;
  v.kind = Val::Kind::Strided;
  v.dtype = dtype;
  v.strides = dense_strides(dims);
  v.dims = std::move(dims);
  allocate(&v);
  return v;
}

void Emitter::allocate(Val* v) {
  v->storage = place_->allocate(v->bytes());
  v->addr = {buffer_, Addr::kNoSlot, v->storage->offset};
}

bool same_place(const Val& a, const Val& b) {
  return a.addr == b.addr && a.strides == b.strides && a.dims == b.dims && a.dtype == b.dtype;
}

void Emitter::copy_value(const Val& dst, const Val& v) {
  if (dst.elements() == 0) return;
  emit_pending(overlaps_elsewhere(v, dst) ? materialized(v) : v, dst);
}

// Evaluates v into dst; the caller has excluded overlap.
void Emitter::emit_pending(const Val& v, const Val& dst) {
  if (dst.elements() == 0) return;
  if (v.kind == Val::Kind::Strided) return emit_copy(dst, v);
  if (v.kind == Val::Kind::Pending && v.node->kind == Node::Kind::Contraction) {
    const Node& n = *v.node;
    ContractPayload p;
    p.contraction = n.contraction;
    p.unit = n.unit;
    p.reference = plan_.options.numerics == Options::Numerics::Reference;
    p.a = n.args[0].addr;
    p.b = n.args[1].addr;
    Val target = dst;
    // C is [batch][m][n] with unit column stride; other destinations go through a temporary.
    const bool direct = is_dense(dst) || (dst.dims.size() == 2 && p.contraction.batch == 1 && dst.strides[1] == 1 &&
                                          dst.dims[0] == p.contraction.m && dst.dims[1] == p.contraction.n);
    if (!direct) target = temp(dst.dtype, dst.dims);
    p.dst = target.addr;
    if (direct && !is_dense(dst)) p.contraction.c_row = dst.strides[0];
    emit(ops::contraction, plan_.own(std::move(p))).loc = n.loc;
    plan_.step_cost_ns += 0.02 * 2.0 * static_cast<double>(p.contraction.m * p.contraction.n) *
                          static_cast<double>(p.contraction.k * p.contraction.batch);
    if (!direct) emit_copy(dst, target);
    return;
  }
  emit_elementwise(*this, dst, v, dst.origin != kNoOrigin);
}

Val Emitter::strided(const Val& v) {
  switch (v.kind) {
    case Val::Kind::Strided: return v;
    case Val::Kind::Scalar:
    case Val::Kind::Splat:
    case Val::Kind::Pending: {
      Val t = temp(v.dtype, v.dims);
      emit_pending(v, t);
      return t;
    }
    default: break;
  }
  return v;
}

Val Emitter::dense(const Val& v) {
  Val s = strided(v);
  if (is_dense(s)) {
    s.strides = dense_strides(s.dims);
    return s;
  }
  Val t = temp(v.dtype, v.dims);
  emit_copy(t, s);
  return t;
}

Val Emitter::materialized(const Val& v) {
  Val s = strided(v);
  if (s.origin == kNoOrigin) return s;
  Val t = temp(v.dtype, v.dims);
  emit_copy(t, s);
  return t;
}

uint32_t Emitter::scalar_slot(const Val& v) {
  if (v.kind == Val::Kind::Scalar || v.kind == Val::Kind::Splat) return v.slot;
  return load_scalar(strided(v)).slot;
}

Val Emitter::load_scalar(const Val& memory) {
  Val r;
  r.kind = Val::Kind::Scalar;
  r.dtype = memory.dtype;
  r.slot = new_slot();
  ScalarAccess p;
  p.addr = memory.addr;
  p.load = k_.load(memory.dtype);
  p.bytes = ir::byte_size(memory.dtype);
  p.ref = memory.name;
  emit(ops::load_scalar, plan_.own(std::move(p))).dst = r.slot;
  return r;
}

void Emitter::move_scalar(uint32_t dst, uint32_t src) {
  if (dst == src) return;
  Step& s = emit(ops::move16);
  s.dst = dst;
  s.a = src;
}

void Emitter::emit_copy(const Val& dst, const Val& src) {
  if (dst.elements() == 0) return;
  CopyPayload p;
  p.dst = dst.addr;
  p.src = src.addr;
  p.size = ir::byte_size(dst.dtype);
  p.dims = dst.dims;
  p.dst_strides = dst.strides;
  p.src_strides = src.strides;
  p.contiguous = is_dense(dst) && is_dense(src);
  p.bytes = dst.bytes();
  plan_.step_cost_ns += 20 + 0.1 * static_cast<double>(p.bytes);
  emit(ops::copy, plan_.own(std::move(p))).b = dst.origin != kNoOrigin;
}

}  // namespace pallasim::interp
