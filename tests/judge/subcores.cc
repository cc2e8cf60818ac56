// What programs of SparseCores declare, and how their parts follow each other.
#include "subcores.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace pallasim::judge {

void Subcores::choose() {
  cores_ = rng_.chance(40) ? 2 : 1;
  const int64_t n = rng_.chance(5) ? 16 : rng_.chance(10) ? 8 : rng_.in(2, 4);
  const auto kinds = rng_.below(100);
  const auto add = [&](Kind k, const char* mesh, int64_t cores, int64_t per) {
    if (k == Kind::Vector) vector_ = static_cast<int>(teams_.size()), subcores_ = per;
    teams_.push_back(std::make_unique<Team>(k, mesh, cores, per, rng_, c_.terms));
  };
  std::vector<Kind> bodies{Kind::Vector};
  if (kinds >= 25) bodies.push_back(Kind::Scalar);
  if (kinds >= 55) bodies.push_back(Kind::Tensor);
  if (kinds >= 75) bodies.erase(bodies.begin() + 1);
  if (kinds >= 92) bodies = {Kind::Scalar, Kind::Tensor};
  if (kinds >= 97) bodies = {rng_.of({Kind::Scalar, Kind::Tensor})};
  if (rng_.chance(50)) std::reverse(bodies.begin(), bodies.end());
  for (Kind k : bodies) {
    if (k == Kind::Vector) add(k, "vs", cores_, n);
    else if (k == Kind::Scalar) add(k, "ss", cores_, 1);
    else add(k, "tc", bodies.size() > 1 && rng_.chance(50) ? 1 : cores_, 1);
  }
  term(fmt::format("{} bodies", teams_.size()));
  rows_ = rng_.of({1, 2, 3, 4, 4, 5, 8}), columns_ = rng_.of({1, 3, 4, 8, 8, 16});
  if (n == 16) rows_ = 2, columns_ = 4;
  std::vector<DType> dtypes{DType::I32, DType::F32};
  if (rng_.chance(40)) dtypes.push_back(rng_.of({DType::BF16, DType::I8, DType::I16, DType::U32, DType::F16}));
  std::swap(dtypes[0], rng_.of(dtypes));
  if (rng_.chance(40)) dtypes[0] = DType::I32;
  for (auto& t : teams_) {
    t->body.dtypes = dtypes, t->body.extents = {rows_, columns_};
    t->body.copies = rng_.chance(70);
  }
}

int Subcores::add(Declared d) {
  declared_.push_back(std::move(d));
  for (auto& t : teams_) t->w.fresh();
  return static_cast<int>(declared_.size()) - 1;
}

void Subcores::declare() {
  const DType main = teams_[0]->body.dtypes[0];
  tables_ = static_cast<int>(rng_.in(1, 2));
  for (int k = 0; k < tables_; ++k) {
    const Type t{main, {rows_ + rng_.in(0, 8), columns_}};
    add({"input", fmt::format("table{}", k), str(t) + " {space = hbm}", ref_type(t, "hbm"), t});
  }
  const Type flat{main, {rng_.in(8, 24)}};
  add({"input", "flat", str(flat) + " {space = hbm}", ref_type(flat, "hbm"), flat});
  const auto lists = [&](const char* n, int64_t length) {
    const Type t{DType::I32, {cores_, subcores_, length}};
    return add({"input", n, str(t) + " {space = hbm}", ref_type(t, "hbm"), t});
  };
  order_ = lists("order", 16), perm_ = lists("perm", rows_);
  for (int64_t k = 0, n = rng_.in(1, 3); k < n; ++k) {
    Shared s;
    s.name = fmt::format("all{}", k);
    s.hbm = vector_ < 0 || rng_.chance(50);
    s.slot = {rng_.chance(80) ? main : rng_.of(teams_[0]->body.dtypes), {rows_, columns_}};
    const Type t{s.slot.dtype, {cores_, subcores_, rows_, columns_}};
    if (s.hbm && rng_.chance(30))
      s.input = add({"input", s.name + "_in", str(t) + " {space = hbm}", ref_type(t, "hbm"), t});
    shared_.push_back(s);
  }
  declare_outputs();
  declare_own();
}

