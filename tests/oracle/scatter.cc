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

Array element(const Array& from, int64_t n) {
  Array r = empty_array(from.dtype, {});
  put(r, 0, from, n);
  return r;
}

// Which dimensions of the array the window of an update covers, in order; the others it names one element of.
std::vector<bool> covered(const Array& x, const Op& op) {
  std::vector<bool> r(x.dims.size(), true);
  for (const char* name : {"inserted_window_dims", "operand_batching_dims"})
    for (int64_t d : ints(op.attr(name))) r[static_cast<size_t>(d)] = false;
  return r;
}

}  // namespace

bool Machine::scatter_op(Thread& t, const Op& op) {
  const std::optional<OpCode> combine = combination(op.code);
  if (!combine && op.code != OpCode::scatter) return false;
  const Array &x = in(t, op, 0), &where = in(t, op, 1), &updates = in(t, op, 2);
  const Dims window = ints(op.attr("update_window_dims")), map = ints(op.attr("scatter_dims_to_operand_dims")),
             x_batch = ints(op.attr("operand_batching_dims")), i_batch = ints(op.attr("scatter_indices_batching_dims"));
  const bool clip = op.attr("mode")->s == "clip";
  const std::vector<bool> covers = covered(x, op);
  Dims sizes(x.dims.size(), 1);  // of a window
  for (size_t d = 0, w = 0; d < sizes.size(); ++d)
    if (covers[d]) sizes[d] = updates.dims[static_cast<size_t>(window[w++])];
  interp::StripParams p;
  p.dtype = x.dtype;
  p.semantics = semantics_of(m_.machine);
  Array r = x;
  const Dims strides = strides_of(x.dims), where_strides = strides_of(where.dims);
  each_index(updates.dims, [&](const Dims& index, int64_t n) {
    Dims at(x.dims.size(), 0), vector, inside;
    for (size_t d = 0; d < index.size(); ++d) {
      const bool of_window = std::find(window.begin(), window.end(), static_cast<int64_t>(d)) != window.end();
      (of_window ? inside : vector).push_back(index[d]);
    }
    int64_t from = 0;
    for (size_t d = 0; d < vector.size(); ++d) from += vector[d] * where_strides[d];
    for (size_t k = 0; k < map.size(); ++k) {
      const auto d = static_cast<size_t>(map[k]);
      const int64_t i = integer(where, from + static_cast<int64_t>(k)), last = x.dims[d] - sizes[d];
      if (!clip && (i < 0 || i > last)) return;  // as a whole
      at[d] = std::clamp<int64_t>(i, 0, last);
    }
    for (size_t k = 0; k < x_batch.size(); ++k)
      at[static_cast<size_t>(x_batch[k])] = vector[static_cast<size_t>(i_batch[k])];
    for (size_t d = 0, w = 0; d < at.size(); ++d)
      if (covers[d]) at[d] += inside[w++];
    const int64_t to = dot(at, strides);
    if (!combine) return put(r, to, updates, n);
    const Array old = element(r, to), by = element(updates, n);
    put(r, to, elementwise(*combine, x.dtype, x.dtype, {}, {&old, &by}, p), 0);
  });
  return out(t, op, std::move(r)), true;
}

}  // namespace pallasim::oracle
