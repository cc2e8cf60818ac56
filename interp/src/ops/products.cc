// Products of matrices. Large ones are made of panels, whoever makes them: bits do not depend on the number of OS
// threads.
#include <algorithm>
#include <array>

#include "../plan/host_cost.h"
#include "bodies.h"
#include "copies.h"
#include "parts.h"

namespace pallasim::interp::ops {
namespace {

// Rows and columns of a panel; its sums run over all of k. As measured on one core (oneDNN 2.6, AVX-512), panels of
// half a matrix cost nothing up to 512 x 512 x 512 and 2 % at 1024 x 1024 x 1024; quarters cost 6 %. Smaller products
// are left whole: both halves read all of the right operand, of which a copy brought half to each core's caches. Two
// cores made 64 of 128 x 128 x 128 in 0.7 or, where they are far apart, in 1.6 times the time of one.
struct Panel {
  int64_t rows, columns;
};
// Compared with f32: 16 bits, and bytes that are whole numbers.
double speed(ir::DType t) {
  const bool byte = t == ir::DType::I8 || t == ir::DType::U8 || t == ir::DType::I4 || t == ir::DType::U4;
  return byte ? 4 : ir::byte_size(t) == 2 ? 2 : 1;
}
Panel panel_of(const Contraction& c) {
  const double work = static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  constexpr double kWhole = 1 << 24;  // 0.15 to 0.3 ms on one core
  if (work < kWhole * speed(c.in)) return {c.m, c.n};
  const auto half = [](int64_t n) { return std::clamp<int64_t>((n / 2 + 63) / 64 * 64, 128, 512); };
  return {c.m >= 256 ? half(c.m) : c.m, c.n >= (c.m >= 256 ? 1024 : 256) ? half(c.n) : c.n};
}

int64_t pieces(int64_t all, int64_t each) { return (all + each - 1) / each; }

struct Operands {
  std::byte *c, *a, *b;
};

// One panel of one matrix of the batch.
void multiply_panel(const Contraction& c, const Operands& at, int64_t batch, Share rows, Share columns) {
  Contraction part = c;
  part.batch = 1, part.m = rows.end - rows.begin, part.n = columns.end - columns.begin;
  contract(part, at.c + (batch * c.c_batch + rows.begin * c.c_row + columns.begin) * ir::byte_size(c.out),
           at.a + (batch * c.a_batch + rows.begin * c.a_row) * ir::byte_size(c.in),
           at.b + (batch * c.b_batch + columns.begin * c.b_col) * ir::byte_size(c.in_rhs));
}

// Matrices of the batch, as they are.
void multiply_batch(const Contraction& c, const Operands& at, Share batch) {
  Contraction part = c;
  part.batch = batch.end - batch.begin;
  contract(part, at.c + batch.begin * c.c_batch * ir::byte_size(c.out),
           at.a + batch.begin * c.a_batch * ir::byte_size(c.in),
           at.b + batch.begin * c.b_batch * ir::byte_size(c.in_rhs));
}

void multiply(const Execution& ex, const Contraction& c, const Operands& at) {
  const Panel panel = panel_of(c);
  const int64_t down = pieces(c.m, panel.rows), across = pieces(c.n, panel.columns), panels = down * across;
  const double ns = host_cost::kLargeProduct.of(static_cast<double>(c.batch * c.m) * static_cast<double>(c.n) *
                                                static_cast<double>(c.k)) /
                    speed(c.in);
  const int parts = c.batch * panels > 1 ? parts_of(ex, ns) : 1;
  const auto run = [&](int64_t n, const auto& part) {
    if (parts > 1 && n > 1) return ex.host.helpers->run(static_cast<int>(n), part);
    for (int64_t i = 0; i < n; ++i) part(static_cast<int>(i));
  };
  if (panels < 2) {
    const int64_t n = std::min<int64_t>(c.batch, parts > 1 ? 4 * parts : 1);
    return run(n, [&](int i) { multiply_batch(c, at, share(c.batch, i, static_cast<int>(n))); });
  }
  run(c.batch * panels, [&](int i) {
    const int64_t row = i % panels / across * panel.rows, column = i % across * panel.columns;
    multiply_panel(c, at, i / panels, {row, std::min(row + panel.rows, c.m)},
                   {column, std::min(column + panel.columns, c.n)});
  });
}

}  // namespace

static void multiply(Execution& ex, const ContractPayload& p, const Operands& at) {
  ex.progressed = true;
  if (!p.unit.plain) matrix_unit(p, at.c, at.a, at.b);
  else if (p.reference) contract(p.contraction, at.c, at.a, at.b, GemmBackend::Reference);
  else multiply(ex, p.contraction, at);
}
static void multiply(const Thread& t, const ContractPayload& p) {
  multiply(*t.exec, p, {t.resolve(p.dst), t.resolve(p.a), t.resolve(p.b)});
}

const Step* contraction(Thread& t, const Step* s) {
  multiply(t, payload<Kind::contraction>(s));
  return s + 1;
}

namespace {

memory::ProductSide side(const Thread& t, const Addr& a, ir::DType dtype, std::array<int64_t, 2> dims,
                         std::array<int64_t, 2> strides, bool held) {
  memory::ProductSide r;
  r.element_bytes = ir::byte_size(dtype);
  r.side.place = {t.index, a.buffer, a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn))};
  r.side.dims.assign(dims.begin(), dims.end());
  r.side.strides.assign(strides.begin(), strides.end());
  const memory::Span span = r.side.span(r.element_bytes);
  if (held) r.held.assign(t.resolve(a) + span.begin, t.resolve(a) + span.end);
  return r;
}

