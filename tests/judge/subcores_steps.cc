// What threads of programs of SparseCores do with what they hold: copies that stay under way across meetings, rows that
// lists choose, vectors.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "subcores.h"

namespace pallasim::judge {

void Subcores::steps(Team& t) {
  t.body.budget = static_cast<int>(rng_.in(3, 9));
  t.body.steps(static_cast<int>(rng_.in(1, 3)));
}

// Slices of both sides, of one size; the first one may be known at run time only.
std::string Subcores::dense(Team& t, const Ref& src, const Ref& dst, std::vector<int>* operands) {
  Body& b = t.body;
  std::string from, to;
  const auto start = [&](int64_t room) {
    if (room == 0 || rng_.chance(60)) return std::to_string(rng_.in(0, room));
    operands->push_back(b.index_in(room));
    return fmt::format("${}", operands->size() - 1);
  };
  for (size_t i = 0; i < src.type.dims.size(); ++i) {
    const int64_t n = std::min(src.type.dims[i], dst.type.dims[i]), size = rng_.in((n + 1) / 2, n);
    std::string e = std::to_string(size);
    if (i == 0 && rng_.chance(25)) {
      operands->push_back(b.index_in(size));
      e = fmt::format("${}", operands->size() - 1);
    }
    from += fmt::format("{}slice({}, {})", i ? ", " : "", start(src.type.dims[i] - size), e);
    to += fmt::format("{}slice({}, {})", i ? ", " : "", start(dst.type.dims[i] - size), e);
  }
  return fmt::format("src = view($0, [index({})]), dst = view($1, [index({})])", from, to);
}

// Numbers of rows: runs of neighbours, or whatever the program computes. `ignored` may come in between.
Value Subcores::list(Team& t, int64_t n, int64_t extent, bool twice, int64_t ignored) {
  Body& b = t.body;
  const Type type{DType::I32, {n}};
  const int64_t most = twice ? 16 : rows_;
  const bool foreign = ignored != INT64_MAX && (ignored < 0 || ignored >= rows_);  // no row of a slot
  if (!foreign && !spans(t) && n <= most && extent >= rows_ && rng_.chance(35)) {  // of the thread's own
    term("list of each subcore's own");
    const int64_t first = rng_.in(0, most - n);
    const int from = twice ? order_ : perm_;
    int rows = op(t,
                  fmt::format("get {}, {}, {} {{view = [index($1, $2, slice({}, {}))]}}", name(from), name(t.core),
                              name(t.subcore), first, n),
                  str(type));
    if (extent > rows_ && rng_.chance(60))
      rows = op(t, fmt::format("add {}, {}", name(rows), name(b.number(rng_.in(1, extent - rows_)))), str(type));
    return b.keep(rows, type);
  }
  if (ignored == INT64_MAX && rng_.chance(40)) {
    if (twice) return b.indices({n}, extent);
    Value all = b.permutation(extent);
    if (n == extent) return all;
    const int64_t first = rng_.in(0, extent - n);
    return b.keep(
        op(t, fmt::format("slice {} {{start = [{}], limit = [{}]}}", name(all.id), first, first + n), str(type)), type);
  }
  std::vector<double> v;
  std::vector<bool> taken(static_cast<size_t>(extent), false);
  while (static_cast<int64_t>(v.size()) < n) {
    int64_t row = rng_.below(extent);
    if (!twice)
      while (taken[static_cast<size_t>(row)]) row = (row + 1) % extent;
    for (int64_t k = rng_.in(1, 4); k > 0 && row < extent && static_cast<int64_t>(v.size()) < n; --k, ++row) {
      if (!twice && taken[static_cast<size_t>(row)]) break;
      taken[static_cast<size_t>(row)] = true;
      v.push_back(ignored != INT64_MAX && rng_.chance(40) ? static_cast<double>(ignored) : static_cast<double>(row));
    }
  }
  return b.keep(op(t, "constant {value = " + judge::dense(type, v) + "}", str(type)), type);
}

// Rows of one side that a list chooses. The list is an array, or own memory that holds it, all or as much of it as is
// known at run time.
std::string Subcores::chosen(Team& t, const Ref& src, const Ref& dst, bool scatters, bool twice,
                             std::vector<int>* operands, bool* held) {
  Body& b = t.body;
  const Dims &from = src.type.dims, &to = dst.type.dims;
  const size_t dim = from.size() > 1 && rng_.chance(12) ? 1 : 0;
  const int64_t extent = scatters ? to[dim] : from[dim],
                most = std::min<int64_t>({16, scatters ? from[dim] : to[dim], twice ? 16 : extent}),
                n = rng_.in((most + 1) / 2, most);
  const int64_t ignored = rng_.chance(70) ? INT64_MAX : rng_.of<int64_t>({-1, 77, rng_.below(extent)});
  const Value rows = list(t, n, extent, twice, ignored);
  *held = !t.held_busy && rng_.chance(60);
  std::string count = std::to_string(n), plain, choice;
  int by = rows.id;
  if (*held) {
    const std::string all = fmt::format("{{view = [index(slice(0, {}))]}}", n);
    t.w.line(fmt::format("store {}, {} {}", name(t.held.id), name(rows.id), all));
    std::string take = count, operand;
    if (!scatters && rng_.chance(25)) {
      term("list of a length known at run time");
      const int k = b.index_in(n);
      operands->push_back(k);
      count = fmt::format("${}", operands->size() - 1);
      take = "$1", operand = ", " + name(k);
    }
    by = op(t, fmt::format("view {}{} {{view = [index(slice(0, {}))]}}", name(t.held.id), operand, take),
            ref_type({DType::I32, {n}}, "vmem"));
  }
  if (!*held && rng_.chance(15)) {
    term("list of another width");
    const DType narrow = rng_.of({DType::I8, DType::I16, DType::U8, DType::U32});
    if (ignored == INT64_MAX || (ignored >= 0 && ignored < 100))
      by = op(t, "convert " + name(by), str(Type{narrow, {n}}));
  }
  operands->push_back(by);
  const std::string item = fmt::format("{}(${}{})", *held ? "ref" : "array", operands->size() - 1,
                                       ignored == INT64_MAX ? "" : fmt::format(", {}", ignored));
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t size = std::min(from[i], to[i]);
    const std::string rest = fmt::format("{}slice(0, {})", i ? ", " : "", size);
    choice += i == dim ? (i ? ", " : "") + item : rest;
    plain += i == dim ? fmt::format("{}slice(0, {})", i ? ", " : "", count) : rest;
  }
  term(std::string(scatters ? "rows of the destination" : "rows of the source") + (*held ? ", by a ref" : "") +
       (ignored == INT64_MAX ? "" : ", some ignored"));
  return fmt::format("src = view($0, [index({})]), dst = view($1, [index({})])", scatters ? plain : choice,
                     scatters ? choice : plain);
}

