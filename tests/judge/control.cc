#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {

std::string joined(const std::vector<Type>& types) {
  std::string r;
  for (const Type& t : types) r += (r.empty() ? "" : ", ") + str(t);
  return r;
}

Body::Mark Body::enter() {
  ++nesting;
  return {values.size(), refs.size(), roots.size()};
}

// What a region made is out of sight after it. Copies end where they began, so no lock changes hands.
void Body::leave(const Mark& m) {
  --nesting;
  values.resize(m.values);
  refs.resize(m.refs);
  roots.resize(m.roots);
}

void Body::inside(int share) { steps(std::max(1, std::min(share, budget / 2))); }

std::vector<Type> Body::result_types(int most) {
  std::vector<Type> r;
  const int n = static_cast<int>(rng.below(most + 1));
  for (int i = 0; i < n; ++i) {
    if (!r.empty() && rng.chance(40)) {
      r.push_back(r.back());
      continue;
    }
    Type t = rng.chance(55) ? Type{rng.of(dtypes), {}} : any_type();
    r.push_back(t);
  }
  return r;
}

// Stores what was made earlier, so that a value that was still waiting is looked at after all that happened since.
void Body::late_use(const std::vector<Value>& old) {
  for (const Value& v : old) {
    if (!rng.chance(60)) continue;
    const Ref* p = writable();
    if (!p) return;
    const Ref r = *p;
    const View to = view(r, 2, false);
    const Value x = v.type == to.type ? v : fit(v, to.type);
    w.line("store " + name(r.id) + ", " + name(x.id) + (to.operands.empty() ? "" : ", " + names(to.operands)) +
           (to.text.empty() ? "" : " {view = [" + to.text + "]}"));
    --budget;
  }
}

void Body::loop_step() {
  ++terms["for"];
  const std::vector<Type> types = result_types(4);
  std::vector<Value> init;
  std::vector<int> ids;
  for (const Type& t : types) init.push_back(some(t)), ids.push_back(init.back().id);
  // Bounds: constants, or a scalar of the run; sometimes no iteration at all.
  const int64_t lower = rng.of({0, 0, 0, 1, -1}), trips = rng.of({0, 1, 2, 3, 3, 4, 5}), step = rng.of({1, 1, 1, 2});
  const int lo = number(lower);
  const bool dynamic = rng.chance(30);
  const int hi = dynamic ? index_in(4) : number(lower + trips * step - (step > 1 ? rng.below(2) : 0)),
            by = number(step);
  const Mark m = enter();
  std::string results, args;
  std::vector<int> out;
  const int index = w.fresh();
  args = name(index) + ": i32[]";
  std::vector<Value> carried;
  for (const Type& t : types) {
    out.push_back(w.fresh());
    carried.push_back({w.fresh(), t, 0, -1, 64});
    args += ", " + name(carried.back().id) + ": " + str(t);
  }
  // A carry that counts as the index does, as JAX's fori_loop has it, or nearly so.
  const bool counts = rng.chance(40), exact = rng.chance(80);
  const int counter = counts ? w.fresh() : -1, counter_out = counts ? w.fresh() : -1;
  if (counts) {
    ++terms["loop counter"];
    const bool late = !exact && rng.chance(50);
    ids.push_back(late ? number(lower + 1) : rng.chance(50) ? lo : number(lower));
    out.push_back(counter_out);
    args += ", " + name(counter) + ": i32[]";
  }
  const bool reverse = rng.chance(20), parallel = !reverse && rng.chance(15);
  if (parallel) ++terms["parallel_loop"];
  w.open((out.empty() ? "" : names(out) + " = ") +
         fmt::format("{} {}, {}, {}{}{} ({}) {{", parallel ? "parallel_loop" : "for", name(lo), name(hi), name(by),
                     ids.empty() ? "" : ", " + names(ids), reverse ? " {reverse = true}" : "", args));
  Value i{index, {DType::I32, {}}, std::min<int64_t>(lower, 0), 9, 9};
  values.push_back(i);
  for (const Value& c : carried) values.push_back(c);
  int counted = -1;
  if (counts) {
    values.push_back({counter, {DType::I32, {}}, std::min<int64_t>(lower, 0), 16, 16});
    counted = w.op(fmt::format("add {}, {}", name(counter), name(exact ? by : number(step + rng.below(2)))), "i32[]");
  }
  // Values made of the old carries, then the new carries, then what still shows the old ones is used.
  std::vector<Value> old, next;
  for (const Value& c : carried) {
    if (rng.chance(60)) old.push_back(derived(c));
    if (c.type.scalar() && rng.chance(50)) old.push_back(fit(c, {c.type.dtype, {rng.of(extents)}}));
  }
  if (rng.chance(50)) inside(3);
  for (const Value& c : carried) {
    const auto kind = rng.below(10);
    Value n = c;
    if (kind < 4) n = combine(c, rng.chance(60) ? fresh({c.type.dtype, {}}) : some({c.type.dtype, {}}));
    else if (kind < 6) n = some(c.type);
    else if (kind < 8) n = carried[static_cast<size_t>(rng.below(static_cast<int64_t>(carried.size())))];
    else n = derived(c);
    if (c.type.scalar() && rng.chance(20)) {  // the new carry is a second name of a value that is used later
      old.push_back(combine(c, fresh(c.type)));
      n = keep(w.op("optimization_barrier " + name(old.back().id), str(c.type)), c.type, old.back().mag);
    }
    next.push_back(n.type == c.type ? n : fit(n, c.type));
  }
  inside(8);
  if (!carried.empty() && rng.chance(60)) {
    ++terms["old carry after the new one"];
    if (!old.empty() && rng.chance(60)) {  // the other carry is made of the old value
      const size_t k = static_cast<size_t>(rng.below(static_cast<int64_t>(next.size())));
      const Value o = rng.of(old);
      const Value x = o.type.dtype == types[k].dtype && o.type.scalar() ? o : fit(o, types[k]);
      next[k] = combine(next[k], x);
    }
    late_use(old);
  }
  std::vector<int> yields;
  for (const Value& n : next) yields.push_back(calm(n).id);
  std::vector<Type> all = types;
  if (counts) yields.push_back(counted), all.push_back({DType::I32, {}});
  w.line("yield" + (yields.empty() ? "" : " " + names(yields)));
  w.close("}" + (all.empty() ? "" : " : " + joined(all)));
  leave(m);
  for (size_t k = 0; k < types.size(); ++k) keep(out[k], types[k], 64);
  if (counts && rng.chance(30)) keep(counter_out, {DType::I32, {}}, 64);
}

