// lax.gather and lax.scatter: slices found by index vectors (the last dimension of the indices), row by row along the
// last dimension of the result, or of the updates.
#include <algorithm>

#include "../plan/host_cost.h"
#include "../plan/payload/array.h"
#include "array.h"
#include "elements.h"
#include "parts.h"

namespace pallasim::interp::ops {
namespace {

bool contains(const std::vector<int>& v, int x) { return std::find(v.begin(), v.end(), x) != v.end(); }

// What a dimension of the result (of the updates) moves by one: elements of the operand, and of the indices where it
// runs over index vectors.
struct Walked {
  int64_t n, step, index_step;
  bool inside;  // a slice
};
// One number of an index vector: its bound, and elements of the operand that it moves by one.
struct Component {
  int64_t last, step;
};

constexpr int64_t kOutside = INT64_MIN;  // the place of an element whose slice is dropped
constexpr int64_t kChunk = 256;

// Where the slices lie.
struct Slices {
  std::vector<Walked> walked;  // without dimensions of one element
  std::vector<Component> components;
  ir::DType index;
  Bounds bounds;

  int64_t rows() const {
    int64_t n = 1;
    for (size_t d = 0; d + 1 < walked.size(); ++d) n *= walked[d].n;
    return n;
  }
  int64_t row_length() const { return walked.empty() ? 1 : walked.back().n; }
  // Of a row by its number: the place and the index vector of its first element, as if all indices were 0.
  void row(int64_t number, int64_t* place, int64_t* vector) const {
    *place = *vector = 0;
    for (size_t d = walked.size() - (walked.empty() ? 0 : 1); d-- > 0; number /= walked[d].n) {
      const int64_t i = number % walked[d].n;
      *place += i * walked[d].step, *vector += i * walked[d].index_step;
    }
  }
  // Whether all elements of a row have one index vector; then they lie walked.back().step apart.
  bool one_slice() const { return walked.empty() || walked.back().inside; }

  // Where n elements lie whose index vectors lie `apart` elements from each other: the first at `place` if its indices
  // were 0, the others `step` further each.
  void place(const std::byte* vectors, int64_t apart, int64_t n, int64_t place, int64_t step, int64_t* places) const {
    as_integer(index, [&](auto zero) {
      const auto* x = reinterpret_cast<const decltype(zero)*>(vectors);
      const auto for_each = [&](const auto& f) {
        for (int64_t i = 0; i < n; ++i) places[i] = f(i);
      };
      if (components.empty()) for_each([&](int64_t i) { return place + i * step; });
      for (size_t k = 0; k < components.size(); ++k, ++x) {
        const Component c = components[k];
        const auto before = [&](int64_t i) { return k == 0 ? place + i * step : places[i]; };
        if (bounds == Bounds::Clip)
          for_each([&](int64_t i) {
            return before(i) + std::clamp<int64_t>(static_cast<int64_t>(x[i * apart]), 0, c.last) * c.step;
          });
        else
          for_each([&](int64_t i) {
            const auto v = static_cast<int64_t>(x[i * apart]);
            const int64_t at = before(i);
            return v < 0 || v > c.last || at == kOutside ? kOutside : at + v * c.step;
          });
      }
    });
  }

