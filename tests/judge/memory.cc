#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {
namespace {

std::string with_view(const View& v, const std::string& others = "") {
  std::string r;
  if (!v.text.empty()) r = "view = [" + v.text + "]";
  if (!others.empty()) r += (r.empty() ? "" : ", ") + others;
  return r.empty() ? "" : " {" + r + "}";
}

std::string operands(const View& v) { return v.operands.empty() ? "" : ", " + names(v.operands); }

std::string dollar(int first, const View& v) {
  return "$" + std::to_string(first + static_cast<int>(v.operands.size()) - 1);
}

}  // namespace

bool Body::can_write(const Ref& r) const {
  const Root& root = roots[static_cast<size_t>(r.root)];
  return root.writable && !root.permutation && root.reading == 0 && root.writing == 0;
}

// Atomic on Triton, where narrow types have none.
bool Body::can_add(DType t) const {
  if (machine == ir::Machine::Triton) return t == DType::I32 || t == DType::U32 || t == DType::F32;
  return t != DType::Bool;
}

const Ref* Body::readable() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_read(r)) l.push_back(&r);
  return l.empty() ? nullptr : rng.of(l);
}

const Ref* Body::writable() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_write(r)) l.push_back(&r);
  return l.empty() ? nullptr : rng.of(l);
}

// One slice per dimension, of the given sizes, somewhere.
View Body::window(const Ref& r, const Dims& sizes, int first) {
  View v{{r.type.dtype, sizes}, "", {}};
  if (sizes.empty() || (sizes == r.type.dims && rng.chance(60))) return v;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t room = r.type.dims[i] - sizes[i];
    std::string start = std::to_string(rng.in(0, room));
    if (room > 0 && rng.chance(40)) v.operands.push_back(index_in(room)), start = dollar(first, v);
    v.text += fmt::format("{}slice({}, {})", i ? ", " : "", start, sizes[i]);
  }
  v.text = "index(" + v.text + ")";
  return v;
}

View Body::view(const Ref& r, int first, bool transforms) {
  View v{r.type, "", {}};
  if (r.type.scalar() || rng.chance(30)) return v;
  if (transforms && !r.single && rng.chance(5) && r.type.dtype == DType::I32) {
    v.text = "bitcast(u32[]), ", v.type.dtype = DType::U32;
  } else if (transforms && !r.single && !r.part && machine == ir::Machine::Tpu && rng.chance(10) &&
             r.type.dtype == DType::I32 && r.type.dims.size() >= 2) {
    v.type.dtype = rng.of({DType::I8, DType::I16});
    v.type.dims[r.type.dims.size() - 2] *= 4 / ir::byte_size(v.type.dtype);
    v.text = fmt::format("bitcast({}[]), ", ir::name(v.type.dtype));
    ++terms["view of another width"];
  }
  Dims dims;
  std::string entries;
  for (size_t i = 0; i < v.type.dims.size(); ++i) {
    const int64_t n = v.type.dims[i];
    std::string e;
    const auto kind = rng.below(10);
    if (kind < 2) {
      if (rng.chance(50)) e = std::to_string(rng.below(n));
      else v.operands.push_back(index_in(n - 1)), e = dollar(first, v);
    } else if (kind < 5 || n == 1) {
      e = fmt::format("slice(0, {})", n);
      dims.push_back(n);
    } else if (kind == 5 && n >= 3) {
      const int64_t count = rng.in(1, (n + 1) / 2), start = rng.in(0, n - 1 - (count - 1) * 2);
      e = fmt::format("slice({}, {}, 2)", start, count);
      dims.push_back(count);
    } else {
      const int64_t size = rng.in(1, n);
      std::string start = std::to_string(rng.in(0, n - size));
      if (rng.chance(50)) v.operands.push_back(index_in(n - size)), start = dollar(first, v);
      e = fmt::format("slice({}, {})", start, size);
      dims.push_back(size);
    }
    entries += (i ? ", " : "") + e;
  }
  v.type.dims = dims;
  v.text += "index(" + entries + ")";
  if (!transforms || r.single) return v;
  if (dims.size() == 2 && rng.chance(20)) {
    v.text += ", transpose(1, 0)";
    std::swap(v.type.dims[0], v.type.dims[1]);
  } else if (!r.single && dims.size() == 1 && dims[0] > 1 && rng.chance(10)) {
    const int64_t size = rng.in(1, dims[0]);  // a view of the view
    v.text += fmt::format(", index(slice({}, {}))", rng.in(0, dims[0] - size), size);
    v.type.dims = {size};
  } else if (!r.part && !dims.empty() && v.operands.empty() && entries.find("2)") == std::string::npos &&
             dims == r.type.dims && rng.chance(30)) {
    v.type.dims = {v.type.size()};
    v.text += fmt::format(", reshape({})", v.type.size());
  }
  return v;
}