void Subcores::start_copy(Team& t) {
  Body& b = t.body;
  if (rng_.chance(10) && small_copy(t)) return;
  Ref src, dst;
  if (!b.copy_pair(&src, &dst, false)) return;
  const bool adds = ir::is_int(dst.type.dtype) && rng_.chance(30), scatters = rng_.chance(50);
  std::vector<int> operands{src.id, dst.id, moved_};
  Pending p;
  std::string views;
  // Rows of a window that begins anywhere are refused: it may reach into the padding of tiles.
  if (src.part || dst.part || rng_.chance(30)) views = dense(t, src, dst, &operands), term("copy");
  else views = chosen(t, src, dst, scatters, !scatters || adds, &operands, &p.uses_held);
  if (adds) term("copy that adds");
  const std::string rest = fmt::format("{}, dst_sem = view($2, [index({})])", views, place(t, copies_++, &operands));
  t.w.line(fmt::format("dma_start {} {{{}{}}}", names(operands), rest, adds ? ", add = true" : ""));
  p.wait = fmt::format("dma_wait {} {{{}}}", names(operands), rest);
  p.lock = b.lock(src, dst);
  t.held_busy = t.held_busy || p.uses_held;
  t.pending.push_back(p);
  if (rng_.chance(40)) await(t, t.pending.size() - 1);
}

