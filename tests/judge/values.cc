#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {
namespace {

// Row-major extents of `from` appear at the end of `to`.
bool tail_of(const Dims& from, const Dims& to) {
  return from.size() <= to.size() && std::equal(from.rbegin(), from.rend(), to.rbegin());
}

}  // namespace

Value Body::keep(int id, Type t, double mag) {
  --budget;
  values.push_back({id, std::move(t), 0, -1, mag});
  return values.back();
}

Value Body::constant(DType t, double v) {
  Value c{w.op("constant {value = " + literal(t, v) + "}", str(Type{t, {}})), {t, {}}, 0, -1, std::abs(v)};
  if (t == DType::I32) c.lo = c.hi = static_cast<int64_t>(v);
  return c;
}

Value Body::fresh(const Type& t) {
  if (t.scalar()) {
    if (t.dtype == DType::Bool) return constant(t.dtype, static_cast<double>(rng.below(2)));
    return constant(t.dtype, ir::is_float(t.dtype)
                                 ? static_cast<double>(rng.in(-8, 8)) / 4
                                 : static_cast<double>(rng.in(ir::is_unsigned_int(t.dtype) ? 0 : -9, 9)));
  }
  const int64_t n = t.size();
  if (t.dtype != DType::Bool && rng.chance(40)) {
    return keep(w.op(fmt::format("iota {{axis = {}}}", rng.below(static_cast<int64_t>(t.dims.size()))), str(t)), t, 16);
  }
  if (n <= 64 && rng.chance(60)) {
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i)
      v.push_back(t.dtype == DType::Bool  ? static_cast<double>(rng.below(2))
                  : ir::is_float(t.dtype) ? static_cast<double>(rng.in(-8, 8)) / 2
                                          : static_cast<double>(rng.in(0, 20)));
    return keep(w.op("constant {value = " + dense(t, v) + "}", str(t)), t, 20);
  }
  const Value c = fresh({t.dtype, {}});
  return keep(w.op("broadcast_in_dim " + name(c.id) + " {dims = []}", str(t)), t, c.mag);
}

Value Body::convert(const Value& v, DType t) {
  if (v.type.dtype == t) return v;
  const Type to{t, v.type.dims};
  Value r = v;
  if (ir::is_float(t) && ir::byte_size(t) == 1) r = calm(v);
  return keep(w.op("convert " + name(r.id), str(to)), to, ir::is_int(v.type.dtype) ? 1e6 : r.mag);
}

Value Body::calm(const Value& v) {
  if (!ir::is_float(v.type.dtype) || v.mag <= 8) return v;
  const Value lo = constant(v.type.dtype, -8), hi = constant(v.type.dtype, 8);
  return keep(w.op(fmt::format("clamp {}, {}, {}", name(lo.id), name(v.id), name(hi.id)), str(v.type)), v.type, 8);
}