Value Body::get(const Ref& r, const View& v) {
  return keep(w.op("get " + name(r.id) + operands(v) + with_view(v), str(v.type)), v.type);
}

Value Body::read(const Ref& r) { return get(r, view(r, 1)); }

Value Body::read_as(const Ref& r, const Type& t) {
  bool inside = r.type.dims.size() == t.dims.size();
  for (size_t i = 0; inside && i < t.dims.size(); ++i) inside = t.dims[i] <= r.type.dims[i];
  if (!inside) return fit(read(r), t);
  return fit(get(r, window(r, t.dims, 1)), t);
}

Value Body::source(const Ref& r, const Type& t) {
  if (!rng.chance(60) || !can_read(r)) return some(t);
  Value v = read_as(r, t);
  if (rng.chance(40)) v = derived(v);
  return v.type == t ? v : fit(v, t);
}

void Body::fill(const Ref& r) {
  const Value v = rng.chance(50) ? fresh(r.type) : some(r.type);
  w.line("store " + name(r.id) + ", " + name(v.id));
  --budget;
}

void Body::store_step() {
  const Ref* p = writable();
  if (!p) return;
  const Ref r = *p;
  const View v = view(r, 2);
  const Value x = source(r, v.type);
  const std::string rest = name(r.id) + ", " + name(x.id) + operands(v) + with_view(v);
  ++terms["store"];
  if (rng.chance(20)) {
    keep(w.op("swap " + rest, str(v.type)), v.type);
  } else if (rng.chance(20) && can_add(v.type.dtype)) {
    w.line("addupdate " + rest);
  } else {
    w.line("store " + rest);
  }
  --budget;
}

// Stores the value, as far as it fits: what nothing uses need not be right.
void Body::leave_behind(const Value& v) {
  const Ref* p = writable();
  if (!p) return;
  const Ref r = *p;
  const View to = view(r, 2);
  w.line("store " + name(r.id) + ", " + name(fit(v, to.type).id) + operands(to) + with_view(to));
}

void Body::masked_step() {
  const bool load = rng.chance(35);
  const Ref* p = load ? readable() : writable();
  if (!p || p->type.scalar()) return;
  const Ref r = *p;
  const View v = view(r, load ? 1 : 2);
  if (v.type.scalar()) return;
  View all = v;
  const Type taken{DType::Bool, v.type.dims};
  Value m = rng.chance(40)                  ? remainder(taken)
            : rng.chance(40) && can_read(r) ? fit(read_as(r, {r.type.dtype, v.type.dims}), taken)
                                            : mask(v.type.dims);
  ++terms[load ? "masked load" : "masked store"];
  if (load) {
    const Value other = rng.chance(40) ? some({v.type.dtype, {}}) : source(r, v.type);
    all.operands.push_back(m.id);
    const std::string mk = dollar(1, all);
    all.operands.push_back(other.id);
    keep(w.op("masked_load " + name(r.id) + operands(all) +
                  with_view(v, fmt::format("mask = {}, other = {}", mk, dollar(1, all))),
              str(v.type)),
         v.type);
    return;
  }
  const Value x = for_one(source(r, v.type));
  all.operands.push_back(m.id);
  const std::string rest = name(r.id) + ", " + name(x.id) + operands(all) + with_view(v, "mask = " + dollar(2, all));
  if (rng.chance(30)) keep(w.op("masked_swap " + rest, str(v.type)), v.type);
  else w.line("masked_store " + rest);
  --budget;
}