void Subcores::declare_outputs() {
  const DType main = teams_[0]->body.dtypes[0];
  const auto first = declared_.size();
  const auto output = [&](const std::string& n, const Type& t) {
    return add({"output", n, str(t) + " {space = hbm}", ref_type(t, "hbm"), t});
  };
  for (Shared& s : shared_) {
    s.id = output(s.name, {s.slot.dtype, {cores_, subcores_, rows_, columns_}});
    if (s.input < 0) continue;
    term("array that is changed in place");
    aliases_ += fmt::format("alias {{input = {}, output = {}}}\n", s.input, static_cast<size_t>(s.id) - first);
    if (rng_.chance(50)) s.id = s.input;  // the kernel knows it by either name
  }
  for (auto& t : teams_) {
    t->ends = declared_.size();
    for (int k = 0; k < 5; ++k) {
      Type of{k == 2 ? DType::I32 : main, {t->threads(), rows_, columns_}};
      if (k == 2) of.dims = {t->threads(), columns_};
      if (k == 4) of.dims = {t->threads(), 16};
      output(fmt::format("end_{}_{}", t->mesh, k), of);
    }
  }
}

// Scratch. How many semaphores there are is known at the end.
void Subcores::declare_own() {
  const DType main = teams_[0]->body.dtypes[0];
  const auto scratch = [&](const std::string& n, const Type& t, const std::string& space) {
    return add({"scratch", n, ref_type(t, space), ref_type(t, space), t});
  };
  for (Shared& s : shared_) {
    if (s.hbm) continue;
    dumps_.push_back(static_cast<size_t>(s.id));
    s.id = scratch("group_" + s.name, {s.slot.dtype, {subcores_, rows_, columns_}}, "vmem_shared, subcore_group");
  }
  for (int k = 0; k < 2; ++k) {
    const Type t{main, {rows_, columns_}};
    const int id = scratch(fmt::format("own{}", k), t, "vmem");
    for (auto& team : teams_) team->own.push_back({id, t, -1, "vmem"});
  }
  const Type counts{DType::I32, {columns_}}, lists{DType::I32, {16}};
  const int bins = scratch("bins", counts, "vmem"), held = scratch("held", lists, "vmem");
  const Type block{main, {rows_, columns_}};
  const Type elements{main, {16}};
  const int small = scratch("small", block, "smem"), line = scratch("line", elements, "vmem");
  for (auto& t : teams_)
    t->bins = {bins, counts, -1, "vmem"}, t->held = {held, lists, -1, "vmem"}, t->small = {small, block, -1, "smem"},
    t->line = {line, elements, -1, "vmem"};
  words_ = scratch("words", {DType::I32, {4}}, "smem");
  moved_ = add({"scratch", "moved", "", "", {}});
  for (auto& t : teams_) {
    const std::string of = teams_.size() > 1 ? fmt::format(", @\"{}\"", t->mesh) : "";
    t->signals = add({"scratch", "signals_" + t->mesh, of, "", {}});
    t->came = add({"scratch", "came_" + t->mesh, of, "", {}});
    for (int64_t k = 0, n = rng_.below(3); k < n; ++k) {
      const Type in{main, {rows_, columns_}};
      const std::string space = "vmem" + of;
      t->incoming.push_back({scratch(fmt::format("in_{}_{}", t->mesh, k), in, space), in, -1, space});
    }
  }
}