std::byte* bytes_of(const Execution& ex, const memory::ProductSide& s) {
  const memory::Place& p = s.side.place;
  if (s.held.empty()) return ex.threads[static_cast<size_t>(p.thread)].bases[p.buffer] + p.offset;
  return const_cast<std::byte*>(s.held.data()) - s.side.span(s.element_bytes).begin;  // operands are read alone
}

memory::AsyncCopy in_flight(Thread& t, const Step* s, const AsyncProductPayload& p) {
  const Contraction& c = p.contraction;
  memory::AsyncCopy r;
  r.kind = memory::AsyncCopy::Kind::Product;
  r.id = t.exec->copies_issued++;
  r.step = s->id;
  r.thread = t.index;
  r.sides.push_back(side(t, p.dst, c.out, {c.m, c.n}, {c.c_row, 1}, false));
  r.sides.push_back(side(t, p.a, c.in, {c.m, c.k}, {c.a_row, c.a_col}, p.left_in_registers));
  r.sides.push_back(side(t, p.b, c.in_rhs, {c.k, c.n}, {c.b_row, c.b_col}, p.right_in_registers));
  return r;
}

}  // namespace

void multiply_in_flight(Execution& ex, const memory::AsyncCopy& c) {
  const Step& s = ex.plan->steps[static_cast<size_t>(c.step)];
  multiply(ex, payload<Kind::wgmma>(s), {bytes_of(ex, c.sides[0]), bytes_of(ex, c.sides[1]), bytes_of(ex, c.sides[2])});
}

// Where operations move at issue there is nothing to keep: an ordinary product.
const Step* wgmma(Thread& t, const Step* s) {
  const auto& p = payload<Kind::wgmma>(s);
  Execution& ex = *t.exec;
  const int64_t stream = ex.product_stream(t.index);
  if (ex.copies_move == Options::Copies::AtIssue || p.now) {
    if (ex.copies_move != Options::Copies::AtIssue) complete_groups(ex, stream, 0);
    multiply(t, p);
    return s + 1;
  }
  memory::AsyncCopy c = in_flight(t, s, p);
  c.stream = stream;
  c.group = ex.streams.issue(stream);
  ex.streams.commit(stream);
  complete_groups(ex, stream, 1);
  ex.copies.push(std::move(c));
  ex.progressed = true;
  return s + 1;
}

const Step* await_products(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  const int64_t most = s->a == Addr::kNoSlot ? s->imm : t.slot<int32_t>(s->a), stream = ex.product_stream(t.index);
  if (ex.copies_move != Options::Copies::AtIssue) complete_groups(ex, stream, std::max<int64_t>(most, 0));
  ex.events->sync({SyncEvent::What::Products, t.index, stream, most});
  return s + 1;
}

}  // namespace pallasim::interp::ops
