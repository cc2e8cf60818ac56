// Updates at places that index vectors name: lax.scatter and its kinds.
#include "machine.h"

namespace pallasim::oracle {
namespace {

// How two values of one place become one; none: the later one stays.
std::optional<OpCode> combination(OpCode code) {
  switch (code) {
    case OpCode::scatter_add: return OpCode::add;
    case OpCode::scatter_sub: return OpCode::sub;
    case OpCode::scatter_mul: return OpCode::mul;
    case OpCode::scatter_min: return OpCode::min;
    case OpCode::scatter_max: return OpCode::max;
    default: return std::nullopt;
  }
}

// What a gather gives for elements that it drops.
Array dropped(const Attr* given, DType t) {
  if (!given || !given->is(Attr::Kind::Bits)) throw Lack{"a gather that drops and says not what for"};
  Array r = empty_array(t, {});
  std::memcpy(r.bytes.data(), &given->i, r.bytes.size());
  return r;
}

// Slices of an array that index vectors name: of a gather's result or a scatter's updates, whose dimensions `window`
// run inside a slice, along those of the array that are neither `named` nor of `x_batch`.
struct Slices {
  Dims window, named, map, x_batch, i_batch, sizes;
  bool clip = false;
  Dims of_x, of_where, at, vector, inside;  // strides; of the element in hand

  bool covers(size_t d) const { return !has(named, d) && !has(x_batch, d); }
  // The element of `x` that an index of the result, or of the updates, stands for; -1: its slice is dropped as a whole.
  int64_t element(const Array& x, const Array& where, const Dims& index) {
    if (of_x.empty()) of_x = strides_of(x.dims), of_where = strides_of(where.dims);
    at.assign(x.dims.size(), 0), vector.clear(), inside.clear();
    for (size_t d = 0; d < index.size(); ++d) (has(window, d) ? inside : vector).push_back(index[d]);
    const int64_t from = dot(vector, of_where);
    for (size_t k = 0; k < map.size(); ++k) {
      const auto d = static_cast<size_t>(map[k]);
      const int64_t i = integer(where, from + static_cast<int64_t>(k)), last = x.dims[d] - sizes[d];
      if (!clip && (i < 0 || i > last)) return -1;
      at[d] = std::clamp<int64_t>(i, 0, last);
    }
    for (size_t k = 0; k < x_batch.size(); ++k)
      at[static_cast<size_t>(x_batch[k])] = vector[static_cast<size_t>(i_batch[k])];
    for (size_t d = 0, w = 0; d < at.size(); ++d)
      if ((at[d] += covers(d) ? inside[w++] : 0) >= x.dims[d])
        throw Lack{"attributes that name elements which an operand lacks"};
    return dot(at, of_x);
  }
};

}  // namespace

Array gather(const Array& x, const Array& where, const Op& op, const Dims& dims) {
  Slices s{ints(op.attr("offset_dims")),
           ints(op.attr("collapsed_slice_dims")),
           ints(op.attr("start_index_map")),
           ints(op.attr("operand_batching_dims")),
           ints(op.attr("start_indices_batching_dims")),
           ints(op.attr("slice_sizes")),
           op.attr("mode")->s == "clip"};
  Array r = empty_array(x.dtype, dims);
  const Array fill = s.clip ? empty_array(x.dtype, {}) : dropped(op.attr("fill"), x.dtype);
  each_index(dims, [&](const Dims& index, int64_t n) {
    const int64_t at = s.element(x, where, index);
    at < 0 ? put(r, n, fill, 0) : put(r, n, x, at);
  });
  return r;
}

bool Machine::scatter_op(Thread& t, const Op& op) {
  const std::optional<OpCode> combine = combination(op.code);
  if (!combine && op.code != OpCode::scatter) return false;
  const Array &x = in(t, op, 0), &where = in(t, op, 1), &updates = in(t, op, 2);
  Slices s{ints(op.attr("update_window_dims")),
           ints(op.attr("inserted_window_dims")),
           ints(op.attr("scatter_dims_to_operand_dims")),
           ints(op.attr("operand_batching_dims")),
           ints(op.attr("scatter_indices_batching_dims")),
           Dims(x.dims.size(), 1),
           op.attr("mode")->s == "clip"};
  for (size_t d = 0, w = 0; d < s.sizes.size(); ++d)
    if (s.covers(d)) s.sizes[d] = updates.dims[static_cast<size_t>(s.window[w++])];
  interp::StripParams p;
  p.dtype = x.dtype;
  p.semantics = semantics_of(m_.machine);
  Array r = x, old = empty_array(x.dtype, {}), by = old;
  each_index(updates.dims, [&](const Dims& index, int64_t n) {
    const int64_t to = s.element(x, where, index);
    if (to < 0) return;
    if (!combine) return put(r, to, updates, n);
    put(old, 0, r, to), put(by, 0, updates, n);
    put(r, to, elementwise(*combine, x.dtype, x.dtype, {}, {&old, &by}, p), 0);
  });
  return out(t, op, std::move(r)), true;
}

}  // namespace pallasim::oracle