  // Calls run(first element of the row, place) where a row is one slice, else each(first, places, how many), in order.
  template <typename Run, typename Each>
  void for_rows(int64_t begin, int64_t end, const std::byte* indices, const Run& run, const Each& each) const {
    const int size = ir::byte_size(index);
    int64_t places[kChunk];
    for (int64_t r = begin; r < end; ++r) {
      int64_t first, vector;
      row(r, &first, &vector);
      const std::byte* vectors = indices + vector * size;
      if (one_slice()) {
        int64_t at;
        place(vectors, 0, 1, first, 0, &at);
        run(r * row_length(), at);
        continue;
      }
      const Walked& w = walked.back();
      for (int64_t at = 0; at < w.n; at += kChunk) {
        const int64_t n = std::min(kChunk, w.n - at);
        place(vectors + at * w.index_step * size, w.index_step, n, first + at * w.step, w.step, places);
        each(r * w.n + at, places, n);
      }
    }
  }
};

// `window`: dims of `walked` that run inside a slice, `dropped`: those of the operand that none of them is.
Slices slices_of(const Dims& operand, const Dims& slice, const Dims& walked, const Dims& indices,
                 const std::vector<int>& window, const std::vector<int>& dropped, const std::vector<int>& map,
                 const std::vector<int>& operand_batch, const std::vector<int>& index_batch, ir::DType index,
                 Bounds bounds) {
  const Dims strides = memory::dense_strides(operand), index_strides = memory::dense_strides(indices);
  Slices s{{}, {}, index, bounds};
  for (const int d : map) {
    const auto at = static_cast<size_t>(d);
    s.components.push_back({operand[at] - slice[at], strides[at]});
    if (operand[at] < slice[at]) s.bounds = Bounds::Drop;  // nothing is inside
  }
  std::vector<int> window_to;
  for (int d = 0; d < static_cast<int>(operand.size()); ++d)
    if (!contains(dropped, d) && !contains(operand_batch, d)) window_to.push_back(d);
  size_t windows = 0;
  int batch = 0;
  for (size_t d = 0; d < walked.size(); ++d) {
    Walked w{walked[d], 0, 0, contains(window, static_cast<int>(d))};
    if (w.inside) {
      w.step = strides[static_cast<size_t>(window_to[windows++])];
    } else {
      w.index_step = index_strides[static_cast<size_t>(batch)];
      for (size_t k = 0; k < index_batch.size(); ++k)
        if (index_batch[k] == batch) w.step += strides[static_cast<size_t>(operand_batch[k])];
      ++batch;
    }
    if (w.n != 1) s.walked.push_back(w);
  }
  return s;
}

template <size_t N>
void gather_elements(std::byte* out, const std::byte* from, const int64_t* places, int64_t n, const std::byte* fill) {
  constexpr auto size = static_cast<int64_t>(N);
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(out + i * size, places[i] == kOutside ? fill : from + places[i] * size, N);
}

using GatherFn = void (*)(std::byte*, const std::byte*, const int64_t*, int64_t, const std::byte*);
GatherFn gather_function(int size) {
  switch (size) {
    case 1: return gather_elements<1>;
    case 2: return gather_elements<2>;
    case 4: return gather_elements<4>;
    case 8: return gather_elements<8>;
    default: return gather_elements<16>;
  }
}

}  // namespace

ArrayBody gather_slices(GatherShape g) {
  return ArrayBody(
      [g, s = slices_of(g.operand, g.slice, g.result, g.indices, g.offset_dims, g.collapsed, g.start_map,
                        g.operand_batch, g.index_batch, g.index, g.bounds)](const ArrayCall& c) {
        if (count(g.result) == 0) return;
        const int size = ir::byte_size(g.dtype);
        const int64_t length = s.row_length(), one = 1, step = s.walked.empty() ? 1 : s.walked.back().step;
        const GatherFn gather = gather_function(size);
        const auto rows = [&](int64_t begin, int64_t end) {
          s.for_rows(
              begin, end, c.in[1],
              [&](int64_t first, int64_t place) {
                std::byte* out = c.out[0] + first * size;
                if (place == kOutside) fill_strided(out, &one, g.fill, &length, 1, size);
                else copy_strided(out, &one, c.in[0] + place * size, &step, &length, 1, size);
              },
              [&](int64_t first, const int64_t* places, int64_t n) {
                gather(c.out[0] + first * size, c.in[0], places, n, g.fill);
              });
        };
        const auto elements = static_cast<double>(count(g.result));
        const double ns = s.one_slice() ? host_cost::kSlices.of(static_cast<double>(s.rows())) +
                                              host_cost::kSliceBytes.of(size * elements)
                                        : host_cost::kGatheredElement.of(elements);
        const int parts = s.rows() > 1 ? parts_of(*c.thread.exec, ns) : 1;
        if (parts < 2) return rows(0, s.rows());
        c.thread.exec->host.helpers->run(parts, [&](int i) {
          const Share of = share(s.rows(), i, parts);
          rows(of.begin, of.end);
        });
      },
      0b1);
}

namespace {

// Updates of n elements that lie `apart` from each other, all of them elsewhere; `values` are side by side.
void combine_run(const ScatterShape& g, std::byte* to, int64_t apart, const std::byte* values, int64_t n) {
  alignas(64) std::byte old[kStrip * 16], by[kStrip * 16], result[kStrip * 16];
  const int size = ir::byte_size(g.dtype);
  for (int64_t at = 0; at < n; at += kStrip) {
    const int64_t some = std::min<int64_t>(kStrip, n - at);
    std::byte* place = to + at * apart * size;
    kernels().load(g.dtype)(old, place, some, apart);
    kernels().load(g.dtype)(by, values + at * size, some, 1);
    g.combine(result, old, by, by, some, g.params);
    kernels().store(g.dtype)(place, result, some, apart);
  }
}

}  // namespace

// Updates come in their row-major order: of those to one element the last one stays.
ArrayBody scatter_slices(ScatterShape g) {
  Dims slice(g.operand.size(), 1);
  for (size_t d = 0, w = 0; d < slice.size(); ++d)
    if (const int at = static_cast<int>(d); !contains(g.inserted, at) && !contains(g.operand_batch, at))
      slice[d] = g.updates[static_cast<size_t>(g.window_dims[w++])];
  return ArrayBody(
      [g, s = slices_of(g.operand, slice, g.updates, g.indices, g.window_dims, g.inserted, g.start_map, g.operand_batch,
                        g.index_batch, g.index, g.bounds)](const ArrayCall& c) {
        const int size = ir::byte_size(g.dtype);
        std::memcpy(c.out[0], c.in[0], static_cast<size_t>(count(g.operand) * size));
        if (count(g.updates) == 0) return;
        const int64_t length = s.row_length(), one = 1, step = s.walked.empty() ? 1 : s.walked.back().step;
        s.for_rows(
            0, s.rows(), c.in[1],
            [&](int64_t first, int64_t place) {
              if (place == kOutside) return;
              std::byte* to = c.out[0] + place * size;
              const std::byte* values = c.in[2] + first * size;
              if (g.combine) combine_run(g, to, step, values, length);
              else copy_strided(to, &step, values, &one, &length, 1, size);
            },
            [&](int64_t first, const int64_t* places, int64_t n) {
              for (int64_t i = 0; i < n; ++i) {
                if (places[i] == kOutside) continue;
                std::byte* to = c.out[0] + places[i] * size;
                const std::byte* value = c.in[2] + (first + i) * size;
                if (g.combine) combine_run(g, to, 1, value, 1);
                else std::memcpy(to, value, static_cast<size_t>(size));
              }
            });
      },
      g.combine ? 0 : 0b101);
}

}  // namespace pallasim::interp::ops
