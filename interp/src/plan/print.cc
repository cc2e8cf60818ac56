// Plans as people read them: each step with its kind, what it is given, by the kernel's names, and the operations and
// the line that it stands for.
#include "print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinds.h"
#include "payload/arithmetic.h"
#include "payload/array.h"
#include "payload/barriers.h"
#include "payload/bulk.h"
#include "payload/control.h"
#include "payload/copies.h"
#include "payload/grid.h"
#include "payload/launch_control.h"
#include "payload/movement.h"
#include "payload/nans.h"
#include "payload/places.h"
#include "payload/print.h"
#include "payload/rows.h"
#include "payload/tensor.h"
#include "payload/units.h"
#include "plan.h"

namespace pallasim::interp {
namespace {

const char* name(CType t) {
  static constexpr const char* kNames[] = {"bool", "i32", "u32", "i64", "u64", "f32", "f64", "c64", "c128"};
  return kNames[static_cast<size_t>(t)];
}

std::string slot(uint32_t s) { return s == Addr::kNoSlot ? "-" : fmt::format("s{}", s / 16); }

class Printer {
 public:
  Printer(const Plan& p, const ir::LocTable& locs) : p_(p), locs_(locs) {}

  std::string line(const Step& s) const {
    std::string r = fmt::format("{:4} {:<15} {}", s.id, row(s).name, detail(s));
    if (s.adds) r += ", adding";
    r.resize(r.find_last_not_of(' ') + 1);
    if (s.jump) r += fmt::format(" -> {}", s.jump->id);
    if (const std::string why = operations(s); !why.empty()) r = fmt::format("{:<78} | {}", r, why);
    return r;
  }

 private:
  // Memory by the name of who lies there.
  std::string at(const Addr& a) const {
    const size_t operand = a.buffer - kFirstOperandBuffer;
    const bool array = a.buffer >= kFirstOperandBuffer && operand < p_.module.operands.size();
    std::string r;
    int64_t offset = a.offset;
    if (array) {
      r = p_.module.operands[operand].name;
    } else if (const memory::Allocation* m = p_.memory.allocations.at(a.buffer, a.offset); m && !m->name.empty()) {
      r = m->name;
      offset -= m->offset;
    } else {
      r = a.buffer == kConstBuffer ? "constants" : a.buffer == kTempBuffer ? "temp" : fmt::format("memory{}", a.buffer);
    }
    if (offset != 0 || (!array && r == "temp")) r += fmt::format("+{}", offset);
    return a.dyn == Addr::kNoSlot ? r : r + "+" + slot(a.dyn);
  }
  std::string semaphore(const SemPayload& p) const {
    const std::string block = p.block < 0 ? "none" : p_.memory.semaphores.blocks()[static_cast<size_t>(p.block)].name;
    return block + (p.peer.elsewhere() ? " elsewhere" : "");
  }
  std::string barrier(const BarrierPayload& p) const {
    const std::string block = p.block < 0 ? "none" : p_.memory.barriers[static_cast<size_t>(p.block)].name;
    return block + (p.reaches.elsewhere() ? " of the cluster" : "");
  }
  std::string operand(const Window& w) const { return p_.module.operands[static_cast<size_t>(w.operand)].name; }
  static std::string dims(const std::vector<int64_t>& d) { return fmt::format("[{}]", fmt::join(d, ",")); }
  std::string side(const CopySide& c) const { return c.name.empty() ? at(c.addr) : c.name; }
  std::string transfer(const CopySide& src, const CopySide& dst) const {
    return fmt::format("{} <- {} {}", side(dst), side(src), dims(src.extents.dims));
  }

