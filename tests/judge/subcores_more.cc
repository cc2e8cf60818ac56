// Further things that threads of programs of SparseCores do: branches, rows in any order, memory of a scope, scalars.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "subcores.h"

namespace pallasim::judge {

// The place of a semaphore in its array: a number, or one known at run time.
std::string Subcores::place(Team& t, int number, std::vector<int>* operands) {
  if (!rng_.chance(20)) return std::to_string(number);
  operands->push_back(two(t, "add", two(t, "min", t.core, t.body.number(0)), t.body.number(number)));
  return fmt::format("${}", operands->size() - 1);
}

// Waits for `n` signals, in one of several ways.
void Subcores::wait(Team& t, int number, int64_t n) {
  const auto take = [&](int64_t k, const char* more) {
    std::vector<int> operands{t.signals};
    const std::string at = place(t, number, &operands);
    std::string value = std::to_string(k);
    if (rng_.chance(50)) {
      operands.push_back(t.body.number(k));
      value = fmt::format("${}", operands.size() - 1);
    }
    t.w.line(fmt::format("sem_wait {} {{view = [index({})], value = {}{}}}", names(operands), at, value, more));
  };
  const auto how = rng_.below(20);
  if (how < 4 && n > 1) {
    term("signals taken in two steps");
    take(1, "");
    return take(n - 1, "");
  }
  if (how < 6) {
    term("signals looked at first");
    take(n, ", decrement = false");
  } else if (how == 6) {
    term("polled semaphore");
    const int start = t.body.number(0), goal = t.body.number(n), out = t.w.fresh(), a = t.w.fresh(), b = t.w.fresh();
    t.w.open(fmt::format("{} = while {} ({}: i32[]) {{", name(out), name(start), name(a)));
    t.w.line("yield " + name(op(t, fmt::format("lt {}, {}", name(a), name(goal)), "bool[]")));
    t.w.between(fmt::format("}} ({}: i32[]) {{", name(b)));
    t.w.line("yield " + name(op(t, fmt::format("sem_read {} {{view = [index({})]}}", name(t.signals), number))));
    t.w.close("} : i32[]");
  }
  take(n, "");
}

// What some of the threads do, with what is their own.
void Subcores::branch(Team& t) {
  term("branch over the subcore");
  const int at = t.per > 1 ? t.subcore : t.core;
  const int64_t n = t.per > 1 ? t.per : t.cores;
  t.body.budget = 6;
  const int k = t.body.number(rng_.below(n));
  const bool several = rng_.chance(40);  // one branch per thread, as far as there are some
  const int chosen =
      several ? at : op(t, fmt::format("{} {}, {}", rng_.of({"eq", "lt", "ge", "ne"}), name(at), name(k)), "bool[]");
  t.w.open(fmt::format("cond {} () {{", name(chosen)));
  for (int64_t i = 0, end = several ? rng_.in(2, 3) : 2; i < end; ++i) {
    if (i) t.w.between("} () {");
    const Body::Mark m = t.body.enter();
    if (rng_.chance(75)) t.body.steps(static_cast<int>(rng_.in(1, 3)));
    t.w.line("yield");
    t.body.leave(m);
  }
  t.w.close("}");
}

// One SparseCore's subcores come together, and those of another one do not.
void Subcores::branch_of_group() {
  if (vector_ < 0) return;
  Team& t = vector();
  term("meeting of one SparseCore");
  const int k = t.body.number(rng_.below(cores_));
  t.w.open(fmt::format("cond {} () {{", name(op(t, fmt::format("eq {}, {}", name(t.core), name(k)), "bool[]"))));
  const bool first = rng_.chance(30);
  for (int i = 0; i < 2; ++i) {
    if (i) t.w.between("} () {");
    const Body::Mark m = t.body.enter();
    if (i || first) rng_.chance(50) ? words() : scoped_group();
    t.w.line("yield");
    t.body.leave(m);
  }
  t.w.close("}");
}

// Trips of a parallel_loop, each with a row of its own.
void Subcores::rows_apart(Team& t) {
  Body& b = t.body;
  std::vector<const Ref*> from, to;
  for (const Ref& r : b.refs) {
    if (r.type.dims.size() != 2 || r.type.dtype == DType::Bool) continue;
    if (b.can_read(r)) from.push_back(&r);
    if (b.can_write(r)) to.push_back(&r);
  }
  if (from.empty() || to.empty()) return;
  const Ref src = *rng_.of(from), dst = *rng_.of(to);
  const bool backwards = src.root != dst.root && rng_.chance(30);
  const int64_t rows = src.id == dst.id ? dst.type.dims[0] : std::min(src.type.dims[0], dst.type.dims[0]),
                columns = std::min(src.type.dims[1], dst.type.dims[1]);
  if (src.root == dst.root && src.id != dst.id) return;
  term("parallel_loop over rows");
  const Type row{dst.type.dtype, {columns}};
  const int lo = b.number(0), hi = b.number(rows), by = b.number(1), last = b.number(rows - 1), i = t.w.fresh();
  const Value x = b.some(row);
  t.w.open(fmt::format("parallel_loop {}, {}, {} ({}: i32[]) {{", name(lo), name(hi), name(by), name(i)));
  const Body::Mark m = b.enter();
  const int at = backwards ? two(t, "sub", last, i) : i;
  const auto view = [&](const char* index) { return fmt::format("view = [index({}, slice(0, {}))]", index, columns); };
  const Type read{src.type.dtype, {columns}};
  const Value v = b.keep(op(t, fmt::format("get {}, {} {{{}}}", name(src.id), name(at), view("$1")), str(read)), read);
  const Value w = b.fit(v, row);
  const bool plain = ir::is_float(row.dtype) || rng_.chance(30);
  const int sum =
      plain ? w.id : op(t, fmt::format("{} {}, {}", rng_.of({"add", "xor"}), name(w.id), name(x.id)), str(row));
  t.w.line(fmt::format("store {}, {}, {} {{{}}}", name(dst.id), name(sum), name(i), view("$2")));
  t.w.line("yield");
  b.leave(m);
  t.w.close("}");
}

// Memory of a SparseCore for a while: each subcore writes its row, and reads another one's.
void Subcores::scoped_group() {
  if (vector_ < 0) return;
  Team& t = vector();
  Body& b = t.body;
  term("scoped memory of a SparseCore");
  const Type row{b.dtypes[0], {columns_}}, all{row.dtype, {subcores_, columns_}};
  const Value x = b.some(row);
  const int ref = t.w.fresh(), out = t.w.fresh();
  t.w.open(
      fmt::format("{} = run_scoped ({}: {}) {{", name(out), name(ref), ref_type(all, "vmem_shared, subcore_group")));
  const std::string view = fmt::format("index($1, slice(0, {}))", columns_);
  t.w.line(fmt::format("store {}, {}, {} {{view = [index($2, slice(0, {}))]}}", name(ref), name(x.id), name(t.subcore),
                       columns_));
  barrier(t);
  const int other = rotated(t, t.subcore, 1, rng_.below(subcores_), subcores_);
  int v = op(t, fmt::format("get {}, {} {{view = [{}]}}", name(ref), name(other), view), str(row));
  if (rng_.chance(50)) v = op(t, "optimization_barrier " + name(v), str(row));
  barrier(t);  // who comes here again does not write before all have read
  t.w.line("yield " + name(v));
  t.w.close("} : " + str(row));
  b.keep(out, row);
}

// Scalars come from HBM or go there.
bool Subcores::small_copy(Team& t) {
  Body& b = t.body;
  const bool out = rng_.chance(50);
  if (out ? !b.can_read(t.small) : !b.can_write(t.small)) return false;
  std::vector<Ref> others;
  for (const Ref& r : b.refs)
    if (r.space == "hbm" && r.type.dims.size() == 2 && r.type.dtype == t.small.type.dtype &&
        (out ? b.can_write(r) : b.can_read(r)))
      others.push_back(r);
  if (others.empty()) return false;
  term("copy of scalars");
  const Ref other = rng_.of(others), src = out ? t.small : other, dst = out ? other : t.small;
  std::vector<int> operands{src.id, dst.id, moved_};
  const std::string rest = fmt::format("{}, dst_sem = view($2, [index({})])", dense(t, src, dst, &operands), copies_++);
  t.w.line(fmt::format("dma_start {} {{{}}}", names(operands), rest));
  Pending p;
  p.wait = fmt::format("dma_wait {} {{{}}}", names(operands), rest);
  p.lock = b.lock(src, dst);
  t.pending.push_back(p);
  return true;
}

}  // namespace pallasim::judge