Value Body::fit(const Value& from, const Type& t) {
  Value v = convert(from, t.dtype);
  const Dims& d = v.type.dims;
  if (d == t.dims) return v;
  if (t.scalar() && v.type.size() != 1) {  // one element, at a place that may be known at run time only
    Dims ones(d.size(), 1);
    std::string starts;
    const bool fixed = rng.chance(50);
    if (fixed) {
      Dims start, limit;
      for (int64_t n : d) start.push_back(rng.below(n)), limit.push_back(start.back() + 1);
      v = keep(w.op(fmt::format("slice {} {{start = [{}], limit = [{}]}}", name(v.id), str(start), str(limit)),
                    str(Type{t.dtype, ones})),
               {t.dtype, ones}, v.mag);
    } else {
      for (int64_t n : d) starts += ", " + name(index_in(n - 1));
      v = keep(w.op(fmt::format("dynamic_slice {}{} {{sizes = [{}]}}", name(v.id), starts, str(ones)),
                    str(Type{t.dtype, ones})),
               {t.dtype, ones}, v.mag);
    }
    return keep(w.op("reshape " + name(v.id), str(t)), t, v.mag);
  }
  if (v.type.size() == t.size()) {
    Dims r(d.rbegin(), d.rend());
    if (d.size() == 2 && r == t.dims && rng.chance(70))
      return keep(w.op("transpose " + name(v.id) + " {perm = [1, 0]}", str(t)), t, v.mag);
    return keep(w.op("reshape " + name(v.id), str(t)), t, v.mag);
  }
  if (tail_of(d, t.dims)) {
    Dims map;
    for (size_t i = 0; i < d.size(); ++i) map.push_back(static_cast<int64_t>(t.dims.size() - d.size() + i));
    return keep(w.op(fmt::format("broadcast_in_dim {} {{dims = [{}]}}", name(v.id), str(map)), str(t)), t, v.mag);
  }
  bool smaller = d.size() == t.dims.size();
  for (size_t i = 0; smaller && i < d.size(); ++i) smaller = d[i] >= t.dims[i];
  if (smaller) {
    Dims start, limit;
    for (size_t i = 0; i < d.size(); ++i)
      start.push_back(rng.below(d[i] - t.dims[i] + 1)), limit.push_back(start.back() + t.dims[i]);
    return keep(
        w.op(fmt::format("slice {} {{start = [{}], limit = [{}]}}", name(v.id), str(start), str(limit)), str(t)), t,
        v.mag);
  }
  if (d.size() == 1 && t.dims.size() == 2 && d[0] == t.dims[0])
    return keep(w.op(fmt::format("broadcast_in_dim {} {{dims = [0]}}", name(v.id)), str(t)), t, v.mag);
  if (d.size() == 1 && t.dims.size() == 1 && d[0] < t.dims[0]) {
    const Value z = fresh({t.dtype, {}});
    return keep(w.op(fmt::format("pad {}, {} {{low = [{}], high = [{}], interior = [0]}}", name(v.id), name(z.id), 0,
                                 t.dims[0] - d[0]),
                     str(t)),
                t, std::max(v.mag, z.mag));
  }
  return fit(fit(v, {t.dtype, {}}), t);
}

Value Body::some(const Type& t) {
  std::vector<size_t> same;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].type == t) same.push_back(i);
  if (!same.empty() && rng.chance(75)) return values[rng.of(same)];
  if (!values.empty() && rng.chance(65))
    return fit(values[static_cast<size_t>(rng.below(static_cast<int64_t>(values.size())))], t);
  if (const Ref* r = readable(); r && rng.chance(50)) return read_as(*r, t);
  return fresh(t);
}

int Body::index_in(int64_t limit) {
  if (limit <= 0) return number(0);
  if (rng.chance(25)) return number(rng.in(0, limit));
  std::vector<int> fitting;
  for (const Value& v : values)
    if (v.type == Type{DType::I32, {}} && v.known() && v.lo >= 0 && v.hi <= limit) fitting.push_back(v.id);
  if (!fitting.empty() && rng.chance(60)) return rng.of(fitting);
  const Value v = some({DType::I32, {}});
  const int lo = number(0), hi = number(limit);
  Value c = keep(w.op(fmt::format("clamp {}, {}, {}", name(lo), name(v.id), name(hi)), "i32[]"), {DType::I32, {}});
  values.back().lo = 0, values.back().hi = limit;
  return c.id;
}

Type Body::any_type() {
  Type t{rng.of(dtypes), {}};
  if (rng.chance(10)) t.dtype = DType::Bool;
  const int rank = rng.chance(30) ? 0 : rng.chance(60) ? 1 : 2;
  for (int i = 0; i < rank; ++i) t.dims.push_back(rng.of(extents));
  return t;
}

