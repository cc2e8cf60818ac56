// lax.gather and lax.scatter: slices found by index vectors (the last dimension of the indices).
#include <algorithm>

#include "../plan/array.h"
#include "elements.h"

namespace pallasim::interp::ops {
namespace {

bool contains(const std::vector<int>& v, int x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// Which dimension of the result (or of the updates) does what.
struct Layout {
  std::vector<int> batch;      // dims that run over index vectors, in order
  std::vector<int> window;     // dims that run inside a slice, in order
  std::vector<int> window_to;  // operand dim of each
};

Layout layout_of(int rank, const std::vector<int>& window_dims, int operand_rank, const std::vector<int>& dropped,
                 const std::vector<int>& operand_batch) {
  Layout l;
  for (int d = 0; d < rank; ++d) (contains(window_dims, d) ? l.window : l.batch).push_back(d);
  for (int d = 0; d < operand_rank; ++d)
    if (!contains(dropped, d) && !contains(operand_batch, d)) l.window_to.push_back(d);
  return l;
}

// Start of the slice that an index vector names; false where it is dropped.
struct Starts {
  const Dims& operand;
  const Dims& slice;
  const Dims& index_strides;
  const std::vector<int>&map, &operand_batch, &index_batch;
  ir::DType dtype;
  Bounds bounds;

  bool find(const std::byte* indices, const int64_t* at, size_t batch, Dims& start) const {
    std::fill(start.begin(), start.end(), 0);
    int64_t offset = 0;
    for (size_t i = 0; i < batch; ++i) offset += at[i] * index_strides[i];
    const int size = ir::byte_size(dtype);
    bool inside = true;
    for (size_t k = 0; k < map.size(); ++k) {
      const auto d = static_cast<size_t>(map[k]);
      int64_t v = integer_element(indices + (offset + static_cast<int64_t>(k)) * size, dtype);
      const int64_t last = operand[d] - slice[d];
      if (bounds == Bounds::Clip) v = std::clamp<int64_t>(v, 0, std::max<int64_t>(last, 0));
      inside &= v >= 0 && v <= last;
      start[d] = v;
    }
    for (size_t k = 0; k < operand_batch.size(); ++k)
      start[static_cast<size_t>(operand_batch[k])] = at[static_cast<size_t>(index_batch[k])];
    return inside;
  }
};

// Visits every index of `dims` in row-major order.
template <typename F>
void for_each(const Dims& dims, const F& f) {
  if (count(dims) == 0) return;
  Dims index(dims.size(), 0);
  for (int64_t n = 0;; ++n) {
    f(index, n);
    if (!memory::next_index(index.data(), dims.size(), dims)) return;
  }
}

}  // namespace

ArrayBody gather_slices(GatherShape g) {
  return [g](const ArrayCall& c) {
    const Layout l = layout_of(static_cast<int>(g.result.size()), g.offset_dims, static_cast<int>(g.operand.size()),
                               g.collapsed, g.operand_batch);
    const Dims strides = memory::dense_strides(g.operand), index_strides = memory::dense_strides(g.indices);
    const Starts starts{g.operand,       g.slice,       index_strides, g.start_map,
                        g.operand_batch, g.index_batch, g.index,       g.bounds};
    const auto size = static_cast<size_t>(ir::byte_size(g.dtype));
    Dims start(g.operand.size()), at(l.batch.size());
    for_each(g.result, [&](const Dims& index, int64_t n) {
      for (size_t i = 0; i < at.size(); ++i) at[i] = index[static_cast<size_t>(l.batch[i])];
      const bool inside = starts.find(c.in[1], at.data(), at.size(), start);
      std::byte* out = c.out[0] + n * static_cast<int64_t>(size);
      if (!inside) {
        std::memcpy(out, g.fill, size);
        return;
      }
      int64_t offset = 0;
      for (size_t d = 0; d < start.size(); ++d) offset += start[d] * strides[d];
      for (size_t w = 0; w < l.window.size(); ++w)
        offset += index[static_cast<size_t>(l.window[w])] * strides[static_cast<size_t>(l.window_to[w])];
      std::memcpy(out, c.in[0] + offset * static_cast<int64_t>(size), size);
    });
  };
}

ArrayBody scatter_slices(ScatterShape g) {
  return [g](const ArrayCall& c) {
    const Layout l = layout_of(static_cast<int>(g.updates.size()), g.window_dims, static_cast<int>(g.operand.size()),
                               g.inserted, g.operand_batch);
    const Dims strides = memory::dense_strides(g.operand), index_strides = memory::dense_strides(g.indices);
    Dims slice(g.operand.size(), 1);
    for (size_t w = 0; w < l.window.size(); ++w)
      slice[static_cast<size_t>(l.window_to[w])] = g.updates[static_cast<size_t>(l.window[w])];
    const Starts starts{g.operand,       slice,         index_strides, g.start_map,
                        g.operand_batch, g.index_batch, g.index,       g.bounds};
    const auto size = static_cast<size_t>(ir::byte_size(g.dtype));
    std::memcpy(c.out[0], c.in[0], static_cast<size_t>(count(g.operand)) * size);
    Dims start(g.operand.size()), at(l.batch.size());
    for_each(g.updates, [&](const Dims& index, int64_t n) {
      for (size_t i = 0; i < at.size(); ++i) at[i] = index[static_cast<size_t>(l.batch[i])];
      if (!starts.find(c.in[1], at.data(), at.size(), start)) return;
      int64_t offset = 0;
      for (size_t d = 0; d < start.size(); ++d) offset += start[d] * strides[d];
      for (size_t w = 0; w < l.window.size(); ++w)
        offset += index[static_cast<size_t>(l.window[w])] * strides[static_cast<size_t>(l.window_to[w])];
      std::byte* to = c.out[0] + offset * static_cast<int64_t>(size);
      const std::byte* update = c.in[2] + n * static_cast<int64_t>(size);
      if (!g.combine) {
        std::memcpy(to, update, size);
        return;
      }
      alignas(16) std::byte old[16], by[16], result[16];
      kernels().load(g.dtype)(old, to, 1, 1);
      kernels().load(g.dtype)(by, update, 1, 1);
      g.combine(result, old, by, by, 1, g.params);
      kernels().store(g.dtype)(to, result, 1, 1);
    });
  };
}

}  // namespace pallasim::interp::ops
