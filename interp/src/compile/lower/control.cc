// Structured control flow becomes jumps; carried values have fixed places.
#include <algorithm>
#include <functional>
#include <optional>

#include "../../analysis/expressions.h"
#include "../../analysis/refs.h"
#include "../../plan/payload/control.h"
#include "../../plan/payload/copies.h"
#include "../../plan/payload/movement.h"
#include "../../plan/steps.h"
#include "access.h"
#include "barriers.h"
#include "control.h"
#include "copy_forwarding.h"
#include "nans.h"

namespace pallasim::interp {

static void lower_cond(Emitter& e, const Op& op) {
  e.before_regions(op);
  std::vector<Val> results;
  for (ir::ValueId r : op.results) {
    const ir::Type* t = e.type(r);
    if (t->is_ref) e.unsupported(op, "cond that yields a ref");
    if (t->is_scalar()) {
      results.push_back(scalar_in(e.new_slot(), t->dtype));
    } else {
      results.push_back(e.temp(t->dtype, dims_of(t)));
    }
  }
  const Val pred = e.operand(op, 0);
  const uint32_t slot = scalar_slot(e, pred);
  const int n = static_cast<int>(op.regions.size());
  std::vector<int> ends;
  auto compile_branch = [&](const Region& region) {
    LiveValues::Conditional inner(e.live());
    compile_region(e, region);
    const Op& yield = region.ops.back();
    e.at(op);
    for (size_t i = 0; i < results.size(); ++i) {
      const Val& v = e.operand(yield, i);
      if (results[i].is_scalar()) move_scalar(e, results[i].scalar().slot, scalar_slot(e, v), results[i].dtype);
      else copy_value(e, results[i], v);
    }
    e.live().forget(region);
  };
  if (n == 2 && pred.dtype == ir::DType::Bool) {
    // Region 1 is the taken one: fall through into it.
    const int branch = e.here();
    e.emit(e.functions().branch_if_false).a = slot;
    compile_branch(op.regions[1]);
    const bool has_else = op.regions[0].ops.size() > 1 || !results.empty();
    int over = -1;
    if (has_else) {
      over = e.here();
      e.emit(e.functions().jump);
    }
    e.jump_to(branch, e.here());
    if (has_else) {
      compile_branch(op.regions[0]);
      e.jump_to(over, e.here());
    }
  } else {
    auto* table = e.own(BranchTablePayload());
    Step& s = e.emit<Kind::branch_table>(e.functions().branch_table, table);
    s.a = slot;
    s.imm = pred.dtype == ir::DType::Bool ? 1 : compute_type(pred.dtype) == CType::I64 ? 8 : 4;
    for (const Region& region : op.regions) {
      table->steps.push_back(e.here());
      compile_branch(region);
      ends.push_back(e.here());
      e.emit(e.functions().jump);
    }
    for (int end : ends) e.jump_to(end, e.here());
  }
  for (size_t i = 0; i < results.size(); ++i) e.define(op.results[i], results[i]);
}

std::vector<Val> allocate_carries(Emitter& e, const std::vector<Val>& init) {
  std::vector<Val> carries;
  for (const Val& v : init) {
    Val c;
    if (v.is_scalar()) {
      c = scalar_in(e.new_slot(), v.dtype);
      move_scalar(e, c.scalar().slot, v.scalar().slot, v.dtype);
    } else {
      c = e.temp(v.dtype, v.dims);
      copy_value(e, c, v);
    }
    carries.push_back(c);
  }
  return carries;
}

void enter_carries(Emitter& e, const Region& region, size_t first, const std::vector<Val>& carries) {
  for (size_t i = 0; i < carries.size(); ++i) e.live().bind(region.args[first + i], carries[i]);
}

void assign_carries(Emitter& e, const std::vector<Val>& carries, std::span<const ir::ValueId> yielded) {
  std::vector<Val> next;
  for (size_t i = 0; i < carries.size(); ++i) next.push_back(e.value(yielded[i]));
  auto reads = [&](const Val& v, size_t j) {  // does v read carry j's place?
    std::function<bool(const Val&)> visit = [&](const Val& x) {
      if (x.is_pending()) return std::any_of(x.node()->args.begin(), x.node()->args.end(), visit);
      if (x.is_uniform()) return carries[j].is_scalar() && x.scalar().slot == carries[j].scalar().slot;
      return !carries[j].is_scalar() && x.shows_memory() && x.memory().storage &&
             x.memory().storage == carries[j].memory().storage;
    };
    return visit(v);
  };
  // A value that reads a carry which is assigned before its turn is saved first.
  for (size_t i = 0; i < carries.size(); ++i) {
    bool clash = false;
    for (size_t j = 0; j < carries.size() && !clash; ++j) clash = j < i && reads(next[i], j);
    if (!clash) continue;
    if (next[i].is_scalar()) {
      const uint32_t s = e.new_slot();
      move_scalar(e, s, next[i].scalar().slot, next[i].dtype);
      next[i].scalar().slot = s;
    } else {
      Val t = e.temp(next[i].dtype, next[i].dims);
      emit_pending(e, next[i], t);
      next[i] = t;
    }
  }
  for (size_t i = 0; i < carries.size(); ++i) {
    if (carries[i].is_scalar()) {
      move_scalar(e, carries[i].scalar().slot, scalar_slot(e, next[i]), carries[i].dtype);
      continue;
    }
    if (next[i].is_strided() && same_place(next[i], carries[i])) continue;
    const bool own = reads(next[i], i);
    if (!own) {
      copy_value(e, carries[i], next[i]);
      continue;
    }
    // In-place elementwise updates are safe where the carry is read at the same element only.
    Val dst = carries[i];
    std::function<bool(const Val&)> shifted = [&](const Val& x) -> bool {
      if (x.is_pending())
        return (!x.node()->elementwise() && reads(x, i)) ||
               std::any_of(x.node()->args.begin(), x.node()->args.end(), shifted);
      return x.is_strided() && x.memory().storage == dst.memory().storage && !same_place(x, dst);
    };
    if (shifted(next[i])) {
      Val t = e.temp(next[i].dtype, next[i].dims);
      emit_pending(e, next[i], t);
      emit_copy(e, dst, t);
    } else {
      emit_pending(e, next[i], dst);
    }
  }
}

static void lower_while(Emitter& e, const Op& op) {
  e.before_regions(op);
  std::vector<Val> init;
  for (size_t i = 0; i < op.operands.size(); ++i) init.push_back(e.operand(op, i));
  const std::vector<Val> carries = allocate_carries(e, init);
  const Region &cond = op.regions[0], &body = op.regions[1];
  const int top = e.here();
  auto inner = std::make_optional<LiveValues::Conditional>(e.live(), true);
  enter_carries(e, cond, 0, carries);
  compile_region(e, cond);
  const uint32_t test = scalar_slot(e, e.operand(cond.ops.back(), 0));
  const int branch = e.here();
  e.emit(e.functions().branch_if_false).a = test;
  e.live().forget(cond);
  enter_carries(e, body, 0, carries);
  compile_region(e, body);
  e.at(op);
  assign_carries(e, carries, body.ops.back().operands);
  const int back = e.here();
  e.emit(e.functions().jump);
  inner.reset();
  e.jump_to(back, top);
  e.jump_to(branch, e.here());
  for (size_t i = 0; i < carries.size(); ++i) e.define(op.results[i], carries[i]);
}

// What a loop says of its trips: its bounds, and how often it runs where these are constants.
struct Loop {
  Val lower, upper, step;
  bool wide = false, down = false;
  std::optional<int64_t> trips;
};

static Loop loop_of(Emitter& e, const Op& op) {
  Loop l{e.operand(op, 0), e.operand(op, 1), e.operand(op, 2)};
  const Attr* reverse = op.attr("reverse");
  l.down = reverse && reverse->is_true();
  const CType c = compute_type(l.lower.dtype);
  l.wide = is_wide(l.lower.dtype);
  if (!l.wide && c != CType::I32 && c != CType::U32)
    e.unsupported(op, "for over " + std::string(ir::name(l.lower.dtype)));
  const std::optional<int64_t> lo = known_int(l.lower), hi = known_int(l.upper), by = known_int(l.step);
  if (lo && hi && by && *by > 0)
    l.trips = *lo >= *hi ? 0
                         : static_cast<int64_t>((static_cast<uint64_t>(*hi) - static_cast<uint64_t>(*lo) - 1) /
                                                static_cast<uint64_t>(*by)) +
                               1;
  return l;
}

// Runs its body exactly once, where it stands, or never.
static void lower_straight(Emitter& e, const Op& op, const Loop& l) {
  count(Rewrite::StraightLoop);
  const Region& body = op.regions[0];
  if (*l.trips == 1) {
    e.define(body.args[0], l.lower);
    for (size_t i = 1; i < body.args.size(); ++i) e.define(body.args[i], e.operand(op, i + 2));
    compile_region(e, body);
  }
  for (size_t i = 0; i < op.results.size(); ++i)
    e.define(op.results[i], *l.trips == 1 ? e.operand(body.ops.back(), i) : e.operand(op, i + 3));
}

// Whether carry `i` counts as the loop's index does: JAX's fori_loop brings its own.
static bool counts_along(Emitter& e, const Op& op, const Loop& l, size_t i) {
  const ir::ValueId next = op.regions[0].ops.back().operands[i];
  const Val& init = e.operand(op, i + 3);
  if (l.down || e.live().uses(op.results[i]) > 0 || e.live().uses(next) != 1 || !init.is_scalar() ||
      init.dtype != l.lower.dtype)
    return false;
  if (op.operands[i + 3] != op.operands[0] && (!known_int(init) || known_int(init) != known_int(l.lower))) return false;
  const std::optional<ir::ValueId> by = analysis::increment_of(op, i);
  if (!by || *by == op.operands[2]) return by.has_value();
  const Val* amount = e.live().find(*by);
  return amount && known_int(*amount) && known_int(*amount) == known_int(l.step);
}

static void lower_for(Emitter& e, const Op& op) {
  const Loop l = loop_of(e, op);
  if (e.options().fuse && l.trips && *l.trips < 2) return lower_straight(e, op, l);
  const Region& body = op.regions[0];
  // Carries that are the index by another name need no place: which, by number.
  std::vector<bool> counter(op.results.size());
  for (size_t i = 0; i < counter.size(); ++i) counter[i] = e.options().fuse && counts_along(e, op, l, i);
  e.before_regions(op);
  std::vector<Val> init;
  for (size_t i = 0; i < counter.size(); ++i)
    if (!counter[i]) init.push_back(e.operand(op, i + 3));
  const std::vector<Val> carries = allocate_carries(e, init);
  const Val index = scalar_in(e.new_slot(), l.lower.dtype);
  // The bounds stay where they are: a slot is written again by the loop that carries it alone, and theirs are born
  // outside.
  const uint32_t lo = scalar_slot(e, l.lower), hi = scalar_slot(e, l.upper), by = scalar_slot(e, l.step);
  const bool unordered = op.code == OpCode::parallel_loop && e.options().checked;
  if (unordered) e.emit<Kind::trips>().imm = static_cast<int64_t>(Trips::Begin);
  const int enter = e.here();
  Step& b = e.emit(e.functions().loop_begin(l.wide, l.down));
  b.dst = index.scalar().slot, b.a = lo, b.b = hi, b.c = by;
  auto inner = std::make_optional<LiveValues::Conditional>(e.live());
  e.live().bind(body.args[0], index);
  std::vector<ir::ValueId> args, next;  // of the carries that have a place
  for (size_t i = 0; i < counter.size(); ++i) {
    const ir::ValueId yielded = body.ops.back().operands[i];
    if (counter[i]) e.live().bind(body.args[i + 1], index), e.live().drop_use(yielded), count(Rewrite::LoopCounter);
    else args.push_back(body.args[i + 1]), next.push_back(yielded);
  }
  for (size_t i = 0; i < args.size(); ++i) e.live().bind(args[i], carries[i]);
  const int top = e.here();
  if (unordered) e.emit<Kind::trips>().imm = static_cast<int64_t>(Trips::Next);
  if (!looks_for_nans(e)) e.live().preassign_carries(body, args, next, carries);
  double& cost = e.plan().split.step_cost_ns;
  const double before = cost;
  compile_region(e, body);
  cost = before + (cost - before) * static_cast<double>(l.trips.value_or(1));
  e.at(op);
  assign_carries(e, carries, next);
  inner.reset();
  Step& n = e.emit(e.functions().loop_next(l.wide, l.down));
  n.dst = index.scalar().slot, n.a = lo, n.b = hi, n.c = by;
  e.jump_to(e.here() - 1, top);
  e.jump_to(enter, e.here());
  if (unordered) e.emit<Kind::trips>().imm = static_cast<int64_t>(Trips::End);
  for (size_t i = 0, c = 0; i < counter.size(); ++i)
    if (!counter[i]) e.define(op.results[i], carries[c++]);
}

static void lower_call(Emitter& e, const Op& op) {
  const Region& body = op.regions[0];
  for (size_t i = 0; i < body.args.size(); ++i) e.define(body.args[i], e.operand(op, i));
  compile_region(e, body);
  for (size_t i = 0; i < op.results.size(); ++i) e.define(op.results[i], e.operand(body.ops.back(), i));
}

// What a list attribute of an operation says of the ref that it makes.
static const Attr* fact_of(const Op& op, const char* key, ir::ValueId id) {
  const Attr* all = op.attr(key);
  const auto& args = op.regions.empty() ? op.results : op.regions[0].args;
  const auto i = static_cast<size_t>(std::find(args.begin(), args.end(), id) - args.begin());
  return all && i < all->items.size() ? &all->items[i] : nullptr;
}

// Tiles and swizzles of the memory; null where it has none.
static std::shared_ptr<const TiledMemory> tiles_of(Emitter& e, const Op& op, const Val& v, const Attr* transforms) {
  if (!transforms || transforms->items.empty()) return nullptr;
  auto r = std::make_shared<TiledMemory>();
  r->dims = v.dims;
  for (const Attr& a : transforms->items) {
    ir::View view;
    const Attr* part = nullptr;
    std::string why;
    if (!ir::parse_view(a, &view, &part, &why)) e.unsupported(op, "transforms of memory: " + why);
    if (const auto* tile = std::get_if<ir::view::Tile>(&view); tile && tile->inverse) {
      const size_t n = tile->tiling.size();
      if (r->dims.size() < 2 * n) e.unsupported(op, "tiles of a higher rank than the memory");
      for (size_t i = 0; i < n; ++i) r->dims[r->dims.size() - 2 * n + i] *= r->dims[r->dims.size() - n + i];
      r->dims.resize(r->dims.size() - n);
    } else if (!std::holds_alternative<ir::view::Swizzle>(view)) {
      e.unsupported(op, "memory with the transform " + std::string(ir::name(view)));
    }
    r->transforms.push_back(std::move(view));
  }
  return r;
}

namespace {
// Memory that scopes do not give back: what lies at an address is asked long after.
struct KeptMemory {
  std::vector<std::shared_ptr<Storage>> all;
};
}  // namespace

Val allocate_ref(Emitter& e, const Op& op, ir::ValueId id, ScopePayload* scope) {
  const ir::Type* t = e.type(id);
  Val v(t->dtype, dims_of(t), Val::Ref{});
  v.memory().strides = dense_strides(v.dims);
  v.memory().name = e.live().graph().names[static_cast<size_t>(id)];
  v.memory().origin = id;
  if (ir::is_sync(t->dtype)) {
    if (is_barrier(t->dtype)) {
      v.ref().semaphore = add_barrier(e, v, *t, fact_of(op, "allocs", id));
      if (ir::LocId& made = e.plan().memory.barriers.back().loc; made < 0) made = op.loc;
      v.memory().addr = {};
      return v;
    }
    const bool of_core = t->scope == ir::Scope::Cta;  // all threads of a thread block share it
    v.ref().semaphore = e.plan().memory.semaphores.add(v.memory().name, v.elements(),
                                                       of_core ? memory::Level::Core : memory::Level::Thread,
                                                       t->dtype == ir::DType::DmaSem);
    v.memory().addr = {};
    scope->semaphores.push_back(v.ref().semaphore);
    return v;
  }
  require_memory(e, v.bytes(), "an allocation");
  // In tensor memory a view says itself how batches lie side by side.
  if (t->space != ir::Space::Tmem) v.ref().tiled = tiles_of(e, op, v, fact_of(op, "transforms", id));
  // Types of machines whose programs run in any order say whose it is.
  const bool of_device = t->scope == ir::Scope::Thread && e.model().in_order() &&
                         (t->space == ir::Space::Hbm || t->space == ir::Space::Any || t->space == ir::Space::Gmem);
  const memory::Level owner = of_device ? memory::Level::Device : memory::owner_level(t->scope, t->space);
  if (e.plan().threads.count > 1 && owner != memory::Level::Thread) {
    // One allocation for all below its owner, who reach it at different times.
    v.memory().addr = {e.plan().memory.num_buffers++, Addr::kNoSlot, 0};
    note_allocation(e.plan(), v, t->space, owner, memory::Allocation::Lifetime::Launch);
    elide_copies(e, v);
    return v;
  }
  e.frame().allocate(&v);
  // Shared and tensor memory are reached in ways of their own: no byte belongs to both.
  if (owner != memory::Level::Thread) e.state<KeptMemory>().all.push_back(v.memory().storage);
  scope->memory.push_back({v.memory().storage->offset, v.bytes()});
  note_allocation(e.plan(), v, t->space, memory::Level::Thread, memory::Allocation::Lifetime::Scope);
  elide_copies(e, v);
  add_tile_padding(e, &v, t->space);
  return v;
}

// Refs that live from here to the end of the kernel.
static void lower_new_ref(Emitter& e, const Op& op) {
  ScopePayload scope;
  const Val v = allocate_ref(e, op, op.results[0], &scope);
  if (v.memory().storage) e.frame().keep(v);
  if (op.code == ir::OpCode::new_ref) store_value(e, op, v, e.operand(op, 0));
  else if (v.memory().storage) emit_fill_uninitialized(e, v);
  e.define(op.results[0], v);
}

static void lower_freeze(Emitter& e, const Op& op) {
  Val v = e.operand(op, 0);
  if (v.is_semaphore()) e.unsupported(op, "freeze of semaphores");
  if (v.is_recast()) v = open_ref(e, v, Recast::Read, nullptr);
  v = v.as_strided();
  e.define(op.results[0], v.dims.empty() ? load_scalar(e, v) : v);
}

static bool is_accumulator(const Attr* facts) {
  return facts && std::find(facts->keys.begin(), facts->keys.end(), "accumulator") != facts->keys.end();
}

// Accumulators of products begin as zeros.
static void clear_accumulator(Emitter& e, const Val& ref) {
  FillPayload p{};
  p.dst = ref.memory().addr;
  p.dims = {ref.elements()};
  p.strides = {1};
  p.size = ir::byte_size(ref.dtype);
  e.emit<Kind::fill>(std::move(p));
}

static void lower_scoped(Emitter& e, const Op& op) {
  const Region& body = op.regions[0];
  if (!op.operands.empty()) e.unsupported(op, "run_scoped with initial values");
  ScopePayload scope;
  for (ir::ValueId a : body.args) {
    const Val v = allocate_ref(e, op, a, &scope);
    if (is_accumulator(fact_of(op, "allocs", a))) clear_accumulator(e, v);
    else if (v.memory().storage && elidable_of(e, v) >= 0) begin_elision(e, v);
    else if (v.memory().storage && !analysis::full_store_first(body, a)) emit_fill_uninitialized(e, v);
    e.live().bind(a, v);
  }
  if (e.options().checked && !scope.memory.empty()) e.emit<Kind::scope_begin>(ScopePayload(scope));
  compile_region(e, body);
  e.at(op);
  std::vector<Val> results;
  for (ir::ValueId y : body.ops.back().operands) {
    const Val& v = e.value(y);
    if (v.is_ref()) e.unsupported(op, "run_scoped that yields a ref");
    results.push_back(v.is_scalar() ? v : materialized(e, v));
  }
  // Only copies and semaphores can outlast a scope, and what checkers know of its memory.
  if (e.live().writes_of(op).everything || (e.options().checked && !scope.memory.empty()))
    e.emit<Kind::scope_end>(std::move(scope));
  for (size_t i = 0; i < op.results.size(); ++i) e.define(op.results[i], results[i]);
}

Rows control_rows() {
  static constexpr Row kRows[] = {
      {OpCode::cond, lower_cond},         {OpCode::while_, lower_while},      {OpCode::for_, lower_for},
      {OpCode::parallel_loop, lower_for}, {OpCode::run_scoped, lower_scoped}, {OpCode::empty_ref, lower_new_ref},
      {OpCode::new_ref, lower_new_ref},   {OpCode::freeze, lower_freeze},     {OpCode::call, lower_call}};
  return kRows;
}

}  // namespace pallasim::interp