Value Body::for_one(const Value& v) {
  if (rng.chance(40)) return v;
  ++terms["value of one consumer"];
  Value r = v;
  r.id = w.op((v.type.dtype == DType::Bool ? "not " : "neg ") + name(v.id), str(v.type));
  if (rng.chance(50) && v.type.dtype != DType::Bool)
    r.id = w.op(fmt::format("max {}, {}", name(r.id), name(some(v.type).id)), str(v.type));
  return r;
}

Value Body::derived(const Value& v) {
  const std::string x = name(v.id), t = str(v.type);
  switch (rng.below(6)) {
    case 0: return keep(w.op("optimization_barrier " + x, t), v.type, v.mag);
    case 1:
      if (v.type.dtype == DType::Bool) return keep(w.op("not " + x, t), v.type);
      return keep(w.op("neg " + x, t), v.type, v.mag);
    case 2: {  // there and back through another shape
      const Type flat{v.type.dtype, {v.type.size()}};
      if (v.type.dims.size() == 1) {
        const Type up{v.type.dtype, {1, v.type.size()}};
        const int a = w.op("reshape " + x, str(up));
        return keep(w.op("reshape " + name(a), t), v.type, v.mag);
      }
      const int a = w.op("reshape " + x, str(flat));
      return keep(w.op("reshape " + name(a), t), v.type, v.mag);
    }
    case 3:
      if (v.type.scalar()) return keep(w.op("stop_gradient " + x, t), v.type, v.mag);
      return keep(
          w.op(fmt::format("rev {} {{axes = [{}]}}", x, rng.below(static_cast<int64_t>(v.type.dims.size()))), t),
          v.type, v.mag);
    default: return combine(v, some({v.type.dtype, {}}));
  }
}

// a op b: both of one type, or b a scalar. Floats stay about as large as they were.
Value Body::combine(const Value& a, const Value& b) {
  const DType d = a.type.dtype;
  const char* op = nullptr;
  double mag = 64;
  if (d == DType::Bool) {
    op = rng.of({"and", "or", "xor", "and", "or", "xor", "eq", "ne"});
  } else if (ir::is_float(d)) {
    op = rng.of({"add", "sub", "mul", "max", "min", "add", "mul"});
    mag = std::string(op) == "mul" ? a.mag * b.mag : a.mag + b.mag;
    if (mag > 4096) op = rng.of({"max", "min", "copysign"}), mag = std::max(a.mag, b.mag);
  } else {
    op = rng.of({"add", "sub", "mul", "max", "min", "and", "or", "xor", "add", "sub", "rem", "div", "shift_left",
                 "shift_right_logical", "shift_right_arithmetic"});
  }
  return keep(w.op(fmt::format("{} {}, {}", op, name(a.id), name(b.id)), str(a.type)), a.type, mag);
}

void Body::elementwise(const Type& t) {
  const Value a = some(t);
  const std::string x = name(a.id);
  const auto put = [&](const std::string& op, double mag) { keep(w.op(op, str(t)), t, mag); };
  if (t.dtype == DType::Bool) {
    const Type n{rng.of(dtypes), t.dims};
    if (rng.chance(50)) return void(mask(t.dims));
    const Value p = some(n), q = rng.chance(50) ? some(n) : some({n.dtype, {}});
    return put(fmt::format("{} {}, {}", rng.of({"lt", "le", "eq", "ne", "ge"}), name(p.id), name(q.id)), 1);
  }
  switch (rng.below(8)) {
    case 0: {
      if (ir::is_float(t.dtype))
        return put(fmt::format("{} {}", rng.of({"neg", "abs", "floor", "ceil", "sign"}), x), std::max(1.0, a.mag));
      return put(fmt::format("{} {}", rng.of({"neg", "abs", "not", "population_count", "clz", "sign"}), x), 64);
    }
    case 1: {
      const Value p = rng.chance(40) ? some({DType::Bool, {}}) : mask(t.dims), b = some(t);
      return put(fmt::format("select_n {}, {}, {}", name(p.id), x, name(b.id)), std::max(a.mag, b.mag));
    }
    case 2: {
      const bool flt = ir::is_float(t.dtype);
      const double low = flt ? -1.5 : 0;
      const bool crossed = rng.chance(10);
      if (crossed) ++terms["crossed bounds"];
      const Value lo = constant(t.dtype, crossed ? 5 : low),
                  hi = constant(t.dtype, crossed ? 3 : low + static_cast<double>(rng.in(0, 9)));
      return put(fmt::format("clamp {}, {}, {}", name(lo.id), x, name(hi.id)), 8);
    }
    case 3: return void(derived(a));
    case 4:
      if (rng.chance(30)) {
        const Value p = indices(rng.chance(50) ? Dims{} : t.dims, 3);
        const Value b = some(t), c = some(t);
        return put(fmt::format("select_n {}, {}, {}, {}", name(p.id), x, name(b.id), name(c.id)),
                   std::max({a.mag, b.mag, c.mag}));
      }
      [[fallthrough]];
    default: combine(a, rng.chance(35) ? some({t.dtype, {}}) : some(t));
  }
}