void Body::while_step() {
  ++terms["while"];
  std::vector<Type> types = result_types(3);
  types.insert(types.begin(), {DType::I32, {}});
  std::vector<int> ids;
  ids.push_back(number(rng.in(0, 2)));
  for (size_t k = 1; k < types.size(); ++k) ids.push_back(some(types[k]).id);
  const int64_t limit = rng.in(0, 5);
  std::vector<int> out;
  for (size_t k = 0; k < types.size(); ++k) out.push_back(w.fresh());
  const auto arguments = [&](std::vector<Value>* v) {
    std::string s;
    for (const Type& t : types) {
      v->push_back({w.fresh(), t, 0, -1, 64});
      s += (s.empty() ? "" : ", ") + name(v->back().id) + ": " + str(t);
    }
    (*v)[0].lo = 0, (*v)[0].hi = 8;
    return s;
  };
  Mark m = enter();
  std::vector<Value> c;
  w.open(names(out) + " = while " + names(ids) + " (" + arguments(&c) + ") {");
  values.insert(values.end(), c.begin(), c.end());
  if (rng.chance(40)) ++terms["store in a condition"], inside(3);
  const int n = number(limit);
  int go = w.op("lt " + name(c[0].id) + ", " + name(n), "bool[]");
  if (rng.chance(30)) go = w.op("and " + name(go) + ", " + name(some({DType::Bool, {}}).id), "bool[]");
  w.line("yield " + name(go));
  leave(m);
  m = enter();
  c.clear();
  const std::string args = arguments(&c);
  w.between("} (" + args + ") {");
  values.insert(values.end(), c.begin(), c.end());
  std::vector<Value> old;
  for (const Value& v : c)
    if (rng.chance(50)) old.push_back(derived(v));
  std::vector<int> next;
  const int one = number(1);
  next.push_back(w.op("add " + name(c[0].id) + ", " + name(one), "i32[]"));
  for (size_t k = 1; k < c.size(); ++k) {
    const Value v = rng.chance(50)   ? combine(c[k], some({c[k].type.dtype, {}}))
                    : rng.chance(50) ? some(c[k].type)
                                     : c[static_cast<size_t>(rng.below(static_cast<int64_t>(c.size())))];
    next.push_back(calm(v.type == c[k].type ? v : fit(v, c[k].type)).id);
  }
  inside(6);
  late_use(old);
  w.line("yield " + names(next));
  w.close("} : " + joined(types));
  leave(m);
  for (size_t k = 0; k < types.size(); ++k) keep(out[k], types[k], 64);
}

