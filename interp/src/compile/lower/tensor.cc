// Tensor memory of Blackwell, and products of its pipe: asynchronous operations, whose bytes change when they are
// issued unless a schedule says otherwise. Bytes lie at the shape that the kernel sees; how the chip lays them out the
// chip's rules compare.
#include "../../plan/payload/tensor.h"

#include <optional>
#include <string>

#include "../../plan/host_cost.h"
#include "../values/affine_arrays.h"
#include "../views/views.h"
#include "access.h"
#include "barriers.h"
#include "lowering.h"
#include "matrix_unit.h"
#include "units.h"

namespace pallasim::interp {
namespace {

using Dims = std::vector<int64_t>;

std::string name_of(const Op& op) { return std::string(ir::name(op.code)); }

void check_tensor_op(Emitter& e, const Op& op, std::initializer_list<const char*> known) {
  e.plan().threads.tensor_memory = true;
  for (const auto& [key, value] : op.attrs)
    if (std::find(known.begin(), known.end(), key) == known.end())
      e.unsupported(op, name_of(op) + " with \"" + key + "\"");
}

// Nobody, or the two CTAs that share the operation.
UnitSet ctas(Emitter& e, const Op& op) {
  const Attr* axis = op.attr("collective_axis");
  if (!axis) return {};
  std::optional<UnitSet> set = units_along(e, *axis, true);
  if (!set || set->count() != 2) e.unsupported(op, name_of(op) + " along an axis that is not one of two CTAs");
  return std::move(*set);
}

CopySide side(Emitter& e, const Op& op, const Val& v, size_t rank) {
  if (!v.is_ref() || v.is_choice() || v.is_recast() || !v.ref().extents.empty())
    e.unsupported(op, name_of(op) + " of a ref that is not known before the kernel runs");
  if (v.dims.size() != rank && rank > 0)
    e.unsupported(op, name_of(op) + " with an operand of rank " + std::to_string(v.dims.size()));
  CopySide s;
  s.addr = v.memory().addr;
  s.extents.dims = v.dims;
  s.strides = v.memory().strides;
  s.name = v.memory().name;
  return s;
}

// What a view shows; `alone`: no other CTA is asked for what lies at the same place of its own.
Val shown(Emitter& e, const Op& op, const char* key, bool alone = false) {
  return viewed_operand(e, op, key, ViewUse::Access, alone ? Recast::Read : Recast::Refuse);
}

// -- products --

constexpr int64_t kScaleRows = 128;  // of tensor memory: its lanes

BlockScales scales_of(Emitter& e, const Op& op, const char* key, int64_t k, int64_t half) {
  const Val v = shown(e, op, key);
  BlockScales r;
  r.side = side(e, op, v, 2);
  r.dtype = v.dtype;
  r.half = half;
  if (v.dims[1] < 1 || k % v.dims[1] != 0) e.unsupported(op, name_of(op) + " with scales of another number of blocks");
  r.block = k / v.dims[1];
  return r;
}

bool is_f8(ir::DType t) { return t == ir::DType::F8E5M2 || t == ir::DType::F8E4M3FN; }

Contraction contraction_of(Emitter& e, const Op& op, const TensorProductPayload& p, const Val& sum, const Val& a,
                           const Val& b) {
  Contraction c;
  c.m = a.dims[0], c.k = b.dims[0], c.n = b.dims[1];
  c.in = a.dtype, c.in_rhs = b.dtype, c.out = sum.dtype;
  c.a_row = p.left.strides[0], c.a_col = p.left.strides[1];
  c.b_row = p.right.strides[0], c.b_col = p.right.strides[1];
  c.c_row = p.sum.strides[0];
  const int64_t columns = c.n * (p.ctas.elsewhere() ? 2 : 1), held = c.k / (p.sparse ? 2 : 1);
  if (a.dims[1] != held || c.k % (p.sparse ? 4 : 1) != 0 || sum.dims != Dims{c.m, columns} || p.sum.strides[1] != 1 ||
      (c.in != c.in_rhs && !(is_f8(c.in) && is_f8(c.in_rhs))))
    e.unsupported(op, name_of(op) + " of shapes or types that do not fit each other");
  return c;
}

void add_scales(Emitter& e, const Op& op, const Contraction& c, TensorProductPayload* p) {
  const bool quarter = p->ctas.elsewhere() && c.m < kScaleRows;  // scales of the pair's halves lie apart
  p->left_scales = scales_of(e, op, "a_scale", c.k, 0);
  p->right_scales = scales_of(e, op, "b_scale", c.k, quarter ? kScaleRows : c.n);
  const int64_t rows = p->ctas.elsewhere() ? p->right_scales.half + c.n : c.n;
  if (p->left_scales.side.extents.dims[0] < c.m || p->right_scales.side.extents.dims[0] < rows)
    e.unsupported(op, name_of(op) + " with scales of fewer rows");
  for (const BlockScales* s : {&p->left_scales, &p->right_scales})
    if (compute_type(s->dtype) != CType::F32 || s->block > kStrip)
      e.unsupported(op, name_of(op) + " with scales of " + std::string(ir::name(s->dtype)));
}

void add_metadata(Emitter& e, const Op& op, const Contraction& c, TensorProductPayload* p) {
  const Val v = shown(e, op, "a_sparse_metadata");
  p->metadata = side(e, op, v, 2);
  if (ir::bit_width(c.in) < 8)
    e.unsupported(op, name_of(op) + " of a sparse operand of " + std::string(ir::name(c.in)));
  if (v.dtype != ir::DType::U2 || v.dims != Dims{c.m, c.k / 2})
    e.unsupported(op, name_of(op) + " with metadata of another shape or type");
}

void add_accumulate(Emitter& e, const Op& op, TensorProductPayload* p) {
  const Val& given = e.operand(op, static_cast<size_t>(op.attr("accumulate")->i));
  if (!given.is_scalar()) e.unsupported(op, name_of(op) + " with such an \"accumulate\"");
  const Val v = scalar_convert(e, given, ir::DType::Bool);
  if (const std::optional<int64_t> known = known_int(v)) p->contraction.accumulate = *known != 0;
  else p->accumulate = scalar_slot(e, v), p->contraction.accumulate = true;
}

void lower_mma(Emitter& e, const Op& op) {
  check_tensor_op(e, op,
                  {"acc", "a", "b", "accumulate", "barrier", "a_scale", "b_scale", "a_sparse_metadata",
                   "collective_axis", "arrive", "scaled", "sparse"});
  e.about_to_write(everything());
  TensorProductPayload p;
  p.ctas = ctas(e, op);
  p.scaled = op.viewed("a_scale") != nullptr;
  p.sparse = op.viewed("a_sparse_metadata") != nullptr;
  const bool alone = !p.ctas.elsewhere();
  const Val sum = shown(e, op, "acc"), a = shown(e, op, "a", alone), b = shown(e, op, "b", alone);
  check_writable(e, op, sum);
  p.sum = side(e, op, sum, 2), p.left = side(e, op, a, 2), p.right = side(e, op, b, 2);
  p.contraction = contraction_of(e, op, p, sum, a, b);
  if (p.scaled) add_scales(e, op, p.contraction, &p);
  if (p.sparse) add_metadata(e, op, p.contraction, &p);
  add_accumulate(e, op, &p);
  if (op.viewed("barrier")) p.barrier = barrier_of(e, op);
  p.unit = accumulating_unit(e, p.contraction);
  if (!p.scaled && p.unit.aligned() && ir::bit_width(p.contraction.in) < 8)
    e.unsupported(op, name_of(op) + " of f4 without scales");
  Contraction probe = p.contraction;
  if (p.scaled) probe.in = probe.in_rhs = ir::DType::F32;
  p.reference = e.options().numerics == Options::Numerics::Reference;
  probe.m = probe.n = probe.k = 0;
  if (p.unit.plain && !contract(probe, nullptr, nullptr, nullptr))
    e.unsupported(op, name_of(op) + " of " + std::string(ir::name(p.contraction.in)) + " into " +
                          std::string(ir::name(sum.dtype)));
  const double products = static_cast<double>(p.contraction.m * p.contraction.n * p.contraction.k);
  e.plan().split.step_cost_ns += host_cost::kMatrixUnit.of(products * (alone ? 1 : 4));
  e.emit<Kind::tcgen05_mma>(std::move(p));
}

void lower_commit_arrive(Emitter& e, const Op& op) {
  check_tensor_op(e, op, {"barrier", "collective_axis"});
  e.about_to_write(everything());
  TensorCommitPayload p;
  p.ctas = ctas(e, op);
  p.barrier = barrier_of(e, op);
  e.emit<Kind::tcgen05_commit>(std::move(p));
}

// -- copies from shared memory --

TensorCopyPayload copy_of(Emitter& e, const Op& op, Dims dims, Dims from, Dims to, const Val& src, const Val& dst) {
  check_tensor_op(e, op, {"smem", "tmem", "collective_axis"});
  TensorCopyPayload p;
  p.ctas = ctas(e, op);
  p.kind = memory::AsyncKind::tmem_copy;
  p.dtype = src.dtype;
  if (src.dtype != dst.dtype) e.unsupported(op, name_of(op) + " between refs of different types");
  p.src = side(e, op, src, 0), p.dst = side(e, op, dst, 0);
  check_writable(e, op, dst);
  p.src.extents.dims = dims, p.dst.extents.dims = std::move(dims);
  p.src.strides = std::move(from), p.dst.strides = std::move(to);
  charge_copy(e, p.src.extents.dims, p.dtype);
  return p;
}

void lower_copy(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val src = shown(e, op, "smem", !op.attr("collective_axis")), dst = shown(e, op, "tmem");
  if (src.dims != dst.dims) e.unsupported(op, name_of(op) + " between refs of different shapes");
  e.emit<Kind::tmem_copy>(copy_of(e, op, src.dims, src.memory().strides, dst.memory().strides, src, dst));
}

// A tile of scales in shared memory: `lanes` rows of 16 bytes, of four rows of the matrix by four blocks along k. Rows
// come 32 by 32; the tile of a pair's halves has 64 lanes, 32 of each half of 128 rows.
void lower_copy_scales(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val src = shown(e, op, "smem"), dst = shown(e, op, "tmem");
  constexpr int64_t kLanes = 32, kRows = 4, kBlocks = 4;
  const Dims& s = src.dims;
  const bool halves = s.size() == 4 && s[0] == 1 && s[2] == 2 * kLanes;
  const int64_t tiles = halves ? 2 : s.size() == 4 ? s[0] : 0;
  if (tiles < 1 || s[3] != kRows * kBlocks || (!halves && s[2] != kLanes) ||
      dst.dims != Dims{tiles * kScaleRows, s[1] * kBlocks})
    e.unsupported(op, name_of(op) + " between refs of such shapes");
  const Dims& from = src.memory().strides;
  const Dims& to = dst.memory().strides;
  const int64_t row = to[0], column = to[1];
  e.emit<Kind::tmem_copy>(copy_of(e, op, {tiles, kRows, kLanes, s[1], kBlocks},
                                  {halves ? kLanes * from[2] : from[0], kBlocks * from[3], from[2], from[1], from[3]},
                                  {kScaleRows * row, kLanes * row, row, kBlocks * column, column}, src, dst));
}

// Tiles of 128 rows and 64 places along k.
void lower_copy_metadata(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val src = shown(e, op, "smem"), dst = shown(e, op, "tmem");
  const Dims& s = src.dims;
  if (s.size() != 4 || dst.dims != Dims{s[0] * s[2], s[1] * s[3]})
    e.unsupported(op, name_of(op) + " between refs of such shapes");
  const Dims& from = src.memory().strides;
  const Dims& to = dst.memory().strides;
  e.emit<Kind::tmem_copy>(copy_of(e, op, {s[0], s[2], s[1], s[3]}, {from[0], from[2], from[1], from[3]},
                                  {s[2] * to[0], to[0], s[3] * to[1], to[1]}, src, dst));
}

// -- registers --

void lower_tmem_load(Emitter& e, const Op& op) {
  check_tensor_op(e, op, {"ref"});
  e.about_to_write(everything());
  const Val ref = shown(e, op, "ref");
  if (op.results.size() != 1 || e.type(op.results[0])->dtype != ref.dtype || dims_of(e.type(op.results[0])) != ref.dims)
    e.unsupported(op, name_of(op) + " that gives another shape or type than the ref's");
  const Val r = e.temp(ref.dtype, ref.dims);
  TensorAccessPayload p{side(e, op, ref, 0), r.memory().addr, ref.dtype};
  charge_copy(e, ref.dims, ref.dtype);
  e.emit<Kind::tmem_load>(std::move(p));
  e.define(op.results[0], r);
}

void lower_tmem_store(Emitter& e, const Op& op) {
  check_tensor_op(e, op, {"ref", "value"});
  const Val given = e.operand(op, static_cast<size_t>(op.attr("value")->i));
  if (given.is_ref()) e.unsupported(op, name_of(op) + " of a ref");
  const Val value = dense(e, e.about_to_write(everything(), {given})[0]), ref = shown(e, op, "ref");
  if (value.dims != ref.dims || value.dtype != ref.dtype)
    e.unsupported(op, name_of(op) + " of another shape or type than the ref's");
  check_writable(e, op, ref);
  TensorAccessPayload p{side(e, op, ref, 0), value.memory().addr, ref.dtype};
  charge_copy(e, ref.dims, ref.dtype);
  e.emit<Kind::tmem_store>(std::move(p));
}

void await(Emitter& e, const Op& op, memory::AsyncEngine engine) {
  check_tensor_op(e, op, {});
  e.about_to_write(everything());
  e.emit<Kind::await_tmem>().imm = static_cast<int64_t>(engine);
}
void lower_wait_load(Emitter& e, const Op& op) { await(e, op, memory::AsyncEngine::TensorLoads); }
void lower_commit_stores(Emitter& e, const Op& op) { await(e, op, memory::AsyncEngine::TensorStores); }

}  // namespace

Rows tensor_rows() {
  static constexpr Row kRows[] = {{OpCode::tcgen05_mma, lower_mma},
                                  {OpCode::tcgen05_commit_arrive, lower_commit_arrive},
                                  {OpCode::async_copy_smem_to_tmem, lower_copy},
                                  {OpCode::async_copy_scales_to_tmem, lower_copy_scales},
                                  {OpCode::async_copy_sparse_metadata_to_tmem, lower_copy_metadata},
                                  {OpCode::async_load_tmem, lower_tmem_load},
                                  {OpCode::async_store_tmem, lower_tmem_store},
                                  {OpCode::wait_load_tmem, lower_wait_load},
                                  {OpCode::commit_tmem, lower_commit_stores}};
  return kRows;
}

}  // namespace pallasim::interp