void Body::fold_step() {
  Type t = any_type();
  while (t.scalar() || t.dtype == DType::Bool) t = {rng.of(dtypes), {rng.of(extents), rng.of(extents)}};
  Value v = some(t);
  const auto axis = rng.below(static_cast<int64_t>(t.dims.size()));
  const bool exact = !ir::is_float(t.dtype);
  if (!exact && rng.chance(50)) {  // small whole numbers: every order of a sum gives the same bits
    v = convert(calm(v), DType::F32);
    v = keep(w.op("floor " + name(v.id), str(v.type)), v.type, 8);
    t = v.type;
    if (rng.chance(50))
      v = keep(w.op("reduce_sum " + name(v.id) + fmt::format(" {{axes = [{}]}}", axis),
                    "f32[" + (t.dims.size() == 2 ? std::to_string(t.dims[static_cast<size_t>(1 - axis)]) : "") + "]"),
               {DType::F32, t.dims.size() == 2 ? Dims{t.dims[static_cast<size_t>(1 - axis)]} : Dims{}}, 1024);
    else
      keep(w.op(fmt::format("cumsum {} {{axis = {}, reverse = {}}}", name(v.id), axis, rng.of({"true", "false"})),
                str(t)),
           t, 1024);
    return;
  }
  Dims rest;
  for (size_t i = 0; i < t.dims.size(); ++i)
    if (static_cast<int64_t>(i) != axis) rest.push_back(t.dims[i]);
  switch (rng.below(4)) {
    case 0: {
      const Type r{DType::I32, rest};
      keep(w.op(fmt::format("{} {} {{axis = {}}}", rng.of({"argmax", "argmin"}), name(v.id), axis), str(r)), r);
      return;
    }
    case 1: {
      const char* op = exact ? rng.of({"cumsum", "cummax", "cummin"}) : rng.of({"cummax", "cummin"});
      keep(w.op(fmt::format("{} {} {{axis = {}, reverse = {}}}", op, name(v.id), axis, rng.of({"true", "false"})),
                str(t)),
           t, v.mag);
      return;
    }
    default: {
      const char* op = exact
                           ? rng.of({"reduce_sum", "reduce_max", "reduce_min", "reduce_xor", "reduce_and", "reduce_or"})
                           : rng.of({"reduce_max", "reduce_min"});
      const Type r{t.dtype, rest};
      keep(w.op(fmt::format("{} {} {{axes = [{}]}}", op, name(v.id), axis), str(r)), r, v.mag);
    }
  }
}

