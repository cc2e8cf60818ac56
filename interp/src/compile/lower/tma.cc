// Bulk copies between global and shared memory (TMA).
#include "../../plan/tma.h"

#include <string>

#include "access.h"
#include "barriers.h"

namespace pallasim::interp {
namespace {

// A copy under a predicate: the steps that `body` emits run where it holds.
template <typename F>
void where(Emitter& e, const Op& op, const F& body) {
  const Attr* predicate = op.attr("predicate");
  if (!predicate) return body();
  const uint32_t slot = e.scalar_slot(e.operand(op, static_cast<size_t>(predicate->i)));
  const int branch = e.here();
  e.emit(ops::branch_if_false).a = slot;
  const Emitter::Conditional inside(e);
  body();
  e.jump_to(branch, e.here());
}

void refuse_unknown(Emitter& e, const Op& op, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : op.attrs) {
    bool found = false;
    for (const char* k : known) found = found || key == k;
    if (!found) e.unsupported(op, std::string(ir::name(op.code)) + " with \"" + key + "\"");
  }
}

CopySide side(Emitter& e, const Op& op, const Val& v) {
  if (v.is_semaphore() || !v.is_ref()) e.unsupported(op, "copy of " + std::string(ir::name(v.dtype)));
  if (v.is_choice() || v.is_recast())
    e.unsupported(op,
                  std::string(ir::name(op.code)) + " of one of several refs, or of a ref with other element widths");
  if (!v.ref().extents.empty())
    e.unsupported(op, std::string(ir::name(op.code)) + " of an extent that is known at run time only");
  if (v.dims.size() > memory::kMaxRank) e.unsupported(op, "copy of rank " + std::to_string(v.dims.size()));
  return {v.memory().addr, {v.dims, v.ref().extents}, v.ref().valid,
          v.ref().gates,   v.memory().strides,        v.memory().name};
}

BulkCopyPayload box(Emitter& e, const Op& op, bool load) {
  const Val src = viewed_operand(e, op, "src", load ? ViewUse::Box : ViewUse::Copy, Lens::Keep),
            dst = viewed_operand(e, op, "dst", load ? ViewUse::CopyTo : ViewUse::BoxTo, Lens::Keep);
  check_writable(e, op, dst);
  if (src.dtype != dst.dtype)
    e.unsupported(op, "copy from " + std::string(ir::name(src.dtype)) + " to " + std::string(ir::name(dst.dtype)));
  if (src.elements() != dst.elements() || src.dims != dst.dims)
    e.unsupported(op, std::string(ir::name(op.code)) + " between refs of different shapes");
  BulkCopyPayload p;
  p.dtype = src.dtype;
  p.src = side(e, op, src);
  p.dst = side(e, op, dst);
  return p;
}

void lower_load(Emitter& e, const Op& op) {
  refuse_unknown(e, op, {"src", "dst", "barrier", "collective_axes", "oob_mode", "predicate"});
  if (const Attr* axes = op.attr("collective_axes"); axes && !axes->items.empty())
    e.unsupported(op, "a copy to several CTAs of a cluster");
  e.about_to_write(e.everything());
  where(e, op, [&] {
    BulkCopyPayload p = box(e, op, true);
    p.barrier = barrier_of(e, op);
    e.emit(ops::kBulkLoad, e.own(std::move(p)));
  });
}

void lower_bulk_store(Emitter& e, const Op& op) {
  refuse_unknown(e, op, {"src", "dst", "commit_group", "predicate", "reduction_op"});
  e.about_to_write(e.everything());
  const Attr *reduction = op.attr("reduction_op"), *commit = op.attr("commit_group");
  where(e, op, [&] {
    BulkCopyPayload p = box(e, op, false);
    if (reduction && reduction->s != "none") {
      if (reduction->s != "add" || !e.kernels().strip(OpCode::add, p.dtype))
        e.unsupported(op, "a copy that reduces by " + reduction->s);
      p.add = true;
    }
    e.emit(ops::kBulkStore, e.own(std::move(p)));
  });
  if (!commit || commit->is_true()) e.emit(ops::commit_group);
}

void lower_commit(Emitter& e, const Op&) { e.emit(ops::commit_group); }

void lower_wait(Emitter& e, const Op& op) {
  e.about_to_write(e.everything());
  GroupWaitPayload p;
  p.most_slot = e.scalar_slot(e.scalar_convert(e.operand(op, 0), ir::DType::I32));
  if (const Attr* reads = op.attr("wait_read_only")) p.reads = reads->is_true();
  e.emit(ops::wait_groups, e.own(p));
}

void lower_fence(Emitter& e, const Op&) { e.emit(ops::fence_proxy); }

// Into a cache: nothing that a kernel can see.
void lower_prefetch(Emitter&, const Op&) {}

}  // namespace

Rows tma_rows() {
  static constexpr Row kRows[] = {
      {OpCode::copy_gmem_to_smem, lower_load}, {OpCode::copy_smem_to_gmem, lower_bulk_store},
      {OpCode::commit_group, lower_commit},    {OpCode::wait_smem_to_gmem, lower_wait},
      {OpCode::commit_smem, lower_fence},      {OpCode::async_prefetch, lower_prefetch}};
  return kRows;
}

}  // namespace pallasim::interp
