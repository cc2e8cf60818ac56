// Tensor memory of Blackwell: loads, stores and copies, and the products of its pipe. What a thread's part of the pipe
// takes is done in order; a pair of CTAs is served by its leader.
#include "../plan/payload/tensor.h"

#include <algorithm>
#include <tuple>

#include "block_scales.h"
#include "copies.h"
#include "footprint.h"
#include "units.h"

namespace pallasim::interp::ops {
namespace {

using memory::AsyncEngine, memory::AsyncKind, memory::AsyncOperation, memory::Completion, memory::Side;

// The units whose memory an operation uses, that of the leader first; none where the own CTA is not the leader.
std::vector<int32_t> ctas_of(const Thread& t, const Step* s, const UnitSet& set) {
  if (!set.elsewhere()) return {t.unit};
  std::vector<int32_t> r = units_of(t, s, set, memory::row(AsyncKind::tcgen05_mma).name);
  if (r.front() != t.unit) return {};
  for (const int32_t unit : r) begun(t, unit);
  return r;
}

// Whose part of the tensor pipe takes what the thread issues: the first warp's is that of its warpgroup, which issues
// by one of its threads.
int32_t issuer(const Thread& t) {
  if (t.parent < 0) return t.index;
  const Thread& parent = t.exec->threads[static_cast<size_t>(t.parent)];
  return &t == &t.exec->child(parent, 0) ? t.parent : t.index;
}

int64_t stream(const Thread& t, AsyncEngine engine) {
  return t.exec->stream_of(engine, engine == AsyncEngine::Tensor ? issuer(t) : t.index);
}

AsyncOperation operation(const Thread& t, const Step* s, AsyncKind kind) {
  AsyncOperation op;
  op.kind = kind;
  op.step = s->id;
  op.thread = t.index;
  if (in_flight(*t.exec)) op.stream = stream(t, memory::row(kind).engine);
  return op;
}

// Of what completes groups each operation is one of its own.
void launch(Thread& t, const Step* s, AsyncOperation& op) {
  Execution& ex = *t.exec;
  const bool groups = memory::row(op.kind).after_write == Completion::Kind::Group;
  const int64_t of = op.stream;
  if (of >= 0) op.group = ex.streams.issue(of);
  if (of >= 0 && groups) op.after_write.add({Completion::Kind::Group, of});
  issue(t, s, op);
  ex.progressed = true;
  if (of < 0 || !groups) return;
  ex.streams.commit(of);
  ex.events->sync({SyncEvent::What::Commit, t.index, of});
}

// A side of what the issuer does in the memory of `thread`.
void add_side(const Thread& t, int32_t thread, const CopySide& from, ir::DType dtype, memory::Few<Side>* to) {
  Side& side = to->add();
  side.dtype = dtype;
  side.rank = static_cast<int>(from.strides.size());
  side.set_dims(from.extents.dims.data());
  std::copy(from.strides.begin(), from.strides.end(), side.strides);
  const Addr& a = from.addr;
  side.place = {thread, a.buffer, a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn))};
  if (t.exec->plan->memory.is_alias(a.buffer))
    std::tie(side.place.thread, side.place.buffer) = t.exec->stands_for(t, a.buffer);
}

void arrive_after(const Thread& t, const BarrierPayload& barrier, const std::vector<int32_t>& ctas,
                  AsyncOperation* op) {
  if (barrier.block < 0) return;
  for (const int32_t cta : ctas) op->after_write.add({Completion::Kind::Barrier, barrier_id(t, barrier, cta), 1});
}

std::byte* bytes_of(const Execution& ex, const Side& s) {
  return ex.threads[static_cast<size_t>(s.place.thread)].bases[s.place.buffer] + s.place.offset;
}

// -- products --

// What a product reads of each CTA, in this order; the sums, where it adds to them, come last.
struct Reads {
  size_t ctas = 1, left = 0, right = 0, left_scales = 0, right_scales = 0, metadata = 0, sums = 0;
  Reads(const TensorProductPayload& p, size_t n) : ctas(n) {
    right = n;
    left_scales = 2 * n;
    right_scales = left_scales + (p.scaled ? n : 0);
    metadata = right_scales + (p.scaled ? n : 0);
    sums = metadata + (p.sparse ? n : 0);
  }
};

// An operand in row-major order, with what the pipe does to its elements done.
struct Prepared {
  std::vector<std::byte> bytes;
  ir::DType dtype = ir::DType::F32;
};

// Where the metadata of row i's place q along k lies: elements of 16 bits swap bit 3 of the two (PTX ISA, sparsity
// selectors of .kind::f16).
std::pair<int64_t, int64_t> metadata_place(int64_t i, int64_t q, int bits) {
  if (bits != 16) return {i, q};
  constexpr int64_t kBit = 8;
  return {(i & ~kBit) | (q & kBit), (q & ~kBit) | (i & kBit)};
}

