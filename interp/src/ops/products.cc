// Products of matrices. Large ones are made of panels, whoever makes them: bits do not depend on the number of OS
// threads.
#include <algorithm>
#include <array>
#include <tuple>

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

void multiply(Execution& ex, const ContractPayload& p, std::byte* c, std::byte* a, std::byte* b) {
  ex.progressed = true;
  if (!p.unit.plain) matrix_unit(p, c, a, b);
  else if (p.reference) contract(p.contraction, c, a, b, GemmBackend::Reference);
  else multiply(ex, p.contraction, {c, a, b});
}
static void multiply(const Thread& t, const ContractPayload& p) {
  multiply(*t.exec, p, t.resolve(p.dst), t.resolve(p.a), t.resolve(p.b));
}

const Step* contraction(Thread& t, const Step* s) {
  multiply(t, payload<Kind::contraction>(s));
  return s + 1;
}

namespace {

// `held`: in registers, whose bytes the operation keeps.
void add_side(const Thread& t, const Addr& a, ir::DType dtype, std::array<int64_t, 2> dims,
              std::array<int64_t, 2> strides, bool held, memory::Few<memory::Side>* to, memory::AsyncOperation* op) {
  memory::Side& side = to->add();
  side.dtype = dtype;
  side.rank = 2;
  side.place = {t.index, a.buffer, a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn))};
  if (t.exec->plan->memory.is_alias(a.buffer))
    std::tie(side.place.thread, side.place.buffer) = t.exec->stands_for(t, a.buffer);
  std::copy(dims.begin(), dims.end(), side.dims);
  std::copy(strides.begin(), strides.end(), side.strides);
  if (!held) return;
  side.held = static_cast<int64_t>(op->held.size());
  const memory::Span span = op->span(side);
  op->held.insert(op->held.end(), t.resolve(a) + span.begin, t.resolve(a) + span.end);
}

memory::AsyncOperation product_of(const Thread& t, const Step* s, const AsyncProductPayload& p) {
  const Contraction& c = p.contraction;
  memory::AsyncOperation op;
  op.kind = memory::AsyncKind::wgmma;
  op.step = s->id;
  op.thread = t.index;
  const auto accumulator = [&](memory::Few<memory::Side>* to) {
    add_side(t, p.dst, c.out, {c.m, c.n}, {c.c_row, 1}, false, to, &op);
  };
  add_side(t, p.a, c.in, {c.m, c.k}, {c.a_row, c.a_col}, p.left_in_registers, &op.reads, &op);
  add_side(t, p.b, c.in_rhs, {c.k, c.n}, {c.b_row, c.b_col}, p.right_in_registers, &op.reads, &op);
  if (c.accumulate) accumulator(&op.reads);
  accumulator(&op.writes);
  return op;
}

int64_t product_stream(const Thread& t) { return t.exec->stream_of(memory::AsyncEngine::Products, t.index); }

}  // namespace

void move_product(Execution& ex, const memory::AsyncOperation& op) {
  const auto bytes_of = [&](const memory::Side& s) {
    if (s.held < 0) return ex.threads[static_cast<size_t>(s.place.thread)].bases[s.place.buffer] + s.place.offset;
    return const_cast<std::byte*>(op.held.data()) + s.held - op.span(s).begin;  // operands are read alone
  };
  multiply(ex, payload<Kind::wgmma>(ex.plan->steps[static_cast<size_t>(op.step)]), bytes_of(op.writes[0]),
           bytes_of(op.reads[0]), bytes_of(op.reads[1]));
}

// Each product is a group of its own, and its issue awaits all before it (JAX, pallas/gpu/reference).
const Step* wgmma(Thread& t, const Step* s) {
  const auto& p = payload<Kind::wgmma>(s);
  Execution& ex = *t.exec;
  if (!in_flight(ex)) {
    multiply(t, p);
    return s + 1;
  }
  const int64_t stream = product_stream(t);
  complete_groups(ex, stream, 0);
  memory::AsyncOperation op = product_of(t, s, p);
  op.stream = stream;
  op.group = ex.streams.issue(stream);
  op.after_write.add({memory::Completion::Kind::Group, stream});
  issue(t, s, op, p.now ? Moves::Now : Moves::AsOthers);
  ex.streams.commit(stream);
  ex.events->sync({SyncEvent::What::Commit, t.index, stream});
  ex.events->sync({SyncEvent::What::Groups, t.index, stream, 1, ex.streams.last_awaited(stream, 1)});
  ex.progressed = true;
  return s + 1;
}

const Step* await_products(Thread& t, const Step* s) {
  return wait_for_groups(t, s, product_stream(t), s->a == Addr::kNoSlot ? s->imm : t.slot<int32_t>(s->a), false);
}

}  // namespace pallasim::interp::ops