// Array indices: loads from anywhere; stores to places that are all different.
void Body::gather_step() {
  const bool load = rng.chance(50);
  const Ref* p = load ? readable() : writable();
  if (!p || p->type.scalar()) return;
  const Ref r = *p;
  const size_t rank = r.type.dims.size();
  const auto axis = static_cast<size_t>(rng.below(static_cast<int64_t>(rank)));
  const int first = load ? 1 : 2;
  View v{{r.type.dtype, {}}, "", {}};
  Value at;
  if (load) {
    at = rng.chance(40) && r.type.dtype == DType::I32
             ? [&] {
                 const Value own = read_as(r, {DType::I32, {rng.of(extents)}});
                 const int lo = number(0), hi = number(r.type.dims[axis] - 1);
                 return keep(w.op(fmt::format("clamp {}, {}, {}", name(lo), name(own.id), name(hi)), str(own.type)),
                             own.type);
               }()
             : indices(rng.chance(20) ? Dims{2, rng.of(extents)} : Dims{rng.of(extents)}, r.type.dims[axis]);
  } else {
    at = permutation(r.type.dims[axis]);
    if (rng.chance(40)) {
      const int64_t n = rng.in(1, at.type.dims[0]), start = rng.in(0, at.type.dims[0] - n);
      at = keep(w.op(fmt::format("slice {} {{start = [{}], limit = [{}]}}", name(at.id), start, start + n),
                     str(Type{DType::I32, {n}})),
                {DType::I32, {n}});
    }
  }
  Dims kept;
  size_t before = 0;
  std::vector<size_t> ints;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t n = r.type.dims[i];
    std::string e;
    if (i == axis || (load && rng.chance(15))) {
      const Value a = i == axis ? at : indices(at.type.dims, n);
      v.operands.push_back(a.id), ints.push_back(i);
      e = "array(" + dollar(first, v) + ")";
    } else if (rng.chance(25)) {
      v.operands.push_back(index_in(n - 1)), ints.push_back(i);
      e = dollar(first, v);
    } else {
      const int64_t size = rng.in(1, n);
      e = fmt::format("slice({}, {})", rng.in(0, n - size), size);
      if (ints.empty()) ++before;
      kept.push_back(size);
    }
    v.text += (i ? ", " : "") + e;
  }
  if (ints.back() - ints.front() + 1 != ints.size()) before = 0;
  kept.insert(kept.begin() + static_cast<ptrdiff_t>(before), at.type.dims.begin(), at.type.dims.end());
  v.type.dims = kept;
  v.text = "index(" + v.text + ")";
  ++terms[load ? "array index load" : "array index store"];
  if (load && rng.chance(30)) {
    const Value m = mask(kept), other = source(r, v.type);
    View all = v;
    all.operands.push_back(m.id);
    const std::string mk = dollar(1, all);
    all.operands.push_back(other.id);
    keep(w.op("masked_load " + name(r.id) + operands(all) +
                  with_view(v, fmt::format("mask = {}, other = {}", mk, dollar(1, all))),
              str(v.type)),
         v.type);
    return;
  }
  if (load) return void(get(r, v));
  const Value x = for_one(source(r, v.type));
  const auto rest = [&](const View& all, const std::string& mk) {
    return name(r.id) + ", " + name(x.id) + operands(all) + with_view(v, mk);
  };
  if (rng.chance(30)) {
    const Value m = mask(kept);
    View all = v;
    all.operands.push_back(m.id);
    const std::string s = rest(all, "mask = " + dollar(2, all));
    if (rng.chance(40)) keep(w.op("masked_swap " + s, str(v.type)), v.type);
    else w.line("masked_store " + s);
  } else if (rng.chance(30)) {
    keep(w.op("swap " + rest(v, ""), str(v.type)), v.type);
  } else {
    w.line("store " + rest(v, ""));
  }
  --budget;
}

// In place: o[p] = o[…], o[…] = o[p], and for a ref that holds a permutation o[o[…]] = iota.
void Body::permute_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs) {
    const Root& root = roots[static_cast<size_t>(r.root)];
    const bool whole = root.permutation && root.writable && root.reading == 0 && root.writing == 0;
    if (r.type.dims.size() == 1 && (can_write(r) || whole)) l.push_back(&r);
  }
  if (l.empty()) return;
  const Ref r = *rng.of(l);
  const bool holds = roots[static_cast<size_t>(r.root)].permutation;
  const Type t{DType::I32, r.type.dims};
  ++terms["permutation in place"];
  const std::string o = name(r.id), all = fmt::format("slice(0, {})", t.dims[0]);
  const auto own = [&] {
    View v{r.type, rng.chance(50) ? "" : "index(" + all + ")", {}};
    Value x = get(r, v);
    if (!holds && rng.chance(30)) x = derived(x);
    if (rng.chance(15)) x = keep(w.op("optimization_barrier " + name(x.id), str(x.type)), x.type);
    return x;
  };
  --budget;
  if (holds && rng.chance(40)) {
    const Value at = own(), i = keep(w.op("iota {axis = 0}", str(t)), t);
    if (rng.chance(30))
      keep(w.op("swap " + o + ", " + name(i.id) + ", " + name(at.id) + " {view = [index(array($2))]}", str(t)), t);
    else w.line("store " + o + ", " + name(i.id) + ", " + name(at.id) + " {view = [index(array($2))]}");
    return;
  }
  const Value p = permutation(t.dims[0]);
  if (rng.chance(50)) {
    const Value x = own();
    const std::string rest = o + ", " + name(x.id) + ", " + name(p.id) + " {view = [index(array($2))]}";
    if (rng.chance(25)) keep(w.op("swap " + rest, str(r.type)), r.type);
    else w.line("store " + rest);
  } else {
    const Value x = get(r, {r.type, "index(array($1))", {p.id}});
    w.line("store " + o + ", " + name(x.id));
  }
}

