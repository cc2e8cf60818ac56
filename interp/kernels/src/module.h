// What one ISA's shared object hands to the loader.
#pragma once
#include "pallasim/interp/aligned_sum.h"
#include "pallasim/interp/kernels.h"

namespace pallasim::interp {

// Row-major C[m,n] (+)= A[m,k] B[k,n] with leading dimensions, all columns contiguous.
template <class T>
using PlainGemm = void (*)(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                           int64_t ldc, bool accumulate);

struct IsaModule {
  uint32_t abi;  // kAbi of the sources it was built from
  KernelTable table;
  // Loops of our own: what tiny and integer contractions run on.
  PlainGemm<float> small_f32;
  PlainGemm<double> small_f64;
  PlainGemm<uint32_t> small_u32;
  PlainGemm<uint64_t> small_u64;
  // Eigen compiled for this ISA (the baseline, where no build needs its speed, has loops here).
  PlainGemm<float> eigen_f32;
  PlainGemm<double> eigen_f64;
  // dst[c][r] = src[r][c] for elements of `size` bytes; row strides in elements.
  void (*transpose)(void* dst, int64_t dst_row, const void* src, int64_t src_row, int64_t rows, int64_t cols, int size);
  AlignedSum aligned_sum;
};
inline constexpr uint32_t kAbi = 4;

// The module in use (fast table) and the one that is linked in.
const IsaModule& isa_module();
extern "C" const IsaModule* pallasim_kernels_baseline();
extern "C" const IsaModule* pallasim_kernels_reference();

}  // namespace pallasim::interp