// a * b + c of scalars, whose product is sometimes used again.
void Body::multiply_add_step() {
  const Type t{rng.of({DType::I32, DType::I32, DType::U32, DType::I64}), {}};
  ++terms["multiply and add"];
  const Value a = some(t), b = some(t), c = some(t);
  const int product = w.op(fmt::format("mul {}, {}", name(a.id), name(b.id)), str(t));
  const bool first = rng.chance(50);
  const bool renamed = rng.chance(25);
  // Something else may come between.
  if (rng.chance(50)) derived(some({rng.of(dtypes), {}}));
  const int term = renamed ? w.op("optimization_barrier " + name(product), str(t)) : product;
  const int left = first ? term : c.id, right = first ? c.id : term;
  keep(w.op(fmt::format("add {}, {}", name(left), name(right)), str(t)), t);
  if (!renamed && !rng.chance(30)) return;
  keep(product, t);
  if (renamed) ++terms["product with two names"], late_use({values.back()});
}

// Small whole numbers: their powers are exact before they are rounded to the type.
void Body::power_step() {
  const DType d = rng.of(dtypes);
  if (!ir::is_float(d) || ir::byte_size(d) < 2) return;
  ++terms["pow"];
  const Type t = any_type(), f{d, t.dims}, e{DType::I32, t.dims};
  const Value base = keep(w.op("floor " + name(calm(some(f)).id), str(f)), f, 8);
  const Value lo = constant(DType::I32, 0), hi = constant(DType::I32, 3);
  const Value n = some(e);
  const int y = w.op(fmt::format("clamp {}, {}, {}", name(lo.id), name(n.id), name(hi.id)), str(e));
  const Value p = keep(w.op(fmt::format("pow {}, {}", name(base.id), name(y)), str(f)), f, 512);
  keep(w.op("sub " + name(p.id) + ", " + name(some(f).id), str(f)), f, 1024);
}

void Body::dot_step() {
  const int64_t m = rng.of(extents), k = rng.of(extents), n = rng.of(extents);
  const auto small = [&](Dims d) {
    Value v = some({rng.of(dtypes), d});
    if (!ir::is_float(v.type.dtype)) {
      const Value lo = constant(v.type.dtype, 0), hi = constant(v.type.dtype, 9);
      v = keep(w.op(fmt::format("clamp {}, {}, {}", name(lo.id), name(v.id), name(hi.id)), str(v.type)), v.type, 9);
      return convert(v, DType::F32);
    }
    v = convert(calm(v), DType::F32);
    return keep(w.op("floor " + name(v.id), str(v.type)), v.type, 8);
  };
  const Value a = small({m, k}), b = small({k, n});
  const Type r{DType::F32, {m, n}};
  keep(w.op(fmt::format("dot_general {}, {} {{lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = []}}",
                        name(a.id), name(b.id)),
            str(r)),
       r, 1024);
}