void Body::cond_step() {
  ++terms["cond"];
  const std::vector<Type> types = result_types(3);
  const int branches = rng.chance(65) ? 2 : static_cast<int>(rng.in(2, 4));
  Value p = branches == 2 ? some({DType::Bool, {}}) : some({DType::I32, {}});
  if (branches == 2 && rng.chance(40)) p = fit(mask({}), {DType::Bool, {}});
  if (branches == 2 && rng.chance(50)) {  // as `pl.when` asks
    const int as_number = w.fresh();
    w.line(name(as_number) + " = convert " + name(p.id) + " : i32[]");
    p = keep(as_number, {DType::I32, {}}, 1);
  }
  std::vector<int> out;
  for (size_t k = 0; k < types.size(); ++k) out.push_back(w.fresh());
  for (int b = 0; b < branches; ++b) {
    if (b) w.between("} () {");
    else w.open((out.empty() ? "" : names(out) + " = ") + "cond " + name(p.id) + " () {");
    const Mark m = enter();
    if (b == 0 ? rng.chance(60) : rng.chance(85)) {
      if (rng.chance(25)) alias_step();
      inside(6);
    }
    std::vector<int> yields;
    for (const Type& t : types) yields.push_back(some(t).id);
    w.line("yield" + (yields.empty() ? "" : " " + names(yields)));
    leave(m);
  }
  w.close("}" + (types.empty() ? "" : " : " + joined(types)));
  for (size_t k = 0; k < types.size(); ++k) keep(out[k], types[k], 64);
}

void Body::call_step() {
  ++terms["call"];
  const std::vector<Type> types = result_types(2);
  std::vector<int> ids, out;
  std::string args;
  std::vector<Ref> inner;
  std::vector<Value> passed;
  const auto pass = [&](int id, const std::string& type) {
    ids.push_back(id);
    const int a = w.fresh();
    args += (args.empty() ? "" : ", ") + name(a) + ": " + type;
    return a;
  };
  for (int k = static_cast<int>(rng.in(1, 2)); k > 0 && !refs.empty(); --k) {
    Ref r = rng.of(refs);
    r.id = pass(r.id, ref_type(r.type, r.space));
    inner.push_back(r);
  }
  if (rng.chance(60)) {
    Value v = some(any_type());
    v.id = pass(v.id, str(v.type));
    passed.push_back(v);
  }
  if (ids.empty()) return;
  for (size_t k = 0; k < types.size(); ++k) out.push_back(w.fresh());
  w.open((out.empty() ? "" : names(out) + " = ") + "call " + names(ids) + " (" + args + ") {");
  const Mark m = enter();
  refs.insert(refs.end(), inner.begin(), inner.end());
  values.insert(values.end(), passed.begin(), passed.end());
  inside(6);
  std::vector<int> yields;
  for (const Type& t : types) yields.push_back(some(t).id);
  w.line("yield" + (yields.empty() ? "" : " " + names(yields)));
  w.close("}" + (types.empty() ? "" : " : " + joined(types)));
  leave(m);
  for (size_t k = 0; k < types.size(); ++k) keep(out[k], types[k], 64);
}