  // -- what a step is given --
  std::string of(const BranchTablePayload& p) const { return fmt::format("to {}", fmt::join(p.steps, ", ")); }
  std::string of(const SpawnPayload& p) const { return dims(p.extents); }
  std::string of(const Window& w) const { return operand(w); }
  std::string of(const UnreadWindow& w) const { return operand(*w.window); }
  std::string of(const PipelinePayload& p) const {
    std::vector<std::string> names;
    for (const Window* w : p.windows) names.push_back(operand(*w));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  std::string of(const IndexPayload& p) const {
    std::vector<std::string> terms;
    for (const IndexTerm& t : p.terms) terms.push_back(fmt::format("{} of {}", slot(t.slot), t.extent));
    return fmt::format("{}[{}]", p.ref, fmt::join(terms, ", "));
  }
  std::string of(const ValidPayload& p) const { return fmt::format("{} of {}", p.size, p.extent); }
  std::string of(const ScopePayload& p) const {
    return fmt::format("{} allocations, {} of semaphores", p.memory.size(), p.semaphores.size());
  }
  std::string of(const ScalarAccess& p) const {
    return (p.ref.empty() ? at(p.addr) : p.ref) + (p.has_term ? fmt::format("[{}]", slot(p.term.slot)) : "");
  }
  std::string of(const CopyPayload& p) const { return fmt::format("{} <- {} {}", at(p.dst), at(p.src), dims(p.dims)); }
  std::string of(const FillPayload& p) const {
    return fmt::format("{} {}{}", at(p.dst), dims(p.dims), p.name.empty() ? "" : ", which is new");
  }
  std::string of(const ReinterpretPayload& p) const {
    return fmt::format("{} {} {} levels", at(p.copy), p.write ? "->" : "<-", p.levels.size());
  }
  std::string of(const GatherPayload& p) const {
    static constexpr const char* kModes[] = {"load", "store", "swap", "atomic"};
    return fmt::format("{} {} {}{}", kModes[static_cast<size_t>(p.mode)], p.name.empty() ? at(p.ref) : p.name,
                       dims(p.dims), p.has_mask ? " masked" : "");
  }
  std::string of(const LoadedInPlace& p) const { return of(p.access); }
  std::string of(const StoredRows& p) const { return of(p.access); }
  std::string of(const ElisionPayload& p) const { return at(p.addr); }
  std::string of(const ForwardPayload& p) const { return side(p.dst); }
  std::string of(const ScalarStrip&) const { return {}; }
  std::string of(const EltProgram& p) const {
    std::vector<std::string> from;
    for (const EltOperand& o : p.operands) from.push_back(at(o.addr));
    for (const EltSplat& s : p.splats) from.push_back(slot(s.slot));
    return fmt::format("{} <- {} {}", at(p.dst), fmt::join(from, ", "), dims(p.dims));
  }
  std::string of(const ReducePayload& p) const {
    return fmt::format("{} <- {} [{},{},{}]", at(p.dst), at(p.src), p.outer, p.reduce, p.inner);
  }
  std::string of(const ContractPayload& p) const {
    const Contraction& c = p.contraction;
    return fmt::format("{} {} {} @ {} [{},{},{},{}]", at(p.dst), c.accumulate ? "+=" : "<-", at(p.a), at(p.b), c.batch,
                       c.m, c.k, c.n);
  }
  std::string of(const ArrayPayload& p) const {
    std::vector<std::string> in, out;
    for (const ArrayArg& a : p.in) in.push_back(at(a.addr));
    for (const ArrayArg& a : p.out) out.push_back(at(a.addr));
    return fmt::format("{} <- {}", fmt::join(out, ", "), fmt::join(in, ", "));
  }
  std::string of(const SemPayload& p) const { return semaphore(p); }
  std::string of(const DmaPayload& p) const {
    return transfer(p.src, p.dst) + ", " + semaphore(p.dst_sem) + (p.add ? ", adding" : "");
  }
  std::string of(const DmaWaitPayload& p) const { return semaphore(p.sem) + " " + dims(p.extents.dims); }
  std::string of(const RowCopyPayload& p) const {
    const DmaPayload& copy = p;
    return of(copy) + (p.chooses ? ", rows of " + at(p.rows.list) : "");
  }
  std::string of(const FetchAddPayload& p) const { return p.name.empty() ? at(p.addr) : p.name; }
  std::string of(const BarrierPayload& p) const { return barrier(p); }
  std::string of(const PeerReadPayload& p) const {
    return fmt::format("{} <- {} {}", at(p.dst), at(p.src), dims(p.dims));
  }
  std::string of(const PeerStorePayload& p) const { return fmt::format("{} <- {}", side(p.dst), at(p.src)); }
  std::string of(const BulkCopyPayload& p) const {
    return transfer(p.src, p.dst) + (p.barrier.block >= 0 ? ", " + barrier(p.barrier) : "") +
           (p.receivers.elsewhere() ? ", to several" : "");
  }
  std::string of(const PeerArrayPayload& p) const {
    return fmt::format("memory{} is {} of another device", p.alias, at({p.array}));
  }
  std::string of(const MultimemPayload& p) const {
    return fmt::format("{}, {} of all devices {}", at(p.value), at(p.part), dims(p.dims));
  }
  std::string of(const ClusterRequestPayload& p) const { return side(p.answer) + ", " + barrier(p.barrier); }
  std::string of(const ClusterAnswerPayload& p) const { return at(p.answer); }
  std::string of(const GroupWaitPayload& p) const {
    return fmt::format("until {} are left{}", slot(p.most_slot), p.reads ? ", as far as they read" : "");
  }
  std::string tells(const BarrierPayload& p, const UnitSet& ctas) const {
    return (p.block >= 0 ? ", " + barrier(p) : "") + (ctas.elsewhere() ? ", of a pair" : "");
  }
  std::string of(const TensorProductPayload& p) const {
    const Contraction& c = p.contraction;
    const bool asks = p.accumulate != Addr::kNoSlot;
    return fmt::format("{} {} {} @ {} [{},{},{}]{}{}{}{}", side(p.sum), asks || c.accumulate ? "+=" : "<-",
                       side(p.left), side(p.right), c.m, c.k, c.n, asks ? " if " + slot(p.accumulate) : "",
                       p.scaled ? ", scaled" : "", p.sparse ? ", sparse" : "", tells(p.barrier, p.ctas));
  }
  std::string of(const TensorCopyPayload& p) const { return transfer(p.src, p.dst) + tells({}, p.ctas); }
  std::string of(const TensorAccessPayload& p) const {
    return fmt::format("{} and {} {}", side(p.memory), at(p.registers), dims(p.memory.extents.dims));
  }
  std::string of(const TensorCommitPayload& p) const { return barrier(p.barrier) + tells({}, p.ctas); }
  std::string of(const PrintPayload& p) const { return fmt::format("{} values", p.args.size()); }
  std::string of(const CheckPayload&) const { return {}; }
  static std::string of(const PromisePayload& p) { return fmt::format("a multiple of {}", p.by); }
  std::string of(const NanPayload& p) const {
    return fmt::format("{} {}", p.result.scalar ? slot(p.result.slot) : at(p.result.addr), dims(p.result.dims));
  }

  static std::string scalar(const Step& s) {
    const StepForm& f = *s.form;
    switch (s.kind) {
      case Kind::scalar:
        return fmt::format("{} <- {}.{} {}, {}", slot(s.dst), ir::name(f.op), name(f.type), slot(s.a), slot(s.b));
      case Kind::scalar_by_power:
        return fmt::format("{} <- {}.{} {}, 2^{}", slot(s.dst), ir::name(f.op), name(f.type), slot(s.a), s.imm);
      case Kind::scalar_convert:
        return fmt::format("{} <- {}.{} {}", slot(s.dst), name(f.made), name(f.type), slot(s.a));
      case Kind::scalar_mul_add: return fmt::format("{} <- {} * {} + {}", slot(s.dst), slot(s.a), slot(s.b), slot(s.c));
      case Kind::scalar_select: return fmt::format("{} <- {} ? {} : {}", slot(s.dst), slot(s.a), slot(s.c), slot(s.b));
      case Kind::move: return fmt::format("{} <- {}", slot(s.dst), slot(s.a));
      case Kind::branch_if_false: return slot(s.a);
      case Kind::loop_begin:
      case Kind::loop_next: return fmt::format("{} from {} to {} by {}", slot(s.dst), slot(s.a), slot(s.b), slot(s.c));
      default: return {};
    }
  }

  std::string detail(const Step& s) const {
    switch (s.kind) {
#define STEP(kind, type, ...)                                           \
  case Kind::kind:                                                      \
    if constexpr (std::is_void_v<type>) return s.form ? scalar(s) : ""; \
    else return with_slots<Kind::kind>(s);
#include "steps.def"
    }
    return {};
  }
  template <Kind k>
  std::string with_slots(const Step& s) const {
    const std::string text = of(payload<k>(s));
    if (k == Kind::store_scalar) return fmt::format("{} <- {}", text, slot(s.a));
    if (k == Kind::check || k == Kind::branch_table || k == Kind::promise) return fmt::format("{} {}", slot(s.a), text);
    if (k == Kind::scalar_strip) return fmt::format("{} <- {}, {}", slot(s.dst), slot(s.a), slot(s.b));
    return s.dst != 0 ? fmt::format("{} <- {}", slot(s.dst), text) : text;
  }

  // "add, store  matmul.py:11"
  std::string operations(const Step& s) const {
    std::vector<std::string_view> names;
    for (const ir::Op* op : p_.ops_of(s)) names.push_back(ir::name(op->code));
    if (names.empty()) return {};
    const ir::Site site = ir::site_of(locs_, p_.loc_of(s));
    const std::string where =
        site.source.file.empty() ? "" : fmt::format("  {}:{}", site.source.file, site.source.line);
    return fmt::format("{}{}", fmt::join(names, ", "), where);
  }

  const Plan& p_;
  const ir::LocTable& locs_;
};

}  // namespace

std::string text_of(const Plan& p, const Step& s) { return Printer(p, p.module.locs).line(s); }

namespace {

std::string dump_at(const Plan& p, const ir::LocTable& locs) {
  std::string r;
  const Printer printer(p, locs);
  for (const auto& b : p.bodies)
    r += fmt::format("body {}: {} slots, {} bytes of temporaries, threads: {}, from step {}\n", b->index,
                     b->image.size() / 16, b->temp_bytes, b->threads, b->entry->id);
  for (const Step& s : p.steps) r += printer.line(s) + "\n";
  r += p.split.refused.empty() ? fmt::format("splittable axes: {}\n", fmt::join(p.split.axes, ", "))
                               : "sequential: " + p.split.refused + "\n";
  return r;
}

}  // namespace

std::string dump(const Plan& p) { return dump_at(p, p.module.locs); }
std::string dump(const CachedPlan& p) { return dump_at(*p.plan, *p.locs); }

}  // namespace pallasim::interp