// o[a:a+n] = f(o[b:b+n]), masked or not; o = o.T
void Body::overlap_step() {
  const Ref* p = writable();
  if (!p || p->type.scalar()) return;
  const Ref r = *p;
  ++terms["overlap in place"];
  const std::string o = name(r.id);
  if (r.type.dims.size() == 2 && r.type.dims[0] == r.type.dims[1] && !r.single && rng.chance(60)) {
    const Value x =
        rng.chance(50)
            ? keep(w.op("transpose " + name(get(r, {r.type, "", {}}).id) + " {perm = [1, 0]}", str(r.type)), r.type)
            : get(r, {r.type, "transpose(1, 0)", {}});
    w.line("store " + o + ", " + name(x.id));
    --budget;
    return;
  }
  Dims sizes;
  for (int64_t n : r.type.dims) sizes.push_back(n > 1 ? rng.in((n + 1) / 2, n) : 1);
  Value x = get(r, window(r, sizes, 1));
  if (rng.chance(40)) x = derived(x);
  if (rng.chance(20)) x = combine(x, get(r, window(r, sizes, 1)));
  const View to = window(r, sizes, 2);
  if (rng.chance(50)) {
    Value m = rng.chance(50) ? mask(sizes) : fit(get(r, window(r, sizes, 1)), {DType::Bool, sizes});
    View all = to;
    all.operands.push_back(m.id);
    const std::string rest = o + ", " + name(x.id) + operands(all) + with_view(to, "mask = " + dollar(2, all));
    if (rng.chance(30)) keep(w.op("masked_swap " + rest, str(to.type)), to.type);
    else w.line("masked_store " + rest);
  } else {
    const std::string rest = o + ", " + name(x.id) + operands(to) + with_view(to);
    const auto kind = rng.below(4);
    if (kind == 0) keep(w.op("swap " + rest, str(to.type)), to.type);
    else if (kind == 1 && can_add(to.type.dtype)) w.line("addupdate " + rest);
    else w.line("store " + rest);
  }
  --budget;
}

// A ref that is its own mask.
void Body::nothing_step() {
  const Ref *from = readable(), *p = writable();
  if (!from || !p || from->single || p->single || from->type.scalar() || p->type.scalar()) return;
  ++terms["no elements"];
  const auto none = [&](const Ref& r) {
    std::string e;
    for (size_t i = 0; i < r.type.dims.size(); ++i)
      e += fmt::format("{}slice(0, {})", i ? ", " : "", i ? r.type.dims[i] : 0);
    return " {view = [index(" + e + ")]}";
  };
  const Ref to = *p;
  Type t = from->type;
  t.dims[0] = 0;
  const int v = w.op("get " + name(from->id) + none(*from), str(t));
  const int n = w.op("optimization_barrier " + name(v), str(t));
  if (t.dtype != to.type.dtype || t.dims.size() != to.type.dims.size()) return;
  for (size_t i = 1; i < t.dims.size(); ++i)
    if (t.dims[i] != to.type.dims[i]) return;
  w.line("store " + name(to.id) + ", " + name(n) + none(to));
}

void Body::own_mask_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_write(r) && !r.type.scalar() && r.type.dtype == DType::Bool) l.push_back(&r);
  if (l.empty()) return;
  const Ref r = *rng.of(l);
  ++terms["ref as its own mask"];
  Dims sizes;
  for (int64_t n : r.type.dims) sizes.push_back(n > 1 ? rng.in((n + 1) / 2, n) : 1);
  const Value m = get(r, window(r, sizes, 1)), x = source(r, {DType::Bool, sizes});
  const View to = window(r, sizes, 2);
  View all = to;
  all.operands.push_back(m.id);
  w.line("masked_store " + name(r.id) + ", " + name(x.id) + operands(all) + with_view(to, "mask = " + dollar(2, all)));
  --budget;
}

void Body::alias_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (!roots[static_cast<size_t>(r.root)].permutation && !r.type.scalar() && !r.single) l.push_back(&r);
  if (l.empty()) return;
  const Ref r = *rng.of(l);
  const View v = view(r, 1);
  const Ref part{w.op("view " + name(r.id) + operands(v) + " {view = [" + v.text + "]}", ref_type(v.type, r.space)),
                 v.type,
                 r.root,
                 r.space,
                 r.single,
                 true};
  refs.push_back(part);
  ++terms["view"];
  --budget;
}

}  // namespace pallasim::judge