// The left operand of m x k: of four elements along k the two that the metadata name are there, and the others are 0.
Prepared expanded(const Execution& ex, const Side& from, const Side& metadata, int64_t k) {
  Prepared r{{}, from.dtype};
  const int64_t size = ir::byte_size(from.dtype), m = from.dims[0], held = from.dims[1];
  r.bytes.resize(static_cast<size_t>(m * k * size));
  const std::byte *values = bytes_of(ex, from), *which = bytes_of(ex, metadata);
  constexpr int64_t kGroup = 4, kKept = 2;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t q = 0; q < held; ++q) {
      const auto [row, column] = metadata_place(i, q, ir::bit_width(from.dtype));
      const auto at =
          static_cast<int64_t>(which[row * metadata.strides[0] + column * metadata.strides[1]]) & (kGroup - 1);
      std::copy_n(values + (i * from.strides[0] + q * from.strides[1]) * size, size,
                  r.bytes.data() + (i * k + q / kKept * kGroup + at) * size);
    }
  return r;
}

// A left operand and the columns of a right one, as they are multiplied.
struct Factors {
  std::byte *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  ir::DType dtype, dtype_b;
};

class TensorProduct {
 public:
  TensorProduct(Execution& ex, const AsyncOperation& op)
      : ex_(ex),
        op_(op),
        p_(payload<Kind::tcgen05_mma>(ex.plan->steps[static_cast<size_t>(op.step)])),
        reads_(p_, op.writes.size()) {}

  void run() {
    for (size_t cta = 0; cta < reads_.ctas; ++cta) {
      if (p_.sparse) dense_ = expanded(ex_, read(reads_.left, cta), read(reads_.metadata, cta), p_.contraction.k);
      for (size_t of = 0; of < reads_.ctas; ++of) multiply_half(cta, of);
    }
  }

 private:
  const Side& read(size_t first, size_t cta) const { return op_.reads[first + cta]; }

  // The sum's columns that are those of the right operand of CTA `of`.
  void multiply_half(size_t cta, size_t of) {
    ContractPayload c;
    c.contraction = p_.contraction;
    c.unit = p_.unit;
    c.reference = p_.reference;
    c.contraction.accumulate = op_.reads.size() > reads_.sums;
    const Factors f = factors(cta, of);
    c.contraction.a_row = f.a_row, c.contraction.a_col = f.a_col;
    c.contraction.b_row = f.b_row, c.contraction.b_col = f.b_col;
    std::byte* const sum =
        bytes_of(ex_, op_.writes[cta]) + static_cast<int64_t>(of) * c.contraction.n * ir::byte_size(c.contraction.out);
    if (p_.scaled) multiply_scaled(ex_, c, sum, scaled(f, cta, of));
    else multiply(ex_, c, sum, f.a, f.b);
  }

  Factors factors(size_t cta, size_t of) {
    const Side &a = read(reads_.left, cta), &b = read(reads_.right, of);
    Factors f{bytes_of(ex_, a), bytes_of(ex_, b), a.strides[0], a.strides[1],
              b.strides[0],     b.strides[1],     a.dtype,      b.dtype};
    if (p_.sparse) f.a = dense_.bytes.data(), f.a_row = p_.contraction.k, f.a_col = 1;
    return f;
  }

  // The scales of all columns lie in each CTA's own memory.
  ScaledProduct scaled(const Factors& f, size_t cta, size_t of) {
    const Side &left = read(reads_.left_scales, cta), &right = read(reads_.right_scales, cta);
    const int64_t skipped = static_cast<int64_t>(of) * p_.right_scales.half * right.strides[0];
    const auto operand = [&](const std::byte* at, ir::DType dtype, int64_t row, int64_t column, const Side& scales,
                             int64_t first, int64_t block) {
      return ScaledOperand{at,
                           dtype,
                           row,
                           column,
                           bytes_of(ex_, scales) + first * ir::byte_size(scales.dtype),
                           scales.dtype,
                           scales.strides[0],
                           scales.strides[1],
                           block};
    };
    return {operand(f.a, f.dtype, f.a_row, f.a_col, left, 0, p_.left_scales.block),
            operand(f.b, f.dtype_b, f.b_col, f.b_row, right, skipped, p_.right_scales.block)};
  }

  Execution& ex_;
  const AsyncOperation& op_;
  const TensorProductPayload& p_;
  const Reads reads_;
  Prepared dense_;
};

}  // namespace

void move_tensor_product(Execution& ex, const AsyncOperation& op) { TensorProduct(ex, op).run(); }

