// Copies whose rows an array of indices chooses, and words of other subcores.
#include <algorithm>
#include <unordered_map>

#include "../../plan/payload/barriers.h"
#include "../../plan/payload/copies.h"
#include "../../plan/payload/rows.h"
#include "access.h"
#include "copy_forwarding.h"
#include "rows.h"
#include "sync.h"
#include "units.h"

namespace pallasim::interp {
bool chooses_rows(const ir::Viewed* v) {
  const auto* last = v && !v->transforms.empty() ? std::get_if<ir::view::Index>(&v->transforms.back()) : nullptr;
  return last && last->has_arrays();
}

// The indices, as memory. What they were made of is kept until the operation is emitted.
static Val row_list(Emitter& e, const Op& op, const ir::view::Entry& item, ChosenRows* rows) {
  Val list = e.operand(op, static_cast<size_t>(item.operand));
  if (list.is_choice()) e.unsupported(op, "a copy of rows that one of several lists chooses");
  if (list.is_recast()) list = open_ref(e, list, Recast::Read, nullptr);
  if (!list.is_ref()) list = dense(e, list);
  if (list.dims.size() != 1)
    e.unsupported(op,
                  "a copy of rows that indices of rank " + std::to_string(list.dims.size()) + " choose; a list does");
  if (!ir::is_int(list.dtype) || ir::bit_width(list.dtype) < 8)
    e.unsupported(op, "a copy of rows that indices of type " + std::string(ir::name(list.dtype)) + " choose");
  rows->list = list.memory().addr;
  rows->dtype = list.dtype;
  rows->stride = list.memory().strides[0];
  rows->count = list.dims[0];
  if (list.is_ref() && !list.ref().extents.empty()) rows->count_slot = list.ref().extents[0];
  rows->ignores = item.ignored.has_value();
  rows->ignored = item.ignored.value_or(0);
  return list;
}

Val all_rows(Emitter& e, const Op& op, const char* key, ViewUse use, ChosenRows* rows, Val* list) {
  const ir::Viewed& view = *op.viewed(key);
  const std::span<const ir::View> all = view.transforms;
  ir::view::Index index = std::get<ir::view::Index>(all.back());
  std::vector<uint32_t> sizes;
  bool found = false;
  for (const ir::view::Entry& d : index.entries) {
    if (!d.is_array()) continue;
    if (found) e.unsupported(op, "a copy of elements that several lists choose");
    found = true;
    *list = row_list(e, op, d, rows);
    if (rows->count_slot != Addr::kNoSlot) sizes = {rows->count_slot};
  }
  Val v = apply_view(e, op, e.operand(op, static_cast<size_t>(view.operand)), all.first(all.size() - 1), use,
                     Recast::Keep, sizes)
              .ref;
  if (v.ref().choice) e.unsupported(op, "a copy of chosen rows of one of several refs");
  size_t kept = 0;
  for (size_t i = 0; i < index.entries.size(); ++i) {
    ir::view::Entry& d = index.entries[i];
    if (d.is_array()) {
      rows->dim = kept;
      rows->extent = v.dims[i];
      d = {};
      d.kind = ir::view::Entry::Kind::Slice;
      d.size = v.dims[i];
    }
    kept += d.is_slice();
  }
  const ir::View last = std::move(index);
  v = apply_view(e, op, v, {&last, 1}, use, Recast::Keep, std::move(sizes)).ref;
  if (!v.ref().extents.empty()) rows->extent_slot = v.ref().extents[rows->dim];
  if (!v.ref().valid.empty() && v.ref().valid[rows->dim] != Addr::kNoSlot)
    e.unsupported(op, "a copy of rows chosen from padding");
  return v;
}

// What a wait for such a copy names: as many rows as were chosen.
Val awaited_rows(Emitter& e, const Op& op, const char* key) {
  ChosenRows rows;
  Val list, v = all_rows(e, op, key, ViewUse::Shape, &rows, &list);
  v.dims[rows.dim] = rows.count;
  if (rows.count_slot == Addr::kNoSlot) return v;
  if (v.ref().extents.empty()) v.ref().extents.assign(v.dims.size(), Addr::kNoSlot);
  v.ref().extents[rows.dim] = rows.count_slot;
  return v;
}

void lower_row_copy(Emitter& e, const Op& op) {
  RowCopyPayload p;
  p.chooses = true;
  p.of_dst = chooses_rows(op.viewed("dst"));
  if (p.of_dst && chooses_rows(op.viewed("src"))) e.unsupported(op, "a copy of chosen rows to chosen rows");
  Val list;
  const char *key = p.of_dst ? "dst" : "src", *plain = p.of_dst ? "src" : "dst";
  const Val chosen = all_rows(e, op, key, p.of_dst ? ViewUse::CopyTo : ViewUse::Copy, &p.rows, &list),
            other = viewed_operand(e, op, plain, p.of_dst ? ViewUse::Copy : ViewUse::CopyTo, Recast::Keep);
  p.peer = named_unit(e, op);
  if (const Attr* add = op.attr("add")) p.add = add->is_true();
  if (other.ref().choice) e.unsupported(op, "a copy of chosen rows and one of several refs");
  if (p.of_dst && (!other.ref().valid.empty() || !other.ref().gates.empty()))
    e.unsupported(op, "a copy of padding to chosen rows");
  const Val &src = p.of_dst ? other : chosen, &dst = p.of_dst ? chosen : other;
  if (src.dtype != dst.dtype)
    e.unsupported(op, "copy from " + std::string(ir::name(src.dtype)) + " to " + std::string(ir::name(dst.dtype)));
  if (p.add && (src.is_recast() || dst.is_recast()))
    e.unsupported(op, "an adding copy of a ref with other element widths or gaps");
  if (src.is_semaphore() || dst.is_semaphore()) e.unsupported(op, "copy of " + std::string(ir::name(src.dtype)));
  if (src.dims.size() > memory::kMaxRank) e.unsupported(op, "copy of rank " + std::to_string(src.dims.size()));
  check_writable(e, op, dst);
  if (p.add && !e.kernels().strip(ir::OpCode::add, dst.dtype))
    e.unsupported(op, "adding copy of " + std::string(ir::name(dst.dtype)));
  for_each_choice(e, viewed_operand(e, op, "dst_sem", ViewUse::Access), [&](const Val& received) {
    const Val sent = op.attr("src_sem") ? viewed_operand(e, op, "src_sem", ViewUse::Access) : Val();
    for_each_choice(e, sent, [&](const Val& read) { emit_parts(e, op, src, dst, received, read, p); });
  });
}

void emit_parts(Emitter& e, const Op& op, const Val& src, const Val& dst, const Val& received, const Val& sent,
                RowCopyPayload p) {
  const auto side = [](const Val& v) {
    return CopySide{
        levels_of(v).back().addr, {v.dims, v.ref().extents}, v.ref().valid, v.ref().gates, v.memory().strides,
        v.memory().name};
  };
  const auto counted = [&](const Val& sem) {
    SemPayload s = semaphore_of(e, op, sem);
    if (!e.plan().memory.semaphores.blocks()[static_cast<size_t>(s.block)].bytes)
      e.unsupported(op, "a copy in parts with a semaphore that does not count bytes");
    return s;
  };
  p.dtype = src.dtype;
  p.src = side(src);
  p.dst = side(dst);
  p.dst.elidable = elidable_of(e, dst);
  p.src_levels = levels_of(src);
  p.dst_levels = levels_of(dst);
  if (src.dims.empty() && dst.dims.empty())  // one element: a row of one
    for (const auto& [of, levels] : {std::pair(&p.src, &p.src_levels), std::pair(&p.dst, &p.dst_levels)})
      of->extents.dims = of->strides = levels->front().strides = {1};
  p.dst_sem = counted(received);
  if (op.attr("src_sem")) p.src_sem = counted(sent);
  charge_copy(e, src.dims, src.dtype);
  e.emit<Kind::row_copy>(std::move(p));
}

static void lower_fetch_and_add(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Val ref = e.operand(op, 0);
  if (ref.dtype != ir::DType::I32 || ref.memory().addr.buffer != e.body().temps)
    e.unsupported(op, "fetch_and_add on memory that is not a subcore's own i32");
  const Val at = apply_view(e, op, ref, op.view(), ViewUse::Access).ref;
  if (at.elements() != 1) e.unsupported(op, "fetch_and_add on several words");
  FetchAddPayload p;
  p.addr = at.memory().addr;
  p.name = at.memory().name;
  p.value_slot = scalar_slot(e, e.operand(op, 1));
  e.plan().threads.reach_cores = true;
  p.subcore = subcore_at(
      e, scalar_slot(e, scalar_convert(e, e.operand(op, static_cast<size_t>(op.attr("subcore")->i)), ir::DType::I32)));
  const Val before = scalar_in(e.new_slot(), ir::DType::I32);
  e.emit<Kind::fetch_and_add>(std::move(p)).dst = before.scalar().slot;
  e.define(op.results[0], before);
}

namespace {
// The barrier of the subcores of a SparseCore, by body: index into PlanMemory::barriers, and where a subcore keeps how
// many phases it saw.
struct SubcoreBarriers {
  std::unordered_map<int, std::pair<int, uint32_t>> of;
};
}  // namespace

// Each subcore arrives and waits for the end of the phase, to which all of its core come, whatever their line.
static void lower_barrier(Emitter& e, const Op& op) {
  e.about_to_write(everything());
  const Body& body = e.body();
  if (body.mesh < 0 || e.module().meshes[static_cast<size_t>(body.mesh)].kind != "vector_subcore")
    e.unsupported(op, "a barrier of subcores outside of a mesh of vector subcores");
  const auto [at, fresh] = e.state<SubcoreBarriers>().of.try_emplace(body.index);
  if (fresh) {
    memory::BarrierBlock b;
    b.name = "the subcore barrier";
    b.owner = memory::Level::Core;
    b.expected = body.per_core;
    e.plan().memory.barriers.push_back(std::move(b));
    at->second = {static_cast<int>(e.plan().memory.barriers.size()) - 1, e.new_slot(1)};
  }
  BarrierPayload p;
  p.block = at->second.first;
  p.seen = at->second.second;
  e.emit<Kind::barrier_arrive>(e.functions().arrival(p), p);
  e.emit<Kind::barrier_wait>(e.functions().passage(p), p);
}

Rows sparsecore_rows() {
  static constexpr Row kRows[] = {{OpCode::sc_barrier, lower_barrier}, {OpCode::sc_fetch_and_add, lower_fetch_and_add}};
  return kRows;
}

}  // namespace pallasim::interp
