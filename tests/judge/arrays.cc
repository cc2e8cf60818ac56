// Whole-array operations beyond slices and reshapes.
#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {

// Updates at places that are all different, or a sum of integers, whose order does not matter.
void Body::scatter_step() {
  if (!rng.chance(40)) return arrange_step();
  const int64_t n = rng.of(extents);
  const bool sum = rng.chance(40);
  Type t{rng.of(dtypes), {n}};
  if (sum) t.dtype = DType::I32;
  const Value x = some(t);
  Value at = sum ? indices({rng.of(extents)}, n) : permutation(n);
  if (!sum && rng.chance(50)) {
    const int64_t m = rng.in(1, n);
    const Type part{DType::I32, {m}};
    at = keep(w.op(fmt::format("slice {} {{start = [0], limit = [{}]}}", name(at.id), m), str(part)), part);
  }
  const int64_t m = at.type.dims[0];
  const Value u = some({t.dtype, {m}});
  const int column = w.op("reshape " + name(at.id), str(Type{DType::I32, {m, 1}}));
  ++terms["scatter"];
  keep(w.op(fmt::format("{} {}, {}, {} {{update_window_dims = [], inserted_window_dims = [0], "
                        "scatter_dims_to_operand_dims = [0], mode = clip}}",
                        sum ? "scatter_add" : "scatter", name(x.id), name(column), name(u.id)),
            str(t)),
       t, std::max(x.mag, u.mag));
}

// Slices that index vectors name, with any dimension numbers: a gather, or a scatter whose order does not matter.
void Body::slices_step() {
  enum Role { Batch, Collapsed, Window, Whole };
  const bool scatters = rng.chance(40);
  Type t{scatters ? DType::I32 : rng.of(dtypes), {}};
  if (t.dtype == DType::Bool) return arrange_step();
  const int64_t rank = rng.in(1, 3);
  Dims sizes, x_batch, collapsed, map;
  std::vector<std::pair<int64_t, int64_t>> walked;  // extent of a batch dimension, and of which of x it is or -1
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t n = d + 1 == rank && rng.chance(40) ? rng.of(extents) : rng.in(1, 6);
    const auto role =
        static_cast<Role>(map.empty() && d + 1 == rank ? rng.in(Collapsed, Window) : rng.in(Batch, Whole));
    t.dims.push_back(n);
    sizes.push_back(role == Batch || role == Collapsed ? 1 : rng.in(1, n));
    if (role == Batch) x_batch.push_back(d), walked.emplace_back(n, d);
    if (role == Collapsed) collapsed.push_back(d);
    if (role == Collapsed || role == Window) map.insert(map.begin() + rng.below(std::ssize(map) + 1), d);
  }
  // In a loop of many trips the evaluator would take minutes for tens of thousands.
  int64_t elements = 1;
  for (const int64_t n : sizes) elements *= n;
  for (int64_t k = rng.below(3); k > 0; --k) {
    const int64_t place = rng.below(std::ssize(walked) + 1), n = rng.chance(30) ? rng.of(extents) : rng.in(1, 5);
    const int64_t taken = elements * n > 1024 ? std::min<int64_t>(n, 5) : n;
    elements *= taken;
    walked.emplace(walked.begin() + place, taken, -1);
  }
  Dims batch, i_batch(x_batch.size()), window, slices, inner;
  for (size_t i = 0; i < walked.size(); ++i) {
    batch.push_back(walked[i].first);
    for (size_t k = 0; k < x_batch.size(); ++k)
      if (walked[i].second == x_batch[k]) i_batch[k] = static_cast<int64_t>(i);
  }
  for (int64_t d = 0; d < rank; ++d)
    if (std::count(x_batch.begin(), x_batch.end(), d) + std::count(collapsed.begin(), collapsed.end(), d) == 0)
      inner.push_back(sizes[static_cast<size_t>(d)]);
  // Windows lie anywhere among the others.
  size_t b = 0, i = 0;
  while (b < batch.size() || i < inner.size()) {
    const bool inside = i < inner.size() && (b == batch.size() || rng.chance(50));
    if (inside) window.push_back(std::ssize(slices));
    slices.push_back(inside ? inner[i++] : batch[b++]);
  }
  batch.push_back(std::ssize(map));
  const Value x = some(t), at = rng.chance(70) ? indices(batch, 6) : some({DType::I32, batch});
  const std::string mode = rng.chance(50) ? "clip" : "fill_or_drop";
  if (!scatters) {
    const std::string fill = mode == "clip" ? "" : ", fill = " + literal(t.dtype, 3);
    ++terms["gathered slices"];
    const Type r{t.dtype, slices};
    return leave_behind(keep(
        w.op(fmt::format("gather {}, {} {{offset_dims = [{}], collapsed_slice_dims = [{}], start_index_map = [{}], "
                         "operand_batching_dims = [{}], start_indices_batching_dims = [{}], slice_sizes = [{}], "
                         "mode = {}{}}}",
                         name(x.id), name(at.id), str(window), str(collapsed), str(map), str(x_batch), str(i_batch),
                         str(sizes), mode, fill),
             str(r)),
        r, std::max(x.mag, 3.0)));
  }
  const char* const kind = rng.of({"scatter_add", "scatter_sub", "scatter_min", "scatter_max"});
  const Value u = some({t.dtype, slices});
  ++terms["scattered slices"];
  leave_behind(keep(w.op(fmt::format("{} {}, {}, {} {{update_window_dims = [{}], inserted_window_dims = [{}], "
                                     "scatter_dims_to_operand_dims = [{}], operand_batching_dims = [{}], "
                                     "scatter_indices_batching_dims = [{}], mode = {}}}",
                                     kind, name(x.id), name(at.id), name(u.id), str(window), str(collapsed), str(map),
                                     str(x_batch), str(i_batch), mode),
                         str(t)),
                    t, std::max(x.mag, u.mag)));
}

