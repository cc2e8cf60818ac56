// Asynchronous copies of the TPU: what is issued, what is waited for.
#include <algorithm>

#include "../../plan/steps.h"
#include "../compiler.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/tiles.h"

namespace pallasim::interp {
namespace {

Extents extents_of(const Val& v) { return {v.dims, v.extents}; }

}  // namespace

// Where arrays lie in whole tiles, copies may name the padding.
void Compiler::add_tile_padding(Val* ref, ir::Space space) const {
  if (model_.spaces[space].layout != hw::Layout::Tiles || ref->dims.empty() || ref->semaphore >= 0) return;
  if (plan_.options.padding == Options::Padding::Nobody) return;
  std::vector<int64_t> padding = hw::tile_padding(ref->dtype, ref->dims);
  if (std::any_of(padding.begin(), padding.end(), [](int64_t n) { return n > 0; })) ref->padding = std::move(padding);
}

// The slot that says how much of a slice of dim `d` exists, kNoSlot where all of it does.
uint32_t Compiler::valid_slot(const Val& ref, size_t d, const IndexTerm* term, int64_t start, int64_t size,
                              uint32_t size_slot) {
  const bool partial = !ref.valid.empty() && ref.valid[d] != Addr::kNoSlot;
  const bool padded = term ? term->padding > 0 : !ref.padding.empty() && ref.padding[d] > 0;
  if (!partial && (!padded || (!term && start + size <= ref.dims[d]))) return Addr::kNoSlot;
  ValidPayload p{};
  p.extent = ref.dims[d];
  p.extent_slot = partial ? ref.valid[d] : Addr::kNoSlot;
  p.start = start;
  p.start_slot = term ? term->slot : Addr::kNoSlot;
  p.wide = term && term->wide;
  p.size = size;
  p.size_slot = size_slot;
  const uint32_t slot = new_slot();
  emit(ops::valid_extent, plan_.own(p)).dst = slot;
  return slot;
}

Val Compiler::viewed_operand(const Op& op, const char* key, ViewUse use, Lens lens) {
  const Attr& view = *op.attr(key);
  return apply_view_to_each(op, operand(op, static_cast<size_t>(view.items[0].i)), &view.items[1], use, lens);
}

// The view of a ref, or of each of those that it may be.
Val Compiler::apply_view_to_each(const Op& op, const Val& ref, const Attr* view, ViewUse use, Lens lens) {
  if (!ref.choice) return apply_view(op, ref, view, use, lens).ref;
  Val v = ref;
  v.choice = std::make_shared<Choice>(*ref.choice);
  for (Val& r : v.choice->refs) r = apply_view_to_each(op, r, view, use, lens);
  return v;
}

SemPayload Compiler::semaphore_of(const Op& op, const Val& v) {
  if (v.semaphore < 0)
    unsupported(op, std::string(ir::name(op.code)) + " with a semaphore of type " + std::string(ir::name(v.dtype)));
  SemPayload p;
  p.block = v.semaphore;
  p.index = v.addr;
  return p;
}

// A logical device id counts the devices around the kernel; where there is one, its id is 0, by number or by
// coordinates. Ids are compared with what there is when the step runs.
Peer Compiler::peer(const Op& op) {
  Peer r;
  r.body = target_body(op);
  auto named = [&](const char* key) {  // null: nobody is named
    const Attr* a = op.attr(key);
    return a && a->is(Attr::Kind::Symbol) && a->s == "none" ? nullptr : a;
  };
  auto scalar = [&](const Attr& a, const char* key) {
    if (a.is(Attr::Kind::Operand)) return scalar_convert(operand(op, static_cast<size_t>(a.i)), ir::DType::I32);
    if (!a.is_int()) unsupported(op, std::string(ir::name(op.code)) + " with such a " + key);
    return const_int(ir::DType::I32, std::clamp<int64_t>(a.i, INT32_MIN, INT32_MAX));
  };
  auto slot = [&](const char* key) {
    const Attr* a = named(key);
    if (!a) return Addr::kNoSlot;
    if (a->is(Attr::Kind::List) && a->items.size() == 1 && a->items[0].is_call("axis") && body_.axis_slots.size() == 1)
      a = &a->items[0].items[1];  // a coordinate on the only axis of the mesh
    return scalar_slot(scalar(*a, key));
  };
  r.core_slot = slot("core_index");
  const Attr* device = named("device_id");
  if (!device) return r;
  if (plan_.num_devices() > 1) {
    const Attr* kind = op.attr("device_id_type");
    if (kind && kind->s != "logical")
      unsupported(op, std::string(ir::name(op.code)) + " with a device id of type " + kind->s);
    r.device_slot = slot("device_id");
    return r;
  }
  StripParams params;
  params.dtype = ir::DType::I32;
  params.semantics = semantics_;
  Val id = const_int(ir::DType::I32, 0);
  for (const Attr& coordinate : device->is(Attr::Kind::List) ? device->items : std::vector<Attr>{*device}) {
    const Val v = scalar(coordinate, "device_id");  // any coordinate but 0 shows in the bits of all of them
    const bool first = id.is_const && id.bits == 0;
    id = first ? v : scalar_result(ir::OpCode::or_, ir::DType::I32, ir::DType::I32, {id, v}, params);
  }
  const bool own = id.is_const && id.bits == 0;
  if (!own) r.device_slot = scalar_slot(id);
  return r;
}

void Compiler::for_each_choice(const Val& v, const std::function<void(const Val&)>& body) {
  if (!v.choice) return body(v);
  auto* table = plan_.own(std::vector<int32_t>());
  Step& s = emit(ops::kBranchTable, table);
  s.a = v.choice->slot;
  s.imm = 4;
  std::vector<int> ends;
  for (const Val& r : v.choice->refs) {
    table->push_back(here());
    for_each_choice(r, body);  // a ref may itself be one of several
    ends.push_back(here());
    emit(ops::kJump);
  }
  for (int e : ends) jump_to(e, here());
}

// A copy from or to a ref that is seen through other element widths, or another shape of memory with gaps: its bytes
// move when it starts, which the machine may do too.
void Compiler::copy_through(const Op& op, const Val& src, const Val& dst, SemPayload sem) {
  const bool plain = !src.choice && !dst.choice && src.extents.empty() && dst.extents.empty() && src.valid.empty() &&
                     dst.valid.empty();
  const bool away = sem.peer.core_slot != Addr::kNoSlot || (sem.peer.elsewhere() && plan_.num_devices() > 1);
  if (!plain || away || op.attr("src_sem") || (op.attr("add") && op.attr("add")->is_true()))
    unsupported(op,
                "a copy to another core, to padding, or of an extent known at run time only, of a ref with other "
                "element widths or gaps");
  if (src.dtype != dst.dtype || src.dims != dst.dims)
    unsupported(op, "a copy between refs of different types, seen with other element widths or gaps");
  check_writable(op, dst);
  std::vector<OpenedRef> opened;
  const Val from = src.through ? open_ref(src, Lens::Read, nullptr) : src;
  const Val to = dst.through ? open_ref(dst, Lens::Overwrite, &opened) : dst;
  emit_copy(to, from);
  write_back(opened);
  const bool bytes = plan_.semaphores.blocks()[static_cast<size_t>(sem.block)].bytes;
  sem.value = bytes ? (dst.elements() * ir::bit_width(dst.dtype) + 7) / 8 : 1;
  emit(ops::kSemSignal, plan_.own(sem));
}

void Compiler::op_dma_start(const Op& op) {
  about_to_write(everything());
  const Val src = viewed_operand(op, "src", ViewUse::Copy, Lens::Keep),
            dst = viewed_operand(op, "dst", ViewUse::CopyTo, Lens::Keep);
  DmaPayload p;
  const Val dst_sem = viewed_operand(op, "dst_sem", ViewUse::Access);
  const Val src_sem = op.attr("src_sem") ? viewed_operand(op, "src_sem", ViewUse::Access) : Val();
  p.peer = peer(op);
  if (const Attr* add = op.attr("add")) p.add = add->is_true();
  const std::function<bool(const Val&)> copied = [&](const Val& v) {
    return v.through || (v.choice && std::any_of(v.choice->refs.begin(), v.choice->refs.end(), copied));
  };
  if (copied(src) || copied(dst)) {
    for (Window& w : body_.windows) w.copies_only = false;  // these are not seen as copies when they run
    SemPayload sem = semaphore_of(op, dst_sem);
    sem.peer = p.peer;
    return copy_through(op, src, dst, sem);
  }
  auto side = [&](const Val& v) {
    if (v.semaphore >= 0 || v.kind != Val::Kind::Ref) unsupported(op, "copy of " + std::string(ir::name(v.dtype)));
    if (v.dims.size() > memory::kMaxRank) unsupported(op, "copy of rank " + std::to_string(v.dims.size()));
    return CopySide{v.addr, extents_of(v), v.valid, v.gates, v.strides, v.name};
  };
  auto start = [&](const Val& from, const Val& to, const Val& received, const Val& sent) {
    check_writable(op, to);
    if (from.dtype != to.dtype)
      unsupported(op, "copy from " + std::string(ir::name(from.dtype)) + " to " + std::string(ir::name(to.dtype)));
    if (p.add && !k_.strip(ir::OpCode::add, to.dtype))
      unsupported(op, "adding copy of " + std::string(ir::name(to.dtype)));
    p.dtype = from.dtype;
    p.src = side(from);
    p.dst = side(to);
    p.dst_sem = semaphore_of(op, received);
    p.dst_sem.peer = p.peer;
    if (op.attr("src_sem")) p.src_sem = semaphore_of(op, sent);
    emit(ops::kDmaStart, plan_.own(p));
  };
  for_each_choice(src, [&](const Val& from) {
    for_each_choice(dst, [&](const Val& to) {
      for_each_choice(dst_sem, [&](const Val& received) {
        for_each_choice(src_sem, [&](const Val& sent) { start(from, to, received, sent); });
      });
    });
  });
}

// Whether a copy may take what lies behind its source's end.
bool Compiler::copies_read_on() const {
  return plan_.options.out_of_bounds == Options::Oob::Uninitialized &&
         model_.outside.copy_sources == hw::Outside::Undefined;
}

void Compiler::op_dma_wait(const Op& op) {
  about_to_write(everything());
  const Val dst = viewed_operand(op, "dst", ViewUse::Shape, Lens::Keep);
  const Val& shown = dst.choice ? dst.choice->refs[0] : dst;
  DmaWaitPayload p;
  p.extents = extents_of(shown);
  p.bits = ir::bit_width(shown.dtype);
  p.name = shown.name;
  // What the view was given has been looked at; what is taken here has the bounds of the copy.
  const Val& given = operand(op, static_cast<size_t>(op.attr("dst")->items[0].i));
  const std::vector<uint32_t>& before = given.choice ? given.choice->refs[0].extents : given.extents;
  for (size_t d = 0; d < shown.extents.size(); ++d) {
    const bool known = copies_read_on() || std::find(before.begin(), before.end(), shown.extents[d]) != before.end();
    p.most.push_back(known ? INT64_MAX : shown.dims[d]);
  }
  for_each_choice(viewed_operand(op, "dst_sem", ViewUse::Access), [&](const Val& sem) {
    p.sem = semaphore_of(op, sem);
    emit(ops::kDmaWait, plan_.own(p));
  });
}

void Compiler::op_select_ref(const Op& op) {
  Val v;
  v.kind = Val::Kind::Ref;
  v.choice = std::make_shared<Choice>();
  v.choice->slot = scalar_slot(scalar_convert(operand(op, 0), ir::DType::I32));
  for (size_t i = 1; i < op.operands.size(); ++i) v.choice->refs.push_back(operand(op, i));
  v.dtype = v.choice->refs.front().dtype;
  v.dims = v.choice->refs.front().dims;
  define(op.results[0], v);
}

}  // namespace pallasim::interp
