// Where the threads of programs of SparseCores meet, and what changes hands there.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "subcores.h"

namespace pallasim::judge {

void Subcores::barrier(Team& t) {
  term("barrier");
  t.w.line("sc_barrier");
}

// All subcores of both SparseCores: each signals the one at its place of the other.
void Subcores::cross() {
  Team& t = vector();
  term("meeting of SparseCores");
  barrier(t);
  const int e = t.signals_used++, other = two(t, "sub", t.body.number(1), t.core);
  const auto form = rng_.below(3);
  const std::string operands = name(t.signals) + ", " + name(other);
  if (form == 0) {
    t.w.line(
        fmt::format("sem_signal {}, {} {{view = [index({})], inc = 1, device_id = none, core_index = "
                    "[axis(\"core\", $1), axis(\"subcore\", $2)]}}",
                    operands, name(t.subcore), e));
  } else if (form == 1) {
    t.w.line(
        fmt::format("sem_signal {} {{view = [index({})], inc = 1, device_id = none, core_index = [axis(\"core\", "
                    "$1)]}}",
                    operands, e));
  } else {
    const int to = two(t, "add", two(t, "mul", other, t.body.number(subcores_)), t.subcore);
    t.w.line(fmt::format("sem_signal {}, {} {{view = [index({})], inc = 1, core_index = $1}}", name(t.signals),
                         name(to), e));
  }
  t.w.line(fmt::format("sem_wait {} {{view = [index({})], value = 1}}", name(t.signals), e));
  barrier(t);
}

// How many threads of `from` belong to one of `to`.
int64_t Subcores::senders(const Team& from, const Team& to) const {
  if (spans(to)) return from.threads();
  return spans(from) ? 1 : from.per;
}

void Subcores::to_each(Team& from, Team& to, const std::function<void(int)>& act) {
  if (to.per == 1 && (!spans(from) || spans(to))) return act(spans(to) ? from.body.number(0) : from.core);
  const int64_t n = spans(from) ? to.threads() : to.per;
  const int lo = from.body.number(0), hi = from.body.number(n), by = from.body.number(1);
  const int base = spans(from) ? lo : two(from, "mul", from.core, from.body.number(n)), i = from.w.fresh();
  from.w.open(fmt::format("for {}, {}, {} ({}: i32[]) {{", name(lo), name(hi), name(by), name(i)));
  const Body::Mark m = from.body.enter();
  from.body.values.push_back({i, {DType::I32, {}}, 0, n - 1, 32});
  act(two(from, "add", base, i));
  from.w.line("yield");
  from.body.leave(m);
  from.w.close("}");
}

void Subcores::signal(Team& from, Team& to, int number) {
  const std::string head = name(to.signals);
  const std::string view = fmt::format("view = [index({})], inc = 1", number);
  const bool beside = !spans(from) && !spans(to) && to.per == 1;
  if (beside && rng_.chance(40)) {  // the one at the own coordinates
    term("signal to who is beside");
    from.w.line(fmt::format("sem_signal {} {{{}}}", head, view));
    return;
  }
  if (beside && rng_.chance(40)) {
    from.w.line(fmt::format("sem_signal {}, {} {{{}, device_id = none, core_index = [axis(\"core\", $1)]}}", head,
                            name(from.core), view));
    return;
  }
  to_each(from, to, [&](int target) {
    from.w.line(fmt::format("sem_signal {}, {} {{{}, core_index = $1}}", head, name(target), view));
  });
}

// Everything that the threads of `from` did is behind what those of `to` that belong to them do from here on.
void Subcores::hand_over(Team& from, Team& to) {
  term("from " + from.mesh + " to " + to.mesh);
  const int e = to.signals_used++;
  signal(from, to, e);
  const int64_t n = senders(from, to);
  wait(to, e, n);
}

// (by * coordinate + from) mod count
int Subcores::rotated(Team& t, int coordinate, int64_t by, int64_t from, int64_t count) {
  int v = coordinate;
  if (by != 1) v = two(t, "mul", v, t.body.number(by));
  if (from != 0) v = two(t, "add", v, t.body.number(from));
  if (by != 1 || from != 0) v = two(t, "rem", v, t.body.number(count));
  return v;
}

// What the team may use of the array from here on, as a ref of its own.
void Subcores::grant(Shared& s, size_t team) {
  Team& t = *teams_[team];
  const bool all_cores = s.hbm && spans(t),
             one = t.kind == Kind::Vector && s.state != State::Add && (s.state == State::Owned || rng_.chance(40));
  const std::string slot = fmt::format("slice(0, {}), slice(0, {})", rows_, columns_),
                    space = s.hbm ? "hbm" : "vmem_shared, subcore_group";
  std::string operands, entries;
  Dims dims{rows_, columns_};
  if (s.hbm && all_cores) entries = fmt::format("slice(0, {}), ", cores_);
  else if (s.hbm) {
    operands = ", " + name(rotated(t, t.core, 1, s.shift, cores_));
    entries = "$1, ";
  }
  if (one) {
    const bool owned = s.state == State::Owned;
    const int at = rotated(t, t.subcore, owned ? s.by : 1, owned ? s.from : rng_.below(subcores_), subcores_);
    operands += ", " + name(at);
    entries += s.hbm ? "$2, " : "$1, ";
  } else {
    entries += fmt::format("slice(0, {}), ", subcores_);
    dims.insert(dims.begin(), subcores_);
    if (all_cores) dims.insert(dims.begin(), cores_);
  }
  std::string view = "index(" + entries + slot + ")";
  if (dims.size() > 2 && (s.state == State::Add || rng_.chance(75))) {
    const int64_t rows = dims.size() == 4 ? cores_ * subcores_ * rows_ : subcores_ * rows_;
    dims = {rows, columns_};
    view += fmt::format(", reshape({}, {})", rows, columns_);
  }
  const Type type{s.slot.dtype, dims};
  const Ref r{op(t, fmt::format("view {}{} {{view = [{}]}}", name(s.id), operands, view), ref_type(type, space)), type,
              static_cast<int>(t.body.roots.size()), space};
  t.body.roots.push_back({s.state != State::Read});
  s.roots.emplace_back(team, r.root);
  if (s.state == State::Add) s.whole = r;
  else t.body.refs.push_back(r);
}

void Subcores::grant_all(Shared& s) {
  s.roots.clear();
  for (size_t t : s.holders) grant(s, t);
}

void Subcores::choose_state(Shared& s) {
  const auto n = static_cast<int64_t>(teams_.size());
  const bool counts = !s.hbm && ir::is_int(s.slot.dtype);
  const auto kind = rng_.below(10);
  s.holders.clear();
  const auto may = [&](size_t t) { return s.hbm || teams_[t]->kind != Kind::Tensor; };
  const auto any = [&] {
    size_t t;
    do t = static_cast<size_t>(rng_.below(n));
    while (!may(t));
    return t;
  };
  if (counts && kind < 4) {
    s.state = State::Add, s.holders = {static_cast<size_t>(vector_)};
    return;
  }
  s.state = kind < 7 ? State::Owned : State::Read;
  s.holders.insert(any());
  while (s.state == State::Read && rng_.chance(50)) s.holders.insert(any());
  s.by = 1, s.from = 0;
  if (vector_ >= 0 && rng_.chance(70)) {
    s.from = rng_.below(subcores_);
    if (subcores_ % 2 == 0 && rng_.chance(30)) s.by = subcores_ - 1;
  }
}

// What was there goes where it is seen, and something else comes there.
void Subcores::use(Shared& s) {
  if (s.state == State::Add) return rng_.chance(50) ? start_add(s) : void();
  for (const auto& [team, root] : s.roots) {
    Body& b = teams_[team]->body;
    const auto held = std::find_if(b.refs.begin(), b.refs.end(), [&, at = root](const Ref& r) { return r.root == at; });
    if (held == b.refs.end()) continue;
    const Ref r = *held;
    b.budget = 8;
    if (rng_.chance(70)) {
      const Value v = b.read(r);
      b.late_use({rng_.chance(30) ? b.derived(v) : v, v});
    }
    if (!b.can_write(r) || rng_.chance(40)) continue;
    const Value x = b.some({r.type.dtype, {}});
    teams_[team]->w.line((rng_.chance(60) && r.type.dtype != DType::Bool ? "addupdate " : "store ") + name(r.id) +
                         ", " + name(b.fit(x, r.type).id));
  }
}

// All holders of the arrays come together with those who hold them from here on.
void Subcores::meet(const std::vector<size_t>& which, const std::function<void(Shared&)>& change) {
  if (which.empty()) return;
  std::vector<std::pair<size_t, Value>> kept;  // what was read before, and is used behind
  std::set<std::pair<size_t, size_t>> pairs;
  bool crosses = false;
  for (size_t k : which) {
    Shared& s = shared_[k];
    await_users(s);
    for (const auto& [team, root] : s.roots) {
      Body& b = teams_[team]->body;
      for (size_t i = 0; i < b.refs.size() && s.state != State::Add; ++i)
        if (b.refs[i].root == root && rng_.chance(50)) {
          const Value v = b.read(Ref(b.refs[i]));
          kept.emplace_back(team, rng_.chance(50) ? b.derived(v) : v);
          break;
        }
      b.roots[static_cast<size_t>(root)].writing = 1;  // from here on somebody else's
    }
    const std::set<size_t> before = s.holders;
    const int64_t shift = s.shift;
    change(s);
    crosses = crosses || s.shift != shift;
    for (size_t a : before)
      for (size_t b : s.holders) pairs.insert({a, b});
  }
  // Subcores come together last: they have to know of what came from elsewhere.
  for (const auto& [a, b] : pairs)
    if (a != b) hand_over(*teams_[a], *teams_[b]);
  const auto v = static_cast<size_t>(std::max(vector_, 0));
  if (crosses) cross();
  else if (vector_ >= 0 && pairs.count({v, v})) barrier(vector());
  for (size_t k : which) grant_all(shared_[k]);
  for (size_t k : which) use(shared_[k]);
  for (const auto& [team, v] : kept) {
    teams_[team]->body.budget = 4;
    teams_[team]->body.late_use({v});
  }
}

void Subcores::change_hands() {
  std::vector<size_t> which;
  for (size_t k = 0; k < shared_.size(); ++k)
    if (rng_.chance(60)) which.push_back(k);
  meet(which, [&](Shared& s) {
    const bool by_vector = vector_ >= 0 && s.holders == std::set<size_t>{static_cast<size_t>(vector_)};
    choose_state(s);
    // A loop has to be able to bring it back.
    const std::set<size_t> all{static_cast<size_t>(vector_)};
    const bool back = !outside_ || (*outside_)[static_cast<size_t>(&s - shared_.data())].holders == all;
    if (by_vector && s.hbm && cores_ == 2 && s.holders == all && back && rng_.chance(40)) s.shift = 1 - s.shift;
  });
}

// Words of other subcores: set, added to, and looked at behind barriers.
void Subcores::words() {
  if (vector_ < 0) return;
  Team& t = vector();
  Body& b = t.body;
  term("words of others");
  const auto slot = rng_.below(4);
  const Type scalar{DType::I32, {}};
  t.w.line(fmt::format("store {}, {} {{view = [index({})]}}", name(words_), name(b.some(scalar).id), slot));
  barrier(t);
  const bool one_by_one = rng_.chance(50);
  if (one_by_one) {  // each word by one subcore: what it finds is known
    const int to = rotated(t, t.subcore, 1, rng_.below(subcores_), subcores_);
    b.keep(op(t, fmt::format("sc_fetch_and_add {}, {}, {} {{view = [index({})], subcore = $2}}", name(words_),
                             name(b.some(scalar).id), name(to), slot)),
           scalar);
  } else {
    const int lo = b.number(0), hi = b.number(rng_.in(1, subcores_)), by = b.number(1), x = b.some(scalar).id,
              i = t.w.fresh();
    t.w.open(fmt::format("for {}, {}, {} ({}: i32[]) {{", name(lo), name(hi), name(by), name(i)));
    op(t, fmt::format("sc_fetch_and_add {}, {}, {} {{view = [index({})], subcore = $2}}", name(words_),
                      name(rng_.chance(50) ? x : t.subcore), name(i), slot));
    t.w.line("yield");
    t.w.close("}");
  }
  barrier(t);
  b.keep(op(t, fmt::format("get {} {{view = [index({})]}}", name(words_), slot)), scalar);
}

}  // namespace pallasim::judge
