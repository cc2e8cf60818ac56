// Arrays and semaphores of all devices at once. Those of one other device are views of their refs.
#include <algorithm>

#include "../../plan/payload/copies.h"
#include "access.h"
#include "sync.h"
#include "units.h"

namespace pallasim::interp {
namespace {

// A part of an array, as one device sees it, and what to do with that of all of them.
MultimemPayload part(Emitter& e, const Op& op, bool write) {
  MultimemPayload p;
  const Val ref = viewed_operand(e, op, "ref", write ? ViewUse::CopyTo : ViewUse::Access);
  if (!is_array_of_device(e, ref) || ref.is_choice() || !ref.ref().valid.empty())
    e.unsupported(op, std::string(ir::name(op.code)) + " of memory that is no array of the device");
  if (write) check_writable(e, op, ref);
  p.devices = all_devices(e, op, *op.attr("collective_axes"));
  p.part = ref.memory().addr;
  p.dims = ref.dims;
  p.strides = ref.memory().strides;
  p.dtype = ref.dtype;
  return p;
}

void lower_store_to_all(Emitter& e, const Op& op) {
  const Val given = e.about_to_write(everything(), {e.operand(op, static_cast<size_t>(op.attr("value")->i))}).front();
  MultimemPayload p = part(e, op, true);
  if (given.dims != p.dims || given.dtype != p.dtype)
    e.unsupported(op, "multimem_store of another shape or type than the ref's");
  p.value = dense(e, given).memory().addr;
  e.emit<Kind::multimem_store>(std::move(p));
}

// What hardware can combine (PTX, multimem.ld_reduce).
bool combines(const std::string& how, ir::DType t) {
  using enum ir::DType;
  const bool narrow = t == F16 || t == BF16 || t == F8E5M2 || t == F8E4M3FN,
             integer = ir::is_int(t) && ir::bit_width(t) >= 32;
  if (how == "add") return narrow || integer || t == F32;
  if (how == "min" || how == "max") return narrow || integer;
  return integer && (how == "and" || how == "or" || how == "xor");
}

OpCode code_of(const std::string& how) {
  return how == "add"   ? OpCode::add
         : how == "min" ? OpCode::min
         : how == "max" ? OpCode::max
         : how == "and" ? OpCode::and_
         : how == "or"  ? OpCode::or_
                        : OpCode::xor_;
}

void lower_load_of_all(Emitter& e, const Op& op) {
  const Attr* how = op.attr("reduction_op");
  e.about_to_write(everything());
  MultimemPayload p = part(e, op, false);
  if (!how || !combines(how->s, p.dtype))
    e.unsupported(op,
                  "multimem_load_reduce of " + std::string(ir::name(p.dtype)) + " by " + (how ? how->s : "nothing"));
  p.combine = code_of(how->s);
  const Val r = e.temp(p.dtype, p.dims);
  p.value = r.memory().addr;
  e.emit<Kind::multimem_reduce>(std::move(p));
  e.define(op.results[0], r.dims.empty() ? load_scalar(e, r) : r);
}

void amount(Emitter& e, const Val& v, SemPayload* p) {
  p->value_slot = scalar_slot(e, v);
  p->value_wide = is_wide(v.dtype);
}

void lower_signal_all(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  SemPayload p = semaphore_of(e, op, viewed_operand(e, op, "sem", ViewUse::Access));
  p.peer = all_devices(e, op, *op.attr("collective_axes"));
  amount(e, e.operand(op, static_cast<size_t>(op.attr("inc")->i)), &p);
  e.emit<Kind::sem_signal>(std::move(p));
}

// [signal(view($0, […]), $1, $2, logical), …]: one after the other, though hardware has no order for them.
void lower_signals(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  for (const Attr& one : op.attr("signals")->items) {
    const ir::Viewed* sem = one.items.empty() ? nullptr : one.items[0].view.get();
    if (!one.is_call("signal") || !sem || one.items.size() < 2 || !one.items[1].is(Attr::Kind::Operand))
      e.unsupported(op, "such a signal");
    SemPayload p = semaphore_of(
        e, op,
        apply_view(e, op, e.operand(op, static_cast<size_t>(sem->operand)), sem->transforms, ViewUse::Access).ref);
    if (one.items.size() > 2)
      p.peer = device_named(e, op, one.items[2], one.items.size() > 3 ? one.items[3].s : std::string("logical"));
    amount(e, e.operand(op, static_cast<size_t>(one.items[1].i)), &p);
    e.emit<Kind::sem_signal>(std::move(p));
  }
}

}  // namespace

Rows peer_rows() {
  static constexpr Row kRows[] = {{OpCode::multimem_store, lower_store_to_all},
                                  {OpCode::multimem_load_reduce, lower_load_of_all},
                                  {OpCode::gpu_sem_signal_multicast, lower_signal_all},
                                  {OpCode::gpu_sem_signal_parallel, lower_signals}};
  return kRows;
}

}  // namespace pallasim::interp