// Every subcore adds rows of its own to those of all.
void Subcores::start_add(Shared& s) {
  Team& t = vector();
  std::vector<Ref> from;
  for (const Ref& r : t.body.refs)
    if (!r.part && r.type.dtype == s.slot.dtype && r.type.dims.size() == 2 && t.body.can_read(r)) from.push_back(r);
  if (from.empty()) return;
  term("rows that all add to");
  const Ref src = rng_.of(from);
  std::vector<int> operands{src.id, s.whole.id, moved_};
  Pending p;
  const std::string views = chosen(t, src, s.whole, true, true, &operands, &p.uses_held),
                    rest = fmt::format("{}, dst_sem = view($2, [index({})])", views, place(t, copies_++, &operands));
  t.w.line(fmt::format("dma_start {} {{{}, add = true}}", names(operands), rest));
  p.wait = fmt::format("dma_wait {} {{{}}}", names(operands), rest);
  p.lock = t.body.lock(src, s.whole);
  t.held_busy = t.held_busy || p.uses_held;
  t.pending.push_back(p);
  if (rng_.chance(40)) await(t, t.pending.size() - 1);
}

void Subcores::await(Team& t, size_t which) {
  const Pending p = t.pending[which];
  t.pending.erase(t.pending.begin() + static_cast<ptrdiff_t>(which));
  t.w.line(p.wait);
  if (p.lock.src >= 0) t.body.unlock(p.lock);
  if (p.uses_held) t.held_busy = false;
  if (p.arrives.id < 0) return;
  Ref r = p.arrives;
  r.root = static_cast<int>(t.body.roots.size());
  t.body.roots.push_back({});
  t.body.refs.push_back(r);
}

void Subcores::await_all(Team& t) {
  while (!t.pending.empty()) await(t, static_cast<size_t>(rng_.below(static_cast<int64_t>(t.pending.size()))));
}

// What is under way into the array or out of it.
void Subcores::await_users(const Shared& s) {
  for (const auto& [team, root] : s.roots) {
    Team& t = *teams_[team];
    for (size_t k = t.pending.size(); k-- > 0;)
      if (t.pending[k].lock.src == root || t.pending[k].lock.dst == root) await(t, k);
  }
}

// Rows of a table into own memory of other threads, where nobody was before.
void Subcores::deliver() {
  if (outside_) return;
  std::vector<std::pair<Team*, Team*>> all;
  for (auto& a : teams_)
    for (auto& b : teams_) {
      const bool among = a == b && a->kind == Kind::Vector, to_many = a != b && a->kind != Kind::Vector && !spans(*b);
      if ((among || to_many) && !b->incoming.empty()) all.emplace_back(a.get(), b.get());
    }
  if (all.empty()) return;
  const std::pair<Team*, Team*> both = rng_.of(all);
  Team *const from = both.first, *const to = both.second;
  term("copy into memory of others, from " + from->mesh + " to " + to->mesh);
  Pending p;
  p.arrives = to->incoming.back();
  to->incoming.pop_back();
  const int e = to->came_used++, table = static_cast<int>(rng_.below(tables_));
  const Type& rows = declared_[static_cast<size_t>(table)].array;
  const bool by_list = rng_.chance(50);
  // What a thread has for itself may change once it was sent.
  const Ref& own = from->own[static_cast<size_t>(rng_.below(2))];
  const bool from_own = from->body.can_read(own) && rng_.chance(40);
  const int sent = from_own ? copies_++ : -1;
  const int at =
      by_list ? list(*from, rows_, rows.dims[0], true, INT64_MAX).id : from->body.index_in(rows.dims[0] - rows_);
  // `who` names the other thread: by its number, by coordinates, or not at all where it is beside.
  const auto send = [&](const std::vector<int>& target, const std::string& who) {
    std::string to_whom;
    for (int v : target) to_whom += ", " + name(v);
    if (from_own) {
      const std::string views = "src = view($0, []), dst = view($1, [])";
      from->w.line(
          fmt::format("dma_start {}, {}, {}, {}{} {{{}, dst_sem = view($2, [index({})]), src_sem = view($3, "
                      "[index({})]){}}}",
                      name(own.id), name(p.arrives.id), name(to->came), name(moved_), to_whom, views, e, sent, who));
      return from->w.line(fmt::format("dma_wait {}, {}, {} {{{}, dst_sem = view($2, [index({})])}}", name(own.id),
                                      name(own.id), name(moved_), views, sent));
    }
    from->w.line(
        fmt::format("dma_start {}, {}, {}, {}{} {{src = view($0, [index({}, slice(0, {}))]), dst = view($1, "
                    "[]), dst_sem = view($2, [index({})]){}}}",
                    name(table), name(p.arrives.id), name(to->came), name(at), to_whom,
                    by_list ? "array($3)" : fmt::format("slice($3, {})", rows_), columns_, e, who));
  };
  const std::string axes = ", device_id = none, core_index = ";
  if (from == to) {
    const int next = rotated(*from, from->subcore, 1, rng_.below(subcores_), subcores_);
    const auto form = rng_.below(3);
    if (form == 0) send({next}, axes + "[axis(\"subcore\", $4)]");
    else if (form == 1) send({next, from->core}, axes + "[axis(\"subcore\", $4), axis(\"core\", $5)]");
    else
      send({two(*from, "add", two(*from, "mul", from->core, from->body.number(subcores_)), next)}, ", core_index = $4");
  } else if (to->per == 1 && !spans(*from) && rng_.chance(60)) {
    if (rng_.chance(50)) send({}, "");
    else send({from->core}, axes + "[axis(\"core\", $4)]");
  } else {
    to_each(*from, *to, [&](int target) { send({target}, ", core_index = $4"); });
  }
  p.wait = fmt::format("dma_wait {0}, {1} {{src = view($0, []), dst = view($0, []), dst_sem = view($1, [index({2})])}}",
                       name(p.arrives.id), name(to->came), e);
  to->pending.push_back(p);
}

