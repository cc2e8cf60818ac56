#include "pallasim/memory/shadow/box.h"

#include <algorithm>

#include "pallasim/memory/odometer.h"

namespace pallasim::memory::shadow {

Box::Box(int64_t at, const int64_t* extents, const int64_t* strides, int r, int64_t element_bytes)
    : offset(at), run(element_bytes) {
  for (int d = 0; d < r; ++d) {
    if (extents[d] <= 0) {
      *this = Box(at, at);
      return;
    }
    int64_t stride = strides[d] * element_bytes;
    if (extents[d] == 1 || stride == 0) continue;
    if (stride < 0) {
      offset += (extents[d] - 1) * stride;
      stride = -stride;
    }
    int i = rank++;
    for (; i > 0 && dims[i - 1].stride < stride; --i) dims[i] = dims[i - 1];
    dims[i] = {extents[d], stride};
  }
  settle();
}

void Box::settle() {
  rank = static_cast<int>(std::remove_if(dims, dims + rank, [](const Dim& d) { return d.count == 1; }) - dims);
  // From the innermost dimension on: into the run, as long as there is no gap.
  while (rank > 0 && dims[rank - 1].stride <= run) {
    run += (dims[rank - 1].count - 1) * dims[rank - 1].stride;
    --rank;
  }
  // Dimensions that continue each other.
  for (int d = rank - 1; d > 0; --d) {
    if (dims[d - 1].stride != dims[d].stride * dims[d].count) continue;
    dims[d - 1] = {dims[d - 1].count * dims[d].count, dims[d].stride};
    std::copy(dims + d + 1, dims + rank, dims + d);
    --rank;
  }
}

bool Box::nested() const {
  int64_t reach = run;
  for (int d = rank - 1; d >= 0; --d) {
    if (dims[d].stride < reach) return false;
    reach += (dims[d].count - 1) * dims[d].stride;
  }
  return true;
}

int64_t Box::bytes() const {
  int64_t n = run;
  for (int d = 0; d < rank; ++d) n *= dims[d].count;
  return n;
}

Range Box::hull() const {
  int64_t end = offset + run;
  for (int d = 0; d < rank; ++d) end += (dims[d].count - 1) * dims[d].stride;
  return {offset, end};
}

bool Box::operator==(const Box& o) const {
  return offset == o.offset && run == o.run && rank == o.rank && std::equal(dims, dims + rank, o.dims);
}

size_t Box::hash() const {
  uint64_t h = 0x9e3779b97f4a7c15ull;
  auto mix = [&](int64_t v) {
    h = (h ^ static_cast<uint64_t>(v)) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  };
  mix(offset);
  mix(run);
  for (int d = 0; d < rank; ++d) {
    mix(dims[d].count);
    mix(dims[d].stride);
  }
  return static_cast<size_t>(h);
}

std::vector<Range> Box::rows() const {
  if (empty()) return {};
  std::vector<Range> r;
  r.reserve(static_cast<size_t>(bytes() / run));
  int64_t index[kMaxRank] = {}, at = offset;
  bool ascending = true;
  for (;;) {
    if (!r.empty() && at <= r.back().end && at >= r.back().begin) r.back().end = std::max(r.back().end, at + run);
    else {
      ascending = ascending && (r.empty() || at > r.back().end);
      r.push_back({at, at + run});
    }
    if (!next_index(
            index, static_cast<size_t>(rank), [&](size_t d) { return dims[d].count; },
            [&](size_t d, int64_t by) { at += by * dims[d].stride; }))
      break;
  }
  if (ascending) return r;
  std::sort(r.begin(), r.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  size_t n = 0;
  for (const Range& x : r) {
    if (n > 0 && x.begin <= r[n - 1].end) r[n - 1].end = std::max(r[n - 1].end, x.end);
    else r[n++] = x;
  }
  r.resize(n);
  return r;
}

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

// Multiples lo..hi of a stride, and what is reached by it and all smaller strides.
struct Choice {
  int64_t stride, lo, hi;
  int64_t reach_lo, reach_hi;
};

// Is there a choice of multiples that sums up to within what `distance` + (-run_b, run_a) leaves? Strides descend, so
// that almost always one or two multiples are near enough.
bool reaches(const Choice* c, int n, int64_t distance, int64_t run_a, int64_t run_b) {
  if (n == 0) return distance > -run_b && distance < run_a;
  const int64_t rest_lo = n > 1 ? c[1].reach_lo : 0, rest_hi = n > 1 ? c[1].reach_hi : 0;
  // distance - m * stride must lie in (rest_lo - run_b, rest_hi + run_a).
  const int64_t lo = std::max(c->lo, floor_div(distance - rest_hi - run_a, c->stride) + 1);
  const int64_t hi = std::min(c->hi, floor_div(distance - rest_lo + run_b - 1, c->stride));
  for (int64_t m = lo; m <= hi; ++m)
    if (reaches(c + 1, n - 1, distance - m * c->stride, run_a, run_b)) return true;
  return false;
}

}  // namespace

bool overlap(const Box& a, const Box& b) {
  const Range ha = a.hull(), hb = b.hull();
  if (a.empty() || b.empty() || ha.end <= hb.begin || hb.end <= ha.begin) return false;
  if (a.rank == 0 && b.rank == 0) return true;
  // A common byte: a.offset + sum(i * sa) + x = b.offset + sum(j * sb) + y. Equal strides make one choice i - j.
  Choice c[2 * kMaxRank];
  int n = 0, i = 0, j = 0;
  while (i < a.rank || j < b.rank) {
    const int64_t sa = i < a.rank ? a.dims[i].stride : 0, sb = j < b.rank ? b.dims[j].stride : 0;
    Choice& x = c[n++] = {std::max(sa, sb), 0, 0, 0, 0};
    if (sa == x.stride) x.hi = a.dims[i++].count - 1;
    if (sb == x.stride) x.lo = -(b.dims[j++].count - 1);
  }
  for (int k = n - 1; k >= 0; --k) {
    c[k].reach_lo = c[k].lo * c[k].stride + (k + 1 < n ? c[k + 1].reach_lo : 0);
    c[k].reach_hi = c[k].hi * c[k].stride + (k + 1 < n ? c[k + 1].reach_hi : 0);
  }
  return reaches(c, n, b.offset - a.offset, a.run, b.run);
}

bool surely_inside(const Box& outer, const Box& inner) {
  if (inner.empty()) return true;
  const Range hi = inner.hull(), ho = outer.hull();
  if (hi.begin < ho.begin || hi.end > ho.end) return false;
  int64_t rest = inner.offset - outer.offset, span = inner.run;
  int j = 0;
  for (int i = 0; i < outer.rank; ++i) {
    const int64_t stride = outer.dims[i].stride;
    if (j < inner.rank && inner.dims[j].stride > stride) return false;
    const int64_t digit = rest / stride,
                  count = j < inner.rank && inner.dims[j].stride == stride ? inner.dims[j++].count : 1;
    if (digit + count > outer.dims[i].count) return false;
    rest -= digit * stride;
  }
  for (; j < inner.rank; ++j) span += (inner.dims[j].count - 1) * inner.dims[j].stride;
  return rest >= 0 && rest + span <= outer.run;
}

namespace {

// The box that is cut away, dimension by dimension, and what is left beside it.
struct Cutter {
  std::vector<Box>* rest;
  Box prefix;  // the dimensions that are cut already