const Step* tcgen05_mma(Thread& t, const Step* s) {
  const auto& p = payload<Kind::tcgen05_mma>(s);
  const std::vector<int32_t> ctas = ctas_of(t, s, p.ctas);
  if (ctas.empty()) return s + 1;
  AsyncOperation op = operation(t, s, AsyncKind::tcgen05_mma);
  const auto add = [&](const CopySide& side, ir::DType dtype, memory::Few<Side>* to) {
    for (const int32_t cta : ctas) add_side(t, cta, side, dtype, to);
  };
  add(p.left, p.contraction.in, &op.reads);
  add(p.right, p.contraction.in_rhs, &op.reads);
  if (p.scaled) add(p.left_scales.side, p.left_scales.dtype, &op.reads);
  if (p.scaled) add(p.right_scales.side, p.right_scales.dtype, &op.reads);
  if (p.sparse) add(p.metadata, ir::DType::U2, &op.reads);
  if (p.accumulate == Addr::kNoSlot ? p.contraction.accumulate : t.slot<uint8_t>(p.accumulate) != 0)
    add(p.sum, p.contraction.out, &op.reads);
  add(p.sum, p.contraction.out, &op.writes);
  arrive_after(t, p.barrier, ctas, &op);
  launch(t, s, op);
  tell_of_barriers(t, s);
  return s + 1;
}

const Step* tcgen05_commit(Thread& t, const Step* s) {
  const auto& p = payload<Kind::tcgen05_commit>(s);
  const std::vector<int32_t> ctas = ctas_of(t, s, p.ctas);
  if (ctas.empty()) return s + 1;
  AsyncOperation op = operation(t, s, AsyncKind::tcgen05_commit);
  arrive_after(t, p.barrier, ctas, &op);
  launch(t, s, op);
  tell_of_barriers(t, s);
  return s + 1;
}

// -- copies, loads and stores --

const Step* tmem_copy(Thread& t, const Step* s) {
  const auto& p = payload<Kind::tmem_copy>(s);
  for (const int32_t cta : ctas_of(t, s, p.ctas)) {
    AsyncOperation op = operation(t, s, AsyncKind::tmem_copy);
    add_side(t, cta, p.src, p.dtype, &op.reads);
    add_side(t, cta, p.dst, p.dtype, &op.writes);
    launch(t, s, op);
  }
  return s + 1;
}

// The registers have it at once; that memory was read is known to who waited for it.
const Step* tmem_load(Thread& t, const Step* s) {
  const auto& p = payload<Kind::tmem_load>(s);
  const std::vector<int64_t>& dims = p.memory.extents.dims;
  copy_strided(t.resolve(p.registers), dense_strides(dims).data(), t.resolve(p.memory.addr), p.memory.strides.data(),
               dims.data(), static_cast<int>(dims.size()), ir::byte_size(p.dtype));
  if (!in_flight(*t.exec)) return s + 1;
  AsyncOperation op = operation(t, s, AsyncKind::tmem_load);
  add_side(t, t.unit, p.memory, p.dtype, &op.reads);
  launch(t, s, op);
  return s + 1;
}

const Step* tmem_store(Thread& t, const Step* s) {
  const auto& p = payload<Kind::tmem_store>(s);
  const std::vector<int64_t>& dims = p.memory.extents.dims;
  const std::byte* registers = t.resolve(p.registers);
  if (!in_flight(*t.exec)) {
    copy_strided(t.resolve(p.memory.addr), p.memory.strides.data(), registers, dense_strides(dims).data(), dims.data(),
                 static_cast<int>(dims.size()), ir::byte_size(p.dtype));
    return s + 1;
  }
  AsyncOperation op = operation(t, s, AsyncKind::tmem_store);
  add_side(t, t.unit, p.memory, p.dtype, &op.writes);
  int64_t bytes = ir::byte_size(p.dtype);
  for (const int64_t d : dims) bytes *= d;
  op.held.assign(registers, registers + bytes);
  launch(t, s, op);
  return s + 1;
}

const Step* await_tmem(Thread& t, const Step* s) {
  if (!in_flight(*t.exec)) return s + 1;
  return wait_for_groups(t, s, stream(t, static_cast<AsyncEngine>(s->imm)), 0, false);
}

void tmem_load_footprint(Thread&, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::tmem_load>(s);
  const std::vector<int64_t>& dims = p.memory.extents.dims;
  out.read(p.memory.addr, dims, p.memory.strides, ir::byte_size(p.dtype));
  out.internal(p.registers, dims, dense_strides(dims), ir::byte_size(p.dtype), true);
}

// What is written is told with the operation, where one is in flight.
void tmem_store_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::tmem_store>(s);
  const std::vector<int64_t>& dims = p.memory.extents.dims;
  out.internal(p.registers, dims, dense_strides(dims), ir::byte_size(p.dtype), false);
  if (!in_flight(*t.exec)) out.write(p.memory.addr, dims, p.memory.strides, ir::byte_size(p.dtype));
}

}  // namespace pallasim::interp::ops