// Counts, ranks, packed loads and stores, sums by a mask: plsc in terms of the IR.
void Subcores::vector_step(Team& t) {
  Body& b = t.body;
  b.budget = 8;
  if (!b.can_write(t.bins)) return;
  const int64_t n = columns_;
  const Type line{DType::I32, {n}}, truth{DType::Bool, {n}};
  const Value x = b.some(line), on = b.mask({n});
  const auto full = [&](int scalar) { return op(t, "broadcast_in_dim " + name(scalar) + " {dims = []}", str(line)); };
  const auto counted = [&](int mask) { return op(t, "convert " + name(mask), str(line)); };
  const auto ranks = [&] {
    const int seen = op(t, "cumsum " + name(counted(on.id)) + " {axis = 0, reverse = false}", str(line));
    return op(t, fmt::format("sub {}, {}", name(seen), name(b.number(1))), str(line));
  };
  switch (rng_.below(5)) {
    case 0: term("counts by index"); return b.atomic_step(t.bins, "add");
    case 1: {
      term("packed load");
      const int at = ranks();
      const int packed = op(t,
                            fmt::format("masked_load {}, {}, {} {{view = [index(array($1))], mask = $2}}",
                                        name(t.bins.id), name(at), name(on.id)),
                            str(line));
      // What the mask leaves is undefined.
      b.keep(op(t, fmt::format("select_n {}, {}, {}", name(on.id), name(full(b.number(2))), name(packed)), str(line)),
             line);
      return;
    }
    case 2: {
      term("packed store");
      const int at = ranks();
      t.w.line(fmt::format("masked_store {}, {}, {}, {} {{view = [index(array($2))], mask = $3}}", name(t.bins.id),
                           name(x.id), name(at), name(on.id)));
      return;
    }
    case 3: {
      term("first and number of true ones");
      const int i = op(t, "iota {axis = 0}", str(line));
      const int found =
          op(t, fmt::format("select_n {}, {}, {}", name(on.id), name(full(b.number(n))), name(i)), str(line));
      b.keep(full(op(t, "reduce_min " + name(found) + " {axes = [0]}")), line);
      b.keep(full(op(t, "reduce_sum " + name(counted(on.id)) + " {axes = [0]}")), line);
      return;
    }
    default: {
      term("sums of what a mask takes");
      const int taken =
          op(t, fmt::format("select_n {}, {}, {}", name(on.id), name(full(b.number(0))), name(x.id)), str(line));
      b.keep(op(t, "cumsum " + name(taken) + " {axis = 0, reverse = false}", str(line)), line);
    }
  }
}

}  // namespace pallasim::judge
