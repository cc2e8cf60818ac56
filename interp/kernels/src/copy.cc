// Strided copies and fills.
#include <cstring>

#include "module.h"

namespace pallasim::interp {
namespace {

constexpr int kMaxRank = 16;
struct Dim {
  int64_t n, d, s;
};

template <class T>
void copy_any(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, src + i * ss, sizeof v);
    std::memcpy(dst + i * ds, &v, sizeof v);
  }
}

// Strides that the compiler knows become moves of whole registers: rows back to front, one value for all, every second.
template <class T>
void copy_line(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  constexpr int64_t kSize = sizeof(T);
  if (ds != kSize) return copy_any<T>(dst, ds, src, ss, n);
  if (ss == -kSize) return copy_any<T>(dst, kSize, src, -kSize, n);
  if (ss == 0) return copy_any<T>(dst, kSize, src, 0, n);
  if (ss == 2 * kSize) return copy_any<T>(dst, kSize, src, 2 * kSize, n);
  copy_any<T>(dst, kSize, src, ss, n);
}
struct Sixteen {
  uint64_t a, b;
};
// f(a value of the type of so many bytes)
template <class F>
void of_size(int size, const F& f) {
  switch (size) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Sixteen{});
  }
}
void copy_elements(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n, int size) {
  of_size(size, [&](auto word) { copy_line<decltype(word)>(dst, ds, src, ss, n); });
}

// Each of n elements `times` times, side by side.
template <class T, int64_t kTimes = 0>
void repeat_line(char* dst, const char* src, int64_t ss, int64_t n, int64_t times) {
  for (int64_t i = 0; i < n; ++i, dst += times * static_cast<int64_t>(sizeof(T)))
    copy_any<T>(dst, sizeof(T), src + i * ss, 0, kTimes ? kTimes : times);
}
template <class T>
void repeat_few(char* dst, const char* src, int64_t ss, int64_t n, int64_t times) {
  switch (times) {
    case 2: return repeat_line<T, 2>(dst, src, ss, n, 2);
    case 4: return repeat_line<T, 4>(dst, src, ss, n, 4);
    case 8: return repeat_line<T, 8>(dst, src, ss, n, 8);
    default: return repeat_line<T>(dst, src, ss, n, times);
  }
}
void repeat_elements(char* dst, const char* src, int64_t ss, int64_t n, int64_t times, int size) {
  of_size(size, [&](auto word) { repeat_few<decltype(word)>(dst, src, ss, n, times); });
}

// Drops dimensions of one element and joins neighbours that step as one. Returns the rank left, -1 for no elements.
int collapse(Dim* out, const int64_t* ds, const int64_t* ss, const int64_t* dims, int rank) {
  int r = 0;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] == 0) return -1;
    if (dims[i] == 1) continue;
    const Dim d{dims[i], ds[i], ss ? ss[i] : 0};
    if (r > 0 && out[r - 1].d == d.d * d.n && out[r - 1].s == d.s * d.n) {
      out[r - 1] = {out[r - 1].n * d.n, d.d, d.s};
    } else {
      out[r++] = d;
    }
  }
  return r;
}

// Calls f(dst offset, src offset), in elements, for every index of the outer dimensions.
template <class F>
void for_outer(const Dim* dims, int rank, F&& f) {
  int64_t index[kMaxRank], d = 0, s = 0;
  for (int i = 0; i < rank; ++i) index[i] = 0;  // few: to clear all takes longer than a short copy
  for (;;) {
    f(d, s);
    int i = rank - 1;
    for (; i >= 0; --i) {
      d += dims[i].d, s += dims[i].s;
      if (++index[i] < dims[i].n) break;
      d -= dims[i].d * dims[i].n, s -= dims[i].s * dims[i].n;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

// n equal elements side by side: a block of them is written once and copied on, at the speed of memcpy.
void fill_run(char* out, const char* value, int64_t n, int size) {
  constexpr int64_t kBlock = 256;
  const int64_t first = n < kBlock ? n : kBlock, end = n * size;
  copy_elements(out, size, value, 0, first, size);
  for (int64_t at = first * size; at < end; at += kBlock * size)
    std::memcpy(out + at, out, static_cast<size_t>(at + kBlock * size <= end ? kBlock * size : end - at));
}

// A run of a few words: memcpy of a size unknown at compile time costs more than the bytes.
inline void copy_run(char* d, const char* s, int64_t bytes) { std::memcpy(d, s, static_cast<size_t>(bytes)); }

}  // namespace

void copy_strided(void* dst, const int64_t* dst_strides, const void* src, const int64_t* src_strides,
                  const int64_t* dims, int rank, int size) {
  Dim d[kMaxRank];
  const int r = collapse(d, dst_strides, src_strides, dims, rank);
  auto* out = static_cast<char*>(dst);
  auto* in = static_cast<const char*>(src);
  if (r < 0) return;
  if (r == 0) return copy_run(out, in, size);
  const Dim last = d[r - 1];
  if (last.d == 1 && last.s == 1) {
    const int64_t bytes = last.n * size;
    for_outer(d, r - 1, [&](int64_t a, int64_t b) { copy_run(out + a * size, in + b * size, bytes); });
    return;
  }
  if (r > 1 && last.s == 0 && last.d == 1 && d[r - 2].d == last.n) {
    const Dim before = d[r - 2];
    for_outer(d, r - 2, [&](int64_t a, int64_t b) {
      repeat_elements(out + a * size, in + b * size, before.s * size, before.n, last.n, size);
    });
    return;
  }
  // Transposition: one side is contiguous along another dimension than the other side.
  for (int p = r - 2; p >= 0; --p) {
    const bool forward = d[p].d == 1 && last.s == 1, backward = d[p].s == 1 && last.d == 1;
    if (!forward && !backward) continue;
    Dim rest[kMaxRank];
    int n = 0;
    for (int i = 0; i < r - 1; ++i)
      if (i != p) rest[n++] = d[i];
    // rows: the dimension that is contiguous in dst.
    const Dim rows = forward ? d[p] : last, cols = forward ? last : d[p];
    const auto transpose = isa_module().transpose;
    for_outer(rest, n, [&](int64_t a, int64_t b) {
      transpose(out + a * size, cols.d, in + b * size, rows.s, rows.n, cols.n, size);
    });
    return;
  }
  for_outer(d, r - 1, [&](int64_t a, int64_t b) {
    copy_elements(out + a * size, last.d * size, in + b * size, last.s * size, last.n, size);
  });
}

void fill_strided(void* dst, const int64_t* dst_strides, const void* element, const int64_t* dims, int rank, int size) {
  Dim d[kMaxRank];
  const int r = collapse(d, dst_strides, nullptr, dims, rank);
  auto* out = static_cast<char*>(dst);
  char value[16];
  if (r < 0) return;
  std::memcpy(value, element, static_cast<size_t>(size));
  if (r == 0) {
    std::memcpy(out, value, static_cast<size_t>(size));
    return;
  }
  const Dim last = d[r - 1];
  bool bytes_alike = true;
  for (int i = 1; i < size; ++i) bytes_alike &= value[i] == value[0];
  for_outer(d, r - 1, [&](int64_t a, int64_t) {
    if (last.d == 1 && bytes_alike) std::memset(out + a * size, value[0], static_cast<size_t>(last.n * size));
    else if (last.d == 1) fill_run(out + a * size, value, last.n, size);
    else copy_elements(out + a * size, last.d * size, value, 0, last.n, size);
  });
}

}  // namespace pallasim::interp