// A ref that is put together anew from what it holds: it cannot be done in place.
void Body::rearrange_step() {
  const Ref* p = writable();
  if (!p || p->type.scalar() || !can_read(*p) || p->single) return arrange_step();
  const Ref r = *p;
  const Type& t = r.type;
  const Value now = keep(w.op("get " + name(r.id), str(t)), t);
  const Value x = rng.chance(40) ? derived(now) : now;
  const auto rank = static_cast<int64_t>(t.dims.size());
  const auto axis = static_cast<size_t>(rng.below(rank));
  const int64_t n = t.dims[axis], cut = rng.in(0, n);
  const auto op = [&](const std::string& text, const Type& type) { return w.op(text, str(type)); };
  const auto piece = [&](int64_t from, int64_t to) {
    Type part = t;
    Dims start(t.dims.size(), 0), limit = t.dims;
    part.dims[axis] = to - from, start[axis] = from, limit[axis] = to;
    return op(fmt::format("slice {} {{start = [{}], limit = [{}]}}", name(x.id), str(start), str(limit)), part);
  };
  int y = -1;
  switch (rng.below(t.dtype == DType::Bool ? 3 : 5)) {
    case 0: {
      const int last = piece(cut, n), first = piece(0, cut);
      y = op(fmt::format("concatenate {}, {} {{axis = {}}}", name(last), name(first), axis), t);
      break;
    }
    case 1: {
      Dims low(t.dims.size(), 0), high = low;
      const bool before = rng.chance(50);
      (before ? low : high)[axis] = n - cut;
      const int kept = before ? piece(0, cut) : piece(n - cut, n);
      y = op(fmt::format("pad {}, {} {{low = [{}], high = [{}], interior = [{}]}}", name(kept),
                         name(some({t.dtype, {}}).id), str(low), str(high), str(Dims(t.dims.size(), 0))),
             t);
      break;
    }
    case 2: {
      Type other = t;
      std::reverse(other.dims.begin(), other.dims.end());
      const int turned = op("reshape " + name(x.id), other);
      const int back = op(fmt::format("rev {} {{axes = [{}]}}", name(turned), axis), other);
      y = op("reshape " + name(back), t);
      break;
    }
    case 3:
      y = op(fmt::format("roll {}, {} {{axis = {}}}", name(x.id), name(number(rng.below(n + 1))), axis), t);
      break;
    default: y = op(fmt::format("sort {} {{axis = {}, num_keys = 1, stable = true}}", name(x.id), axis), t); break;
  }
  ++terms["rearranged in place"];
  w.line("store " + name(r.id) + ", " + name(y));
}

