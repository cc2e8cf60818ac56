// Small contractions and transposition by plain loops. Each output sums over k in order from 0 (from C when it
// accumulates): products and sums round separately.
#include "body.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

// Rows of C in panels of columns that stay in vector registers.
template <class T, int Rows, int Vectors>
inline void panel(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc, bool accumulate) {
  typedef T V __attribute__((vector_size(kVectorBytes)));
  constexpr int kWidth = kVectorBytes / sizeof(T);
  V acc[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      acc[r][j] = V{};
      if (accumulate) std::memcpy(&acc[r][j], c + r * ldc + j * kWidth, sizeof(V));
    }
  for (int64_t p = 0; p < k; ++p) {
    V row[Vectors];
    std::memcpy(row, b + p * ldb, sizeof row);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const T v = a[r * lda + p];
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) acc[r][j] = acc[r][j] + v * row[j];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) std::memcpy(c + r * ldc, acc[r], sizeof acc[r]);
}

template <class T>
inline void edge(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                 bool accumulate) {
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    if (!accumulate)
      for (int64_t j = 0; j < n; ++j) row[j] = T{0};
    for (int64_t p = 0; p < k; ++p) {
      const T v = a[i * lda + p];
      const T* bp = b + p * ldb;
      PALLASIM_VLOOP(j, n) row[j] += v * bp[j];
    }
  }
}

// Columns from j as far as whole panels go; returns where they end.
template <class T, int Rows, int Vectors>
int64_t panels(int64_t j, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
               int64_t ldc, bool accumulate) {
  constexpr int kWidth = Vectors * kVectorBytes / sizeof(T);
  for (; j + kWidth <= n; j += kWidth) {
    int64_t i = 0;
    for (; i + Rows <= m; i += Rows)
      panel<T, Rows, Vectors>(k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, accumulate);
    for (; i < m; ++i) panel<T, 1, Vectors>(k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, accumulate);
  }
  return j;
}

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
          bool accumulate) {
  int64_t j = panels<T, 4, 2>(0, m, n, k, a, lda, b, ldb, c, ldc, accumulate);
  j = panels<T, 8, 1>(j, m, n, k, a, lda, b, ldb, c, ldc, accumulate);
  if (j < n) edge<T>(m, n - j, k, a, lda, b + j, ldb, c + j, ldc, accumulate);
}

template <class T>
inline void transpose_of(T* d, int64_t dst_row, const T* s, int64_t src_row, int64_t rows, int64_t cols) {
  constexpr int kTile = sizeof(T) >= 8 ? 8 : 16;
  for (int64_t i = 0; i < rows; i += kTile) {
    for (int64_t j = 0; j < cols; j += kTile) {
      const T* from = s + i * src_row + j;
      T* to = d + j * dst_row + i;
      if (rows - i >= kTile && cols - j >= kTile) {
        T tile[kTile][kTile];
        for (int r = 0; r < kTile; ++r) std::memcpy(tile[r], from + r * src_row, sizeof tile[r]);
        for (int q = 0; q < kTile; ++q) {
          T line[kTile];
          for (int r = 0; r < kTile; ++r) line[r] = tile[r][q];
          std::memcpy(to + q * dst_row, line, sizeof line);
        }
      } else {
        const int64_t rn = rows - i < kTile ? rows - i : kTile, cn = cols - j < kTile ? cols - j : kTile;
        for (int64_t q = 0; q < cn; ++q)
          for (int64_t r = 0; r < rn; ++r) to[q * dst_row + r] = from[r * src_row + q];
      }
    }
  }
}
struct Wide {
  uint64_t lo, hi;
};

}  // namespace

void small_gemm_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                    int64_t ldc, bool acc) {
  gemm<float>(m, n, k, a, lda, b, ldb, c, ldc, acc);
}
void small_gemm_f64(int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b, int64_t ldb,
                    double* c, int64_t ldc, bool acc) {
  gemm<double>(m, n, k, a, lda, b, ldb, c, ldc, acc);
}
void small_gemm_u32(int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb,
                    uint32_t* c, int64_t ldc, bool acc) {
  gemm<uint32_t>(m, n, k, a, lda, b, ldb, c, ldc, acc);
}
void small_gemm_u64(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t lda, const uint64_t* b, int64_t ldb,
                    uint64_t* c, int64_t ldc, bool acc) {
  gemm<uint64_t>(m, n, k, a, lda, b, ldb, c, ldc, acc);
}

void transpose(void* dst, int64_t dst_row, const void* src, int64_t src_row, int64_t rows, int64_t cols, int size) {
  switch (size) {
    case 1:
      return transpose_of(static_cast<uint8_t*>(dst), dst_row, static_cast<const uint8_t*>(src), src_row, rows, cols);
    case 2:
      return transpose_of(static_cast<uint16_t*>(dst), dst_row, static_cast<const uint16_t*>(src), src_row, rows, cols);
    case 4:
      return transpose_of(static_cast<uint32_t*>(dst), dst_row, static_cast<const uint32_t*>(src), src_row, rows, cols);
    case 8:
      return transpose_of(static_cast<uint64_t*>(dst), dst_row, static_cast<const uint64_t*>(src), src_row, rows, cols);
    case 16: return transpose_of(static_cast<Wide*>(dst), dst_row, static_cast<const Wide*>(src), src_row, rows, cols);
  }
}

}  // namespace pallasim::interp::PALLASIM_KNS
