#include <algorithm>

#include "../plan/host_cost.h"
#include "../plan/payload/arithmetic.h"
#include "bodies.h"
#include "pallasim/memory/odometer.h"
#include "parts.h"
#include "row_program.h"

namespace pallasim::interp::ops {
namespace {

void splat(std::byte* dst, const std::byte* value, int size, int64_t n) {
  switch (size) {
    case 1: std::memset(dst, static_cast<int>(*value), static_cast<size_t>(n)); return;
    case 4: std::fill_n(reinterpret_cast<uint32_t*>(dst), n, *reinterpret_cast<const uint32_t*>(value)); return;
    case 8: std::fill_n(reinterpret_cast<uint64_t*>(dst), n, *reinterpret_cast<const uint64_t*>(value)); return;
    default:
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * size, value, static_cast<size_t>(size));
  }
}

struct Row {
  std::byte* at;
};

// One row: the innermost loop in strips.
void run_row(const EltProgram& p, void** entry, const Row* rows, std::byte* dst, int64_t inner, int64_t strip) {
  for (int64_t i = 0; i < inner; i += strip) {
    const int64_t n = std::min(strip, inner - i);
    for (size_t o = 0; o < p.operands.size(); ++o) {
      const EltOperand& x = p.operands[o];
      std::byte* at = rows[o].at + i * x.strides.back() * x.element_bytes;
      if (x.load) x.load(entry[x.entry], at, x.one ? 1 : n, x.strides.back());
      else entry[x.entry] = at;
    }
    std::byte* out = dst + i * p.dst_strides.back() * p.dst_bytes;
    if (!p.store) entry[p.result] = out;
    for (const EltOp& op : p.ops) {
      if (op.convert) op.convert(entry[op.dst], entry[op.a], n, op.params.semantics);
      else op.fn(entry[op.dst], entry[op.a], entry[op.b], entry[op.c], n, op.params);
    }
    if (p.store) p.store(out, entry[p.result], n, p.dst_strides.back());
  }
}

int64_t strip_of(const EltProgram& p) { return p.complex ? kStrip / 2 : kStrip; }

// Where the registers of the program are, and what is the same in all elements.
void fill_entries(const Thread& t, const EltProgram& p, std::byte* strips, void** entry) {
  for (int i = 0; i < p.strips; ++i) entry[i] = strips + i * kStripBytes;
  for (const EltSplat& e : p.splats)
    if (e.one) entry[e.entry] = t.arena + e.slot;
    else
      splat(static_cast<std::byte*>(entry[e.entry]), t.arena + e.slot, byte_size(e.ctype),
            std::min(strip_of(p), p.dims.back()));
}

// The elements whose index in dimension `along` lies in the share.
void run_share(Thread& t, const EltProgram& p, std::byte* strips, size_t along, Share part) {
  void* entry[kMaxEntries];
  fill_entries(t, p, strips, entry);
  const int64_t strip = strip_of(p);
  Row rows[kMaxEntries];
  std::byte* dst = t.resolve(p.dst);
  const auto moved = [&](size_t d, int64_t by) {
    for (size_t o = 0; o < p.operands.size(); ++o)
      rows[o].at += by * p.operands[o].strides[d] * p.operands[o].element_bytes;
    dst += by * p.dst_strides[d] * p.dst_bytes;
  };
  for (size_t o = 0; o < p.operands.size(); ++o) rows[o].at = t.resolve(p.operands[o].addr);
  if (part.begin > 0) moved(along, part.begin);
  const auto size = [&](size_t d) { return d == along ? part.end - part.begin : p.dims[d]; };
  const size_t outer = p.dims.size() - 1;
  const int64_t inner = size(outer);
  memory::IndexVector index(outer);
  do run_row(p, entry, rows, dst, inner, strip);
  while (outer > 0 && memory::next_index(index, outer, size, moved));
}

}  // namespace

RowProgram::RowProgram(Thread& t, const EltProgram& p) : p_(p) {
  fill_entries(t, p, t.strips, entry_);
  for (size_t o = 0; o < p.operands.size(); ++o) at_[o] = t.resolve(p.operands[o].addr);
}

void RowProgram::run(const int64_t* index, int64_t begin, int64_t end, std::byte* dst) {
  Row rows[kMaxEntries];
  for (size_t o = 0; o < p_.operands.size(); ++o) {
    const EltOperand& x = p_.operands[o];
    int64_t element = begin * x.strides.back();
    for (size_t d = 0; d + 1 < x.strides.size(); ++d) element += index[d] * x.strides[d];
    rows[o].at = at_[o] + element * x.element_bytes;
  }
  run_row(p_, entry_, rows, dst, end - begin, strip_of(p_));
}

void compute(Thread& t, const EltProgram& p) {
  Execution& ex = *t.exec;
  ex.progressed |= p.writes_memory;
  const int parts = parts_of(ex, p.ns);
  if (parts < 2) return run_share(t, p, t.strips, 0, {0, p.dims[0]});
  const size_t inner = p.dims.size() - 1;
  const size_t along = shared_dim(p.dims, parts);
  ex.host.make_strips(parts);
  ex.host.helpers->run(parts, [&](int i) {
    const Share part = share(p.dims[along], i, parts, along == inner ? kStrip : 1);
    if (part.begin < part.end) run_share(t, p, ex.host.strips_of(i), along, part);
  });
}

const Step* elementwise(Thread& t, const Step* s) {
  compute(t, payload<Kind::elementwise>(s));
  return s + 1;
}

const Step* reduce(Thread& t, const Step* s) {
  const auto& p = payload<Kind::reduce>(s);
  std::byte *dst = t.resolve(p.dst), *src = t.resolve(p.src);
  const int64_t to = p.inner * p.element_bytes, from = p.reduce * to;  // of one outer index, bytes
  const int parts = parts_of(*t.exec, host_cost::kLargeReduce.of(static_cast<double>(p.outer * from)));
  const auto run = [&](Share o) {
    p.fn(dst + o.begin * to, src + o.begin * from, o.end - o.begin, p.reduce, p.inner, p.semantics);
  };
  if (parts > 1 && p.outer >= parts) t.exec->host.helpers->run(parts, [&](int i) { run(share(p.outer, i, parts)); });
  else run({0, p.outer});
  return s + 1;
}

const Step* arg_reduce(Thread& t, const Step* s) {
  const auto& p = payload<Kind::arg_reduce>(s);
  p.arg(t.resolve(p.dst), p.index, t.resolve(p.src), p.outer, p.reduce, p.inner);
  return s + 1;
}

const Step* cumulative(Thread& t, const Step* s) {
  const auto& p = payload<Kind::cumulative>(s);
  p.cumulative(t.resolve(p.dst), t.resolve(p.src), p.outer, p.reduce, p.inner, p.reverse, p.semantics);
  return s + 1;
}

}  // namespace pallasim::interp::ops
