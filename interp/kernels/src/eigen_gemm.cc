// Eigen's matrix product, compiled per ISA; no Eigen type leaves this file.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#include <Eigen/Core>

#include "body.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
          bool accumulate) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Stride = Eigen::OuterStride<>;
  Eigen::Map<const Matrix, 0, Stride> ma(a, m, k, Stride(lda)), mb(b, k, n, Stride(ldb));
  Eigen::Map<Matrix, 0, Stride> mc(c, m, n, Stride(ldc));
  if (!accumulate) mc.setZero();
  mc.noalias() += ma * mb;
}
}  // namespace

void eigen_gemm_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                    int64_t ldc, bool acc) {
  gemm<float>(m, n, k, a, lda, b, ldb, c, ldc, acc);
}
void eigen_gemm_f64(int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b, int64_t ldb,
                    double* c, int64_t ldc, bool acc) {
  gemm<double>(m, n, k, a, lda, b, ldb, c, ldc, acc);
}
}  // namespace pallasim::interp::PALLASIM_KNS
