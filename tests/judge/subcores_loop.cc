// Loops that all bodies of a program of SparseCores run, with meetings inside.
#include <fmt/format.h>

#include <functional>

#include "subcores.h"

namespace pallasim::judge {

// Something is carried from trip to trip; own memory may live for one of them.
Subcores::Round Subcores::open_round(Team& t, bool is_while, int64_t trips) {
  Body& b = t.body;
  Round r;
  r.is_while = is_while;
  r.carried = rng_.chance(50) ? Type{DType::I32, {}} : Type{b.dtypes[0], {columns_}};
  const Value start = b.calm(b.some(r.carried));
  const int lo = b.number(0), by = b.number(1);
  int hi = b.number(trips);
  if (rng_.chance(30)) hi = two(t, "add", hi, two(t, "min", t.core, lo));  // known at run time
  r.roots = b.roots;
  const std::string type = str(r.carried);
  const int count = t.w.fresh();
  r.out = t.w.fresh(), r.index = t.w.fresh(), r.carry = {t.w.fresh(), r.carried, 0, -1, 8};
  const auto arguments = [&](int index, int carry) {
    return fmt::format("({}: i32[], {}: {})", name(index), name(carry), type);
  };
  if (is_while) {
    const int index = t.w.fresh(), carry = t.w.fresh();
    t.w.open(fmt::format("{}, {} = while {}, {} {} {{", name(count), name(r.out), name(lo), name(start.id),
                         arguments(index, carry)));
    t.w.line("yield " + name(op(t, fmt::format("lt {}, {}", name(index), name(hi)), "bool[]")));
    t.w.between("} " + arguments(r.index, r.carry.id) + " {");
  } else {
    t.w.open(fmt::format("{} = for {}, {}, {}, {} {} {{", name(r.out), name(lo), name(hi), name(by), name(start.id),
                         arguments(r.index, r.carry.id)));
  }
  r.around = b.enter();
  b.values.push_back({r.index, {DType::I32, {}}, 0, trips - 1, 4});
  b.values.push_back(r.carry);
  r.has_scope = rng_.chance(30);
  if (!r.has_scope) return r;
  term("memory of a trip");
  Ref own{t.w.fresh(), {b.dtypes[0], {rows_, columns_}}, static_cast<int>(b.roots.size()), "vmem"};
  t.w.open(fmt::format("run_scoped ({}: {}) {{", name(own.id), ref_type(own.type, own.space)));
  r.scope = b.enter();
  b.roots.push_back({});
  b.fill(own);
  b.refs.push_back(own);
  return r;
}

void Subcores::close_round(Team& t, const Round& r) {
  Body& b = t.body;
  if (r.has_scope) {
    t.w.line("yield");
    b.leave(r.scope);
    t.w.close("}");
  }
  const Value next = b.calm(rng_.chance(60) ? b.combine(r.carry, b.some({r.carried.dtype, {}})) : b.some(r.carried));
  const int count = r.is_while ? two(t, "add", r.index, b.number(1)) : -1;
  t.w.line("yield " + (r.is_while ? name(count) + ", " : "") + name(next.id));
  b.leave(r.around);
  b.roots = r.roots;
  t.w.close(fmt::format("}} : {}{}", r.is_while ? "i32[], " : "", str(r.carried)));
  b.keep(r.out, r.carried, 8);
}

// At its end everything is where it was at its beginning.
void Subcores::loop(int depth) {
  for (auto& t : teams_) await_all(*t);
  const bool is_while = rng_.chance(35);
  term(is_while ? "meetings in a while" : "meetings in a for");
  const int64_t trips = rng_.in(1, 3);
  const std::vector<Shared> before = shared_;
  std::vector<Round> rounds;
  for (auto& t : teams_) rounds.push_back(open_round(*t, is_while, trips));
  outside_ = &before;
  for (int64_t k = rng_.in(2, 4); k > 0; --k) event(depth + 1);
  for (auto& t : teams_) await_all(*t);
  std::vector<size_t> moved;
  for (size_t k = 0; k < shared_.size(); ++k)
    if (shared_[k].roots != before[k].roots) moved.push_back(k);
  meet(moved, [&](Shared& s) {
    const Shared& was = before[static_cast<size_t>(&s - shared_.data())];
    s.state = was.state, s.holders = was.holders, s.by = was.by, s.from = was.from, s.shift = was.shift;
  });
  for (auto& t : teams_) await_all(*t);
  outside_ = nullptr;
  shared_ = before;
  for (size_t k = 0; k < teams_.size(); ++k) close_round(*teams_[k], rounds[k]);
}

}  // namespace pallasim::judge