void Body::strided_slice(const Value& v) {
  Type r = v.type;
  Dims start, limit, stride;
  for (size_t i = 0; i < r.dims.size(); ++i) {
    const int64_t n = v.type.dims[i];
    start.push_back(rng.below(n)), limit.push_back(rng.in(start[i] + 1, n)), stride.push_back(rng.in(1, 2));
    r.dims[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
  }
  keep(w.op(fmt::format("slice {} {{start = [{}], limit = [{}], stride = [{}]}}", name(v.id), str(start), str(limit),
                        str(stride)),
            str(r)),
       r, v.mag);
}

void Body::shape_step() {
  Type t = any_type();
  if (t.scalar()) t.dims = {rng.of(extents)};
  const Value v = some(t);
  const std::string x = name(v.id);
  const auto rank = static_cast<int64_t>(t.dims.size());
  const auto axis = static_cast<size_t>(rng.below(rank));
  Type r = t;
  switch (rng.below(9)) {
    case 0: return strided_slice(v);
    case 1: {  // rotated by one: concatenate(x[1:], x[:1])
      if (t.dims[axis] < 2) return;
      Dims zero(t.dims.size(), 0), one = zero, end = t.dims;
      const int64_t at = rng.in(1, t.dims[axis] - 1);
      one[axis] = at, end[axis] = at;
      Type a = t, b = t;
      a.dims[axis] -= at, b.dims[axis] = at;
      const int p = w.op(fmt::format("slice {} {{start = [{}], limit = [{}]}}", x, str(one), str(t.dims)), str(a));
      const int q = w.op(fmt::format("slice {} {{start = [{}], limit = [{}]}}", x, str(zero), str(end)), str(b));
      keep(w.op(fmt::format("concatenate {}, {} {{axis = {}}}", name(p), name(q), axis), str(t)), t, v.mag);
      return;
    }
    case 2: {
      std::string starts;
      const bool natural = rng.chance(30);  // starts without a sign: what was below zero is far behind the end
      if (natural) ++terms["unsigned starts"];
      const DType index = natural ? rng.of({DType::U32, DType::U32, DType::U8}) : DType::I32;
      for (size_t i = 0; i < t.dims.size(); ++i) {
        r.dims[i] = rng.in(1, t.dims[i]);
        const bool any = natural || rng.chance(70);
        starts += ", " + name(any ? convert(some({DType::I32, {}}), index).id : index_in(t.dims[i] - r.dims[i]));
      }
      keep(w.op(fmt::format("dynamic_slice {}{} {{sizes = [{}]}}", x, starts, str(r.dims)), str(r)), r, v.mag);
      return;
    }
    case 3: {
      std::string starts;
      for (int64_t& d : r.dims) d = rng.in(1, d);
      const Value u = some(r);
      for (size_t i = 0; i < t.dims.size(); ++i) starts += ", " + name(some({DType::I32, {}}).id);
      keep(w.op(fmt::format("dynamic_update_slice {}, {}{}", x, name(u.id), starts), str(t)), t,
           std::max(v.mag, u.mag));
      return;
    }
    case 4: {
      const int64_t shift = rng.below(t.dims[axis] + 1);
      const int s = rng.chance(50) ? number(shift) : index_in(t.dims[axis]);
      keep(w.op(fmt::format("roll {}, {} {{axis = {}}}", x, name(s), axis), str(t)), t, v.mag);
      return;
    }
    case 5: {
      const Value p = some({t.dtype, {}});
      Dims low, high, interior;
      for (size_t i = 0; i < t.dims.size(); ++i) {
        low.push_back(rng.in(-1, 2)), high.push_back(rng.in(t.dims[i] > 2 ? -1 : 0, 2)),
            interior.push_back(rng.chance(25));
        r.dims[i] = low[i] + high[i] + t.dims[i] + (t.dims[i] - 1) * interior[i];
        if (r.dims[i] < 1) return;
      }
      keep(w.op(fmt::format("pad {}, {} {{low = [{}], high = [{}], interior = [{}]}}", x, name(p.id), str(low),
                            str(high), str(interior)),
                str(r)),
           r, std::max(v.mag, p.mag));
      return;
    }
    case 6: {
      if (t.dtype == DType::Bool || t.dims.size() != 1) return void(derived(v));
      const Value i = indices({rng.of(extents)}, t.dims[0]);
      const int at = w.op("reshape " + name(i.id), str(Type{DType::I32, {i.type.dims[0], 1}}));
      r.dims = i.type.dims;
      keep(w.op(fmt::format("gather {}, {} {{offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], "
                            "slice_sizes = [1], mode = clip}}",
                            x, name(at)),
                str(r)),
           r, v.mag);
      return;
    }
    case 7:
      if (rank == 2) {
        std::swap(r.dims[0], r.dims[1]);
        keep(w.op("transpose " + x + " {perm = [1, 0]}", str(r)), r, v.mag);
        return;
      }
      [[fallthrough]];
    default: {
      const Type to{t.dtype, rng.chance(50) ? Dims{rng.of(extents), rng.of(extents)} : Dims{rng.of(extents)}};
      fit(v, to);
    }
  }
}

}  // namespace pallasim::judge