void Body::scoped_step() {
  ++terms["run_scoped"];
  const std::vector<Type> types = result_types(2);
  std::vector<int> out;
  for (size_t k = 0; k < types.size(); ++k) out.push_back(w.fresh());
  const std::string space = machine == ir::Machine::Tpu ? "vmem" : machine == ir::Machine::Triton ? "gmem" : "any";
  const Mark m = enter();
  std::string args;
  std::vector<Ref> born;
  for (int64_t k = rng.in(1, 2); k > 0; --k) {
    Type t = any_type();
    if (t.scalar()) t.dims = {rng.of(extents)};
    born.push_back({w.fresh(), t, static_cast<int>(roots.size()), space});
    roots.push_back({});
    args += (args.empty() ? "" : ", ") + name(born.back().id) + ": " + ref_type(t, space);
  }
  w.open((out.empty() ? "" : names(out) + " = ") + "run_scoped (" + args + ") {");
  for (const Ref& r : born) {
    if (r.type.dims[0] <= 8 && rng.chance(25)) {  // row by row
      const int lo = number(0), hi = number(r.type.dims[0]), by = number(1), i = w.fresh();
      Type row{r.type.dtype, {r.type.dims.begin() + 1, r.type.dims.end()}};
      const Value x = some(row);
      std::string rest;
      for (int64_t n : row.dims) rest += fmt::format(", slice(0, {})", n);
      w.open(fmt::format("for {}, {}, {} ({}: i32[]) {{", name(lo), name(hi), name(by), name(i)));
      w.line(fmt::format("store {}, {}, {} {{view = [index($2{})]}}", name(r.id), name(x.id), name(i), rest));
      w.line("yield");
      w.close("}");
    } else {
      fill(r);
    }
  }
  refs.insert(refs.end(), born.begin(), born.end());
  inside(7);
  std::vector<int> yields;
  for (const Type& t : types) yields.push_back(rng.chance(60) ? read_as(rng.of(born), t).id : some(t).id);
  w.line("yield" + (yields.empty() ? "" : " " + names(yields)));
  w.close("}" + (types.empty() ? "" : " : " + joined(types)));
  leave(m);
  for (size_t k = 0; k < types.size(); ++k) keep(out[k], types[k], 64);
}

void Body::new_ref_step() {
  Type t = any_type();
  if (t.dtype == DType::Bool && machine != ir::Machine::Generic) t.dtype = DType::I32;
  const Value v = some(t);
  const std::string space = machine == ir::Machine::Tpu ? "vmem" : machine == ir::Machine::Triton ? "gmem" : "any";
  const Ref r{w.op("new_ref " + name(v.id), ref_type(t, space)), t, static_cast<int>(roots.size()), space};
  roots.push_back({});
  refs.push_back(r);
  ++terms["new_ref"];
  steps(static_cast<int>(rng.in(0, 3)));
  if (rng.chance(50)) {
    keep(w.op("freeze " + name(r.id), str(t)), t);
    for (size_t i = 0; i < refs.size(); ++i)  // nothing else touches it afterwards
      if (refs[i].root == r.root) refs.erase(refs.begin() + static_cast<ptrdiff_t>(i--));
  }
}

