// Values and their memory: temporaries, copies, evaluation.
#include <algorithm>
#include <stdexcept>

#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../../plan/payload/movement.h"
#include "../../plan/steps.h"
#include "elementwise.h"
#include "emitter.h"

namespace pallasim::interp {

namespace {
[[noreturn]] void has_no(const char* what) { throw std::logic_error(std::string("a value without ") + what); }
}  // namespace

const Val::Uniform& Val::scalar() const {
  if (const auto* s = std::get_if<Scalar>(&form_)) return *s;
  if (const auto* s = std::get_if<Splat>(&form_)) return *s;
  has_no("a scalar");
}

const Val::Memory& Val::memory() const {
  if (const auto* m = std::get_if<Strided>(&form_)) return *m;
  if (const auto* m = std::get_if<Ref>(&form_)) return *m;
  has_no("memory");
}

const Val::Ref& Val::ref() const {
  if (const auto* r = std::get_if<Ref>(&form_)) return *r;
  has_no("a ref");
}

const Val::Pending& Val::node() const {
  if (const auto* n = std::get_if<Pending>(&form_)) return *n;
  has_no("an operation");
}

Val Val::spread(std::vector<int64_t> shape) const {
  if (shape.empty()) return {dtype, {}, Scalar{scalar()}};
  return {dtype, std::move(shape), Splat{scalar()}};
}

Val Val::as_strided() const { return {dtype, dims, Strided{memory()}}; }

bool is_dense(const Val& v) {
  if (v.elements() == 0) return true;
  int64_t n = 1;
  for (size_t i = v.dims.size(); i-- > 0;) {
    if (v.dims[i] != 1 && v.memory().strides[i] != n) return false;
    n *= v.dims[i];
  }
  return true;
}

bool same_place(const Val& a, const Val& b) {
  return a.memory().addr == b.memory().addr && a.memory().strides == b.memory().strides && a.dims == b.dims &&
         a.dtype == b.dtype;
}

namespace {
// A product writes [batch][m][n] with unit column stride; other destinations go through a temporary.
bool has_rows_of(const Node& n, const Val& dst) {
  const Contraction& c = std::get<Into::Product>(n.into->form).contraction;
  return is_dense(dst) || (dst.dims.size() == 2 && c.batch == 1 && dst.memory().strides[1] == 1 && dst.dims[0] == c.m &&
                           dst.dims[1] == c.n);
}
}  // namespace

// What it is made of are its own steps; that it goes straight to memory is the operation at hand.
static void emit_node_into(Emitter& e, const Node& n, const Val& dst) {
  const bool stored = dst.origin() != kNoOrigin, product = std::holds_alternative<Into::Product>(n.into->form);
  const bool direct = product ? has_rows_of(n, dst) : !n.into->wants_dense() || is_dense(dst);
  const Val target = direct ? dst.as_strided() : e.temp(dst.dtype, dst.dims);
  {
    const Emitter::At at(e, n.source);
    emit_into(e, *n.into, n.args, target);
  }
  if (!direct) return emit_copy(e, dst, target);
  if (!stored) return;
  if (!product) return count(Rewrite::ArrangedInPlace);
  const Op* const both[] = {e.op(), n.source};
  if (e.op() && n.source && n.source != e.op()) e.plan().step_ops.replace(both);
}

void copy_value(Emitter& e, const Val& dst, const Val& v) {
  if (dst.elements() == 0) return;
  emit_pending(e, e.live().overlaps_elsewhere(v, dst) ? materialized(e, v) : v, dst);
}

void emit_pending(Emitter& e, const Val& v, const Val& dst) {
  if (dst.elements() == 0) return;
  if (v.is_strided()) return emit_copy(e, dst, v);
  if (v.is_pending() && !v.node()->elementwise()) return emit_node_into(e, *v.node(), dst);
  emit_elementwise(e, dst, v, dst.origin() != kNoOrigin);
}

void define_into(Emitter& e, ir::ValueId id, std::vector<Val> args, Into into) {
  const ir::Type* t = e.type(id);
  std::vector<int64_t> dims = dims_of(t);
  const bool product = std::holds_alternative<Into::Product>(into.form);
  auto n = std::make_shared<Node>();
  n->kind = Node::Kind::Into;
  n->dtype = t->dtype;
  n->args = std::move(args);
  n->into = std::make_shared<const Into>(std::move(into));
  n->source = e.op();
  Val v{t->dtype, std::move(dims), std::move(n)};
  // What checked runs report of an operation is reported of its own step.
  if (v.dims.empty()) v = load_scalar(e, strided(e, v), id);
  else if (e.options().checked && !product) v = strided(e, v);
  e.define(id, std::move(v));
}

Val strided(Emitter& e, const Val& v) {
  switch (v.kind()) {
    case Val::Kind::Strided: return v;
    case Val::Kind::Scalar:
    case Val::Kind::Splat:
    case Val::Kind::Pending: {
      Val t = e.temp(v.dtype, v.dims);
      emit_pending(e, v, t);
      return t;
    }
    default: break;
  }
  return v;
}

Val dense(Emitter& e, const Val& v) {
  Val s = strided(e, v);
  if (is_dense(s)) {
    s.memory().strides = dense_strides(s.dims);
    return s;
  }
  Val t = e.temp(v.dtype, v.dims);
  emit_copy(e, t, s);
  return t;
}

Val materialized(Emitter& e, const Val& v) {
  Val s = strided(e, v);
  if (s.origin() == kNoOrigin) return s;
  Val t = e.temp(v.dtype, v.dims);
  emit_copy(e, t, s);
  return t;
}

void charge_copy(Emitter& e, std::span<const int64_t> dims, ir::DType dtype) {
  double bytes = ir::byte_size(dtype);
  for (int64_t d : dims) bytes *= static_cast<double>(d);
  e.plan().split.step_cost_ns += host_cost::kCopy.of(bytes);
}

void emit_copy(Emitter& e, const Val& dst, const Val& src, bool looks) {
  if (dst.elements() == 0) return;
  CopyPayload p;
  p.looks = looks;
  p.dst = dst.memory().addr;
  p.src = src.memory().addr;
  p.size = ir::byte_size(dst.dtype);
  p.dims = dst.dims;
  p.dst_strides = dst.memory().strides;
  p.src_strides = src.memory().strides;
  p.contiguous = is_dense(dst) && is_dense(src);
  p.bytes = dst.bytes();
  charge_copy(e, dst.dims, dst.dtype);
  e.emit<Kind::copy>(std::move(p)).b = dst.origin() != kNoOrigin;
}

}  // namespace pallasim::interp