void Subcores::begin() {
  for (auto& p : teams_) {
    Team& t = *p;
    const auto coordinate = [&](const char* axis, int64_t n) {
      const int id = op(t, fmt::format("axis_index {{axis = \"{}\"}}", axis));
      t.body.values.push_back({id, {DType::I32, {}}, 0, n - 1, 16});
      return id;
    };
    t.core = coordinate("core", t.cores);
    t.subcore = t.kind == Kind::Vector ? coordinate("subcore", subcores_) : t.body.number(0);
    for (int k = 0; k <= tables_; ++k) {  // and elements behind the tables
      t.body.refs.push_back({k, declared_[static_cast<size_t>(k)].array, static_cast<int>(t.body.roots.size()), "hbm"});
      t.body.roots.push_back({false});
    }
    t.own.push_back(t.bins), t.own.push_back(t.small), t.own.push_back(t.line);
    for (Ref& r : t.own) {
      r.root = static_cast<int>(t.body.roots.size());
      t.body.roots.push_back({});
      t.body.fill(r);
      t.body.refs.push_back(r);
    }
    t.bins = t.own[2], t.small = t.own[3], t.line = t.own[4];
  }
}

// Whoever holds an array first writes all of it, or finds there what the call gave.
void Subcores::first_writes() {
  for (Shared& s : shared_) {
    s.holders = {static_cast<size_t>(rng_.below(static_cast<int64_t>(teams_.size())))};
    if (!s.hbm && teams_[*s.holders.begin()]->kind == Kind::Tensor) s.holders = {static_cast<size_t>(vector_)};
    grant_all(s);
    if (s.input >= 0 && rng_.chance(60)) continue;
    Body& b = teams_[*s.holders.begin()]->body;
    const Ref r = b.refs.back();
    b.roots[static_cast<size_t>(r.root)].writing = 1;  // nobody reads it yet
    b.fill(r);
    b.roots[static_cast<size_t>(r.root)].writing = 0;
  }
}

void Subcores::event(int depth) {
  for (Shared& s : shared_)
    if (s.state == State::Add && rng_.chance(40)) return start_add(s);
  Team& t = *rng_.of(teams_);
  switch (rng_.below(16)) {
    case 0:
    case 1: return steps(t);
    case 2:
    case 3:
    case 4: return start_copy(t);
    case 5: return vector_ >= 0 ? vector_step(vector()) : steps(t);
    case 6: return words();
    case 7: return depth == 0 && rng_.chance(60) ? loop(depth) : steps(t);
    case 8: return deliver();
    case 9: {
      if (!t.pending.empty()) await(t, static_cast<size_t>(rng_.below(static_cast<int64_t>(t.pending.size()))));
      for (Shared& s : shared_)
        if (s.state == State::Add) start_add(s);
      return;
    }
    case 10: return rng_.chance(75) ? branch(t) : branch_of_group();
    case 11: return rows_apart(t);
    case 12: return rng_.chance(50) ? scoped_group() : steps(t);
    default: return change_hands();
  }
}

// What is left goes where it is seen.
void Subcores::results() {
  for (auto& t : teams_) await_all(*t), steps(*t), await_all(*t);
  std::vector<size_t> groups;
  for (size_t k = 0; k < shared_.size(); ++k)
    if (!shared_[k].hbm) groups.push_back(k);
  meet(groups,
       [&](Shared& s) { s.state = State::Owned, s.holders = {static_cast<size_t>(vector_)}, s.by = 1, s.from = 0; });
  const std::string all = fmt::format("slice(0, {}), slice(0, {})", rows_, columns_);
  for (size_t k = 0; k < groups.size(); ++k) {
    Team& t = vector();
    const Shared& s = shared_[groups[k]];
    const int v =
        op(t, fmt::format("get {}, {} {{view = [index($1, {})]}}", name(s.id), name(t.subcore), all), str(s.slot));
    t.w.line(fmt::format("store {}, {}, {}, {} {{view = [index($2, $3, {})]}}", name(static_cast<int>(dumps_[k])),
                         name(v), name(t.core), name(t.subcore), all));
  }
  for (auto& p : teams_) {
    Team& t = *p;
    const int me = t.per > 1 ? two(t, "add", two(t, "mul", t.core, t.body.number(t.per)), t.subcore) : t.core;
    for (size_t k = 0; k < t.own.size(); ++k) {
      std::string rest;
      for (int64_t n : t.own[k].type.dims) rest += fmt::format(", slice(0, {})", n);
      const int v = op(t, "get " + name(t.own[k].id), str(t.own[k].type));
      t.w.line(fmt::format("store {}, {}, {} {{view = [index($2{})]}}", name(static_cast<int>(t.ends + k)), name(v),
                           name(me), rest));
    }
  }
}

