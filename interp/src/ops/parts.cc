#include "parts.h"
#include "../plan/host_cost.h"

#include "pallasim/interp/kernels.h"

namespace pallasim::interp::ops {

void copy_in_parts(Execution& ex, std::byte* dst, const int64_t* dst_strides, const std::byte* src,
                   const int64_t* src_strides, const int64_t* dims, int rank, int size) {
  if (!ex.host.helpers) return copy_strided(dst, dst_strides, src, src_strides, dims, rank, size);
  int64_t bytes = size;
  for (int d = 0; d < rank; ++d) bytes = memory::mul(bytes, dims[d]);
  const int n = parts_of(ex, host_cost::kLargeCopy.of(static_cast<double>(bytes)), true);
  if (n < 2 || rank == 0) return copy_strided(dst, dst_strides, src, src_strides, dims, rank, size);
  const size_t along = shared_dim({dims, static_cast<size_t>(rank)}, n);
  ex.host.helpers->run(n, [&](int i) {
    const Share s = share(dims[along], i, n);
    int64_t own[memory::kMaxRank];
    std::copy(dims, dims + rank, own);
    own[along] = s.end - s.begin;
    copy_strided(dst + s.begin * dst_strides[along] * size, dst_strides, src + s.begin * src_strides[along] * size,
                 src_strides, own, rank, size);
  });
}

}  // namespace pallasim::interp::ops
