#include "footprint.h"

#include <algorithm>
#include <array>

#include "../plan/payload/arithmetic.h"
#include "../plan/payload/array.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/nans.h"
#include "../plan/payload/print.h"
#include "bodies.h"

namespace pallasim::interp::ops {

void Boxes::add(const Addr& a, const Dims& dims, const Dims& strides, int bytes, bool write, bool temporary) {
  if (a.buffer < kTempBuffer || std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  const int64_t offset = a.offset + (a.dyn == Addr::kNoSlot ? 0 : t_.slot<int64_t>(a.dyn));
  Access access{t_.index, a.buffer, write, offset, dims.data(), strides.data(), static_cast<int>(dims.size()),
                bytes,    &s_};
  access.loc = a.loc >= 0 ? a.loc : t_.exec->plan->loc_of(s_);
  box(access, temporary);
}

void footprint(const EltProgram& p, Boxes& out) {
  for (const EltOperand& o : p.operands) out.read(o.addr, p.dims, o.strides, o.element_bytes);
  out.write(p.dst, p.dims, p.dst_strides, p.dst_bytes);
}

namespace {

void boxes(const EltProgram& p, const Step&, Boxes& out) { footprint(p, out); }

void boxes(const CopyPayload& p, const Step&, Boxes& out) {
  if (p.looks) {
    out.temporary(p.src, p.dims, p.src_strides, p.size, false);
    return out.temporary(p.dst, p.dims, p.dst_strides, p.size, true);
  }
  out.read(p.src, p.dims, p.src_strides, p.size);
  out.write(p.dst, p.dims, p.dst_strides, p.size);
}

// Memory that is made fresh is nobody's write.
void boxes(const FillPayload& p, const Step&, Boxes& out) {
  if (p.name.empty()) out.temporary(p.dst, p.dims, p.strides, p.size, true);
}

void boxes(const ReducePayload& p, const Step& s, Boxes& out) {
  const int64_t results = p.outer * p.inner * (s.kind == Kind::cumulative ? p.reduce : 1);
  out.read(p.src, {p.outer * p.reduce * p.inner}, {1}, p.element_bytes);
  out.temporary(p.dst, {results}, {1}, s.kind == Kind::arg_reduce ? ir::byte_size(p.index) : p.element_bytes, true);
}

void boxes(const ContractPayload& p, const Step&, Boxes& out) {
  const Contraction& c = p.contraction;
  out.read(p.a, {c.batch, c.m, c.k}, {c.a_batch, c.a_row, c.a_col}, ir::byte_size(c.in));
  out.read(p.b, {c.batch, c.k, c.n}, {c.b_batch, c.b_row, c.b_col}, ir::byte_size(c.in_rhs));
  if (c.accumulate) out.read(p.dst, {c.batch, c.m, c.n}, {c.c_batch, c.c_row, 1}, ir::byte_size(c.out));
  out.write(p.dst, {c.batch, c.m, c.n}, {c.c_batch, c.c_row, 1}, ir::byte_size(c.out));
}

void boxes(const ArrayPayload& p, const Step& s, Boxes& out) {
  for (const ArrayArg& a : p.in) out.read(a.addr, {a.elements}, {1}, a.element_bytes);
  for (const ArrayArg& a : p.out)
    if (s.imm) out.write(a.addr, {a.elements}, {1}, a.element_bytes);
    else out.temporary(a.addr, {a.elements}, {1}, a.element_bytes, true);
}

void boxes(const PrintPayload& p, const Step&, Boxes& out) {
  for (const PrintPayload::Arg& a : p.args)
    if (!a.scalar) out.temporary(a.addr, a.dims, dense_strides(a.dims), ir::byte_size(a.dtype), false);
}

// The operation told of its own accesses.
void boxes(const NanPayload& p, const Step&, Boxes& out) {
  const auto look = [&](const NanPayload::Array& a) {
    if (!a.scalar) out.temporary(a.addr, a.dims, a.strides, ir::byte_size(a.dtype), false);
  };
  look(p.result);
  for (const NanPayload::Array& a : p.operands) look(a);
}

using Function = void (*)(const Step&, Boxes&);
template <Kind k, Footprint>
constexpr Function kFunction = nullptr;
template <Kind k>
constexpr Function kFunction<k, Footprint::Static> = [](const Step& s, Boxes& out) { boxes(payload<k>(s), s, out); };

constexpr std::array<Function, kKinds> kFunctions{{
#define STEP(kind, payload, flow, definedness, uses, sides, traits, visible, work, footprint) \
  kFunction<Kind::kind, Footprint::footprint>,
#include "../plan/steps.def"
}};

// To who listens.
class Telling : public Boxes {
 public:
  Telling(Thread& t, const Step* s) : Boxes(t, *s), t_(t) {}

 private:
  void box(const Access& a, bool temporary) override {
    if (!t_.exec->tells(a.buffer)) return;
    for (Listener* l : t_.exec->listeners)
      if (temporary) l->on_temporary(*t_.exec, a);
      else l->on_access(*t_.exec, a);
  }
  Thread& t_;
};

}  // namespace

void footprint(const Thread&, const Step& s, Boxes& out) {
  if (const Function f = kFunctions[static_cast<size_t>(s.kind)]) f(s, out);
}

void tell(Thread& t, const Step* s) {
  if (t.exec->listeners.empty()) return;
  if (s->kind == Kind::wgmma)
    for (Listener* l : t.exec->listeners) l->on_product(*t.exec, t, *s);
  Telling to(t, s);
  footprint(t, *s, to);
}

void tell(Thread& t, const Step* s, const EltProgram& p) {
  Telling to(t, s);
  footprint(p, to);
}

}  // namespace pallasim::interp::ops