void Body::arrange_step() {
  Type t{rng.of(dtypes), {rng.of(extents)}};
  if (rng.chance(40)) t.dims.push_back(rng.of(extents));
  const Value x = some(t);
  const std::string v = name(x.id);
  const auto rank = static_cast<int64_t>(t.dims.size());
  const auto axis = static_cast<size_t>(rng.below(rank));
  Type r = t;
  switch (rng.below(6)) {
    case 0: {  // keys and what goes with them
      const Value y = some({rng.of(dtypes), t.dims});
      const int a = w.fresh(), b = w.fresh();
      w.line(fmt::format("{}, {} = sort {}, {} {{axis = {}, num_keys = 1, stable = true}} : {}, {}", name(a), name(b),
                         v, name(y.id), axis, str(t), str(y.type)));
      keep(a, t, x.mag), keep(b, y.type, y.mag);
      return;
    }
    case 1: {
      Dims reps;
      for (int64_t& d : r.dims) reps.push_back(rng.in(1, 2)), d *= reps.back();
      keep(w.op(fmt::format("tile {} {{reps = [{}]}}", v, str(reps)), str(r)), r, x.mag);
      return;
    }
    case 2: {
      const int64_t n = rng.in(1, 3);
      r.dims[axis] *= n;
      keep(w.op(fmt::format("repeat {} {{repeats = {}, axis = {}}}", v, n, axis), str(r)), r, x.mag);
      return;
    }
    case 3: {
      const Value y = some(t);
      r.dims.insert(r.dims.begin() + static_cast<ptrdiff_t>(axis), 2);
      keep(w.op(fmt::format("stack {}, {} {{axis = {}}}", v, name(y.id), axis), str(r)), r, std::max(x.mag, y.mag));
      return;
    }
    case 4: {
      if (t.dims[axis] < 2) return;
      Type b = t;
      const int64_t n = rng.in(1, t.dims[axis] - 1);
      r.dims[axis] = n, b.dims[axis] -= n;
      const int first = w.fresh(), second = w.fresh();
      w.line(fmt::format("{}, {} = split {} {{sizes = [{}, {}], axis = {}}} : {}, {}", name(first), name(second), v, n,
                         b.dims[axis], axis, str(r), str(b)));
      keep(first, r, x.mag), keep(second, b, x.mag);
      return;
    }
    default: {
      if (!ir::is_int(t.dtype) || ir::byte_size(t.dtype) != 4) return;
      r.dtype = t.dtype == DType::I32 ? DType::U32 : DType::I32;
      keep(w.op("bitcast_convert " + v, str(r)), r);
    }
  }
}

// Programs of a GPU add to shared memory in any order: one kind of update per ref, results unused.
void Body::atomic_step(const Ref& shared, const std::string& kind) {
  const int64_t m = rng.of(extents);
  const Value at = indices({m}, shared.type.dims[0]), x = some({DType::I32, {m}});
  const Value on = mask({m});
  ++terms["atomic"];
  w.op(fmt::format("atomic_rmw {}, {}, {}, {} {{kind = {}, view = [index(array($2))], mask = $3}}", name(shared.id),
                   name(x.id), name(at.id), name(on.id), kind),
       str(x.type));
}

}  // namespace pallasim::judge