void Subcores::arguments() {
  for (const Declared& d : declared_) {
    if (d.kind != "input") continue;
    std::vector<double> v;
    const bool order = d.name == "order";
    while (order && static_cast<int64_t>(v.size()) < d.array.size()) {  // runs of neighbours
      const int64_t first = rng_.below(rows_);
      for (int64_t row = first, n = rng_.in(1, 4); row < std::min(rows_, first + n); ++row)
        v.push_back(static_cast<double>(row));
    }
    if (order) v.resize(static_cast<size_t>(d.array.size()));
    for (int64_t k = cores_ * subcores_; k > 0 && d.name == "perm"; --k)
      for (int64_t row : rng_.permutation(rows_)) v.push_back(static_cast<double>(row));
    for (int64_t k = d.array.size() - static_cast<int64_t>(v.size()); k > 0; --k)
      v.push_back(ir::is_float(d.array.dtype)
                      ? static_cast<double>(rng_.in(-16, 16)) / 4
                      : static_cast<double>(rng_.in(ir::is_unsigned_int(d.array.dtype) ? 0 : -3, 12)));
    c_.args.push_back({d.array.dtype, d.array.dims, encode(d.array.dtype, v)});
  }
}

std::string Subcores::text() {
  const auto semaphores = [&](int at, const char* type, int n) {
    Declared& d = declared_[static_cast<size_t>(at)];
    d.type = d.ref = fmt::format("ref<{}[{}], semaphore{}>", type, std::max(1, n), d.type);
  };
  semaphores(moved_, "dma_sem", copies_);
  for (auto& t : teams_) semaphores(t->signals, "sem", t->signals_used), semaphores(t->came, "dma_sem", t->came_used);
  std::string r = fmt::format("pallasim-ir 1\nmodule \"subcores_{}\" {{machine = tpu}}\n", c_.seed), args;
  for (const auto& t : teams_)
    r += fmt::format("mesh \"{}\" {{kind = {}, axes = [axis(\"core\", {}){}]}}\n", t->mesh,
                     t->kind == Kind::Vector   ? "vector_subcore"
                     : t->kind == Kind::Scalar ? "scalar_subcore"
                                               : "tensorcore",
                     t->cores, t->kind == Kind::Vector ? fmt::format(", axis(\"subcore\", {})", subcores_) : "");
  for (size_t k = 0; k < declared_.size(); ++k) {
    const Declared& d = declared_[k];
    r += fmt::format("{} \"{}\" : {}\n", d.kind, d.name, d.type);
    args += fmt::format("{}{} \"{}\": {}", k ? ", " : "", name(static_cast<int>(k)), d.name, d.ref);
  }
  r += aliases_;
  for (const auto& t : teams_) r += fmt::format("body \"{}\" ({}) {{\n{}  yield\n}}\n", t->mesh, args, t->w.text());
  return r;
}

void Subcores::make() {
  choose();
  declare();
  begin();
  first_writes();
  for (int64_t k = rng_.in(4, 10); k > 0; --k) event(0);
  results();
  arguments();
  c_.text = text();
}

Case generate_subcores(uint64_t seed) { return make_case<Subcores>(seed); }

}  // namespace pallasim::judge
