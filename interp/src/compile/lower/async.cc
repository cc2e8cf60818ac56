// Asynchronous copies of the TPU: what is issued, what is waited for.
#include <algorithm>

#include "../../plan/payload/copies.h"
#include "../../plan/payload/rows.h"
#include "../../plan/steps.h"
#include "access.h"
#include "copy_forwarding.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/tiles.h"
#include "rows.h"
#include "sync.h"
#include "units.h"

namespace pallasim::interp {
namespace {

Extents extents_of(const Val& v) { return {v.dims, v.ref().extents}; }

}  // namespace

// A copy from or to a ref that is seen through other element widths, or another shape of memory with gaps.
static void copy_through(Emitter& e, const Op& op, const Val& src, const Val& dst, const Val& received, const Val& sent,
                         const DmaPayload& given) {
  if (given.add) e.unsupported(op, "an adding copy of a ref with other element widths or gaps");
  if (src.dtype != dst.dtype || src.dims.size() != dst.dims.size())
    e.unsupported(op, "a copy between refs of different types, seen with other element widths or gaps");
  if (src.dims.size() >= memory::kMaxRank) e.unsupported(op, "copy of rank " + std::to_string(src.dims.size()));
  RowCopyPayload p;
  p.peer = given.peer;
  emit_parts(e, op, src, dst, received, sent, std::move(p));
}

static void lower_dma_start(Emitter& e, const Op& op) {
  StoreForwarding stored(e, op);
  if (chooses_rows(op.viewed("src")) || chooses_rows(op.viewed("dst"))) {
    stored.store();
    return lower_row_copy(e, op);
  }
  const Val src = viewed_operand(e, op, "src", ViewUse::Copy, Recast::Keep),
            dst = viewed_operand(e, op, "dst", ViewUse::CopyTo, Recast::Keep);
  DmaPayload p;
  const Val dst_sem = viewed_operand(e, op, "dst_sem", ViewUse::Access);
  const Val src_sem = op.attr("src_sem") ? viewed_operand(e, op, "src_sem", ViewUse::Access) : Val();
  p.peer = named_unit(e, op);
  if (const Attr* add = op.attr("add")) p.add = add->is_true();
  const std::function<bool(const Val&)> copied = [&](const Val& v) {
    return v.is_recast() ||
           (v.is_choice() && std::any_of(v.ref().choice->refs.begin(), v.ref().choice->refs.end(), copied));
  };
  if (copied(src) || copied(dst))
    for (Window& w : e.body().windows) w.init_deferred = false;  // elements may move by themselves
  auto side = [&](const Val& v) {
    if (v.is_semaphore() || !v.is_ref()) e.unsupported(op, "copy of " + std::string(ir::name(v.dtype)));
    if (v.dims.size() > memory::kMaxRank) e.unsupported(op, "copy of rank " + std::to_string(v.dims.size()));
    return CopySide{v.memory().addr, extents_of(v), v.ref().valid, v.ref().gates, v.memory().strides, v.memory().name};
  };
  auto start = [&](const Val& from, const Val& to, const Val& received, const Val& sent) {
    check_writable(e, op, to);
    if (from.is_recast() || to.is_recast()) {
      stored.store();
      return copy_through(e, op, from, to, received, sent, p);
    }
    if (from.dtype != to.dtype)
      e.unsupported(op, "copy from " + std::string(ir::name(from.dtype)) + " to " + std::string(ir::name(to.dtype)));
    if (p.add && !e.kernels().strip(ir::OpCode::add, to.dtype))
      e.unsupported(op, "adding copy of " + std::string(ir::name(to.dtype)));
    p.dtype = from.dtype;
    p.src = side(from);
    p.dst = side(to);
    tell_elision(e, from, to, &p.src, &p.dst);
    p.dst_sem = semaphore_of(e, op, received);
    if (op.attr("src_sem")) p.src_sem = semaphore_of(e, op, sent);
    stored.emit({to, p.dst, p.peer}, !p.add, [&](bool forwarded) {
      p.forwarded = forwarded;
      charge_copy(e, from.dims, from.dtype);
      e.emit<Kind::dma_start>(p);
    });
  };
  if (src.is_choice() || dst.is_choice() || dst_sem.is_choice() || src_sem.is_choice()) stored.store();
  for_each_choice(e, src, [&](const Val& from) {
    for_each_choice(e, dst, [&](const Val& to) {
      for_each_choice(e, dst_sem, [&](const Val& received) {
        for_each_choice(e, src_sem, [&](const Val& sent) { start(from, to, received, sent); });
      });
    });
  });
}

static void lower_dma_wait(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val dst = chooses_rows(op.viewed("dst")) ? awaited_rows(e, op, "dst")
                                                 : viewed_operand(e, op, "dst", ViewUse::Shape, Recast::Keep);
  const Val& shown = dst.is_choice() ? dst.ref().choice->refs[0] : dst;
  DmaWaitPayload p;
  p.extents = extents_of(shown);
  p.bits = ir::bit_width(shown.dtype);
  p.name = shown.memory().name;
  // The ref says how many bytes, and nothing of it is touched: one wait may be for several copies, which bring more
  // than the ref has.
  p.most.assign(shown.ref().extents.size(), INT64_MAX);
  for_each_choice(e, viewed_operand(e, op, "dst_sem", ViewUse::Access), [&](const Val& sem) {
    p.sem = semaphore_of(e, op, sem);
    e.emit<Kind::dma_wait>(p);
  });
}

static void lower_select_ref(Emitter& e, const Op& op) {
  auto choice = std::make_shared<Choice>();
  choice->slot = scalar_slot(e, scalar_convert(e, e.operand(op, 0), ir::DType::I32));
  for (size_t i = 1; i < op.operands.size(); ++i) choice->refs.push_back(e.operand(op, i));
  const Val& first = choice->refs.front();
  Val::Ref ref;
  ref.choice = std::move(choice);
  e.define(op.results[0], {first.dtype, first.dims, std::move(ref)});
}

Rows async_rows() {
  static constexpr Row kRows[] = {
      {OpCode::dma_start, lower_dma_start}, {OpCode::dma_wait, lower_dma_wait}, {OpCode::select_ref, lower_select_ref}};
  return kRows;
}

}  // namespace pallasim::interp