  void add(Box b, int64_t offset, int64_t run) const {
    b.offset = offset;
    b.run = run;
    if (run <= 0) return;
    b.settle();
    rest->push_back(b);
  }
  void add_run(int64_t begin, int64_t end) const { add(prefix, begin, end - begin); }
  // `count` steps of the outer box's dimension i, with all within.
  void add_slab(const Box& outer, int i, int64_t offset, int64_t count) const {
    if (count <= 0) return;
    Box b = prefix;
    b.dims[b.rank++] = {count, outer.dims[i].stride};
    for (int d = i + 1; d < outer.rank; ++d) b.dims[b.rank++] = outer.dims[d];
    add(b, offset, outer.run);
  }
  void push(int64_t count, int64_t stride) {
    if (count > 1) prefix.dims[prefix.rank++] = {count, stride};
  }
};

}  // namespace

bool subtract(const Box& outer, const Box& inner, std::vector<Box>* rest) {
  const size_t before = rest->size();
  Cutter cutter{rest, {}};
  int64_t begin = outer.offset;
  int j = 0;
  for (int i = 0; i < outer.rank; ++i) {
    const int64_t stride = outer.dims[i].stride, digit = (inner.offset - begin) / stride;
    const int64_t count = j < inner.rank && inner.dims[j].stride == stride ? inner.dims[j++].count : 1;
    cutter.add_slab(outer, i, begin, digit);
    cutter.add_slab(outer, i, begin + (digit + count) * stride, outer.dims[i].count - digit - count);
    begin += digit * stride;
    cutter.push(count, stride);
  }
  // What is left of the outer box is a run; rows of the inner one lie in it. They are cut where rows of the array
  // begin.
  int64_t end = begin + outer.run;
  for (; j < inner.rank; ++j) {
    const auto [count, stride] = inner.dims[j];
    int64_t row = inner.run;
    for (int d = j + 1; d < inner.rank; ++d) row += (inner.dims[d].count - 1) * inner.dims[d].stride;
    const int64_t first = floor_div(inner.offset, stride) * stride;
    if (first < begin || first + count * stride > end || inner.offset - first + row > stride) {
      rest->resize(before);
      return false;
    }
    cutter.add_run(begin, first);
    cutter.add_run(first + count * stride, end);
    cutter.push(count, stride);
    cutter.add_run(first, inner.offset);
    cutter.add_run(inner.offset + row, first + stride);
    begin = inner.offset;
    end = begin + row;
  }
  cutter.add_run(begin, inner.offset);
  cutter.add_run(inner.offset + inner.run, end);
  return true;
}

std::vector<Range> rows_but(const Box& box, std::vector<Range> holes) {
  std::vector<Range> left;
  std::sort(holes.begin(), holes.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  size_t h = 0;
  for (Range row : box.rows()) {
    while (h < holes.size() && holes[h].end <= row.begin) ++h;
    for (; h < holes.size() && holes[h].begin < row.end; ++h) {
      if (holes[h].begin > row.begin) left.push_back({row.begin, holes[h].begin});
      row.begin = holes[h].end;
      if (row.begin >= row.end) break;
    }
    if (row.begin < row.end) left.push_back(row);
  }
  return left;
}

}  // namespace pallasim::memory::shadow