// A read, perhaps seen through something lazy; then writes in some nesting; then its use.
void Body::kept_read_step() {
  const Ref* p = writable();
  if (!p || nesting > 3) return;
  const Ref r = *p;
  ++terms["read kept across writes"];
  std::vector<Value> old;
  for (int64_t k = rng.in(1, 3); k > 0; --k) {
    const Value v = read(r);
    old.push_back(v);
    if (rng.chance(50)) old.push_back(derived(v));
    if (rng.chance(30)) {
      Type t = v.type;
      t.dims = {rng.of(extents)};
      old.push_back(fit(v, t));
    }
  }
  const auto write = [&](const Ref& to) {
    const View v = view(to, 2, false);
    const Value x = rng.chance(70) ? fresh(v.type) : source(to, v.type);
    w.line("store " + name(to.id) + ", " + name(x.id) + (v.operands.empty() ? "" : ", " + names(v.operands)) +
           (v.text.empty() ? "" : " {view = [" + v.text + "]}"));
    --budget;
  };
  // The write: plain, in a branch, through a view made there, through the argument of a call, in a loop.
  const auto kind = rng.below(6);
  const auto through = [&](const Ref& to) {
    if (to.single || rng.chance(40)) return write(to);
    const size_t n = refs.size();
    const View v = view(to, 1);
    const Ref part{w.op("view " + name(to.id) + (v.operands.empty() ? "" : ", " + names(v.operands)) + " {view = [" +
                            v.text + "]}",
                        ref_type(v.type, to.space)),
                   v.type,
                   to.root,
                   to.space,
                   to.single,
                   true};
    write(part);
    refs.resize(n);
  };
  if (kind == 0) {
    write(r);
  } else if (kind <= 2) {
    const Value q = some({DType::Bool, {}});
    const bool other = rng.chance(50);
    w.open("cond " + name(q.id) + " () {");
    Mark m = enter();
    if (other) through(r);
    w.line("yield");
    leave(m);
    w.between("} () {");
    m = enter();
    if (!other || rng.chance(30)) through(r);
    w.line("yield");
    leave(m);
    w.close("}");
  } else if (kind == 3) {
    const int a = w.fresh();
    w.open("call " + name(r.id) + " (" + name(a) + ": " + ref_type(r.type, r.space) + ") {");
    const Mark m = enter();
    Ref inner = r;
    inner.id = a;
    through(inner);
    w.line("yield");
    leave(m);
    w.close("}");
  } else {
    const int lo = number(0), hi = rng.chance(50) ? index_in(3) : number(rng.in(0, 3)), by = number(1), i = w.fresh();
    w.open(fmt::format("for {}, {}, {} ({}: i32[]) {{", name(lo), name(hi), name(by), name(i)));
    const Mark m = enter();
    values.push_back({i, {DType::I32, {}}, 0, 3, 4});
    if (rng.chance(40)) late_use(old);
    through(r);
    w.line("yield");
    leave(m);
    w.close("}");
  }
  late_use(old);
}

void Body::print_step() {
  const Value v = some({DType::I32, {}});
  w.line("debug_print " + name(v.id) + " {format = \"v {}\", placeholders = true}");
  ++terms["print"];
  --budget;
}

void Body::steps(int n) {
  for (int i = 0; i < n && budget > 0; ++i) step();
}

void Body::step() {
  struct Term {
    int weight;
    void (Body::*make)();
    bool region, copies = false;
  };
  static constexpr Term kTerms[] = {
      {14, nullptr, false},
      {8, &Body::shape_step, false},
      {4, &Body::fold_step, false},
      {2, &Body::dot_step, false},
      {2, &Body::scatter_step, false},
      {3, &Body::slices_step, false},
      {4, &Body::arrange_step, false},
      {3, &Body::rearrange_step, false},
      {12, &Body::store_step, false},
      {7, &Body::masked_step, false},
      {6, &Body::gather_step, false},
      {4, &Body::permute_step, false},
      {6, &Body::overlap_step, false},
      {2, &Body::own_mask_step, false},
      {2, &Body::alias_step, false},
      {2, &Body::new_ref_step, false},
      {1, &Body::print_step, false},
      {2, &Body::power_step, false},
      {4, &Body::multiply_add_step, false},
      {1, &Body::nothing_step, false},
      {8, &Body::kept_read_step, true},
      {9, &Body::loop_step, true},
      {5, &Body::while_step, true},
      {8, &Body::cond_step, true},
      {4, &Body::call_step, true},
      {4, &Body::scoped_step, true},
      {16, &Body::copy_step, true, true},
      {12, &Body::slots_step, true, true},
      {5, &Body::rows_step, true, true},
      {4, &Body::width_rows_step, true, true},
      {6, &Body::list_step, true, true},
      {6, &Body::forwarded_step, true, true},
      {3, &Body::semaphore_step, true, true},
  };
  const auto possible = [&](const Term& t) { return (nesting < 3 || !t.region) && (copies || !t.copies); };
  int total = 0;
  for (const Term& t : kTerms) total += possible(t) ? t.weight : 0;
  auto at = static_cast<int>(rng.below(total + 8));
  if (at >= total) {  // a read that later writes meet
    if (const Ref* r = readable()) read(Ref(*r));
    return;
  }
  for (const Term& t : kTerms) {
    if (!possible(t)) continue;
    if (at < t.weight) return t.make ? (this->*t.make)() : elementwise(any_type());
    at -= t.weight;
  }
}

}  // namespace pallasim::judge
