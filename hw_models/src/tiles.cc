#include "pallasim/hw/tiles.h"

#include <algorithm>

#include "pallasim/memory/saturate.h"

namespace pallasim::hw {

std::vector<int64_t> tile(ir::DType t, std::span<const int64_t> dims) {
  const int64_t packing = std::max<int64_t>(1, 32 / std::max(1, ir::bit_width(t)));
  std::vector<int64_t> r(dims.size(), 1);
  if (dims.size() == 1) r[0] = 128 * packing;
  if (dims.size() < 2) return r;
  int64_t& rows = r[dims.size() - 2] = packing;
  while (rows < std::min<int64_t>(dims[dims.size() - 2], 8)) rows *= 2;
  r.back() = 128;
  return r;
}

std::vector<int64_t> tile_padding(ir::DType t, std::span<const int64_t> dims) {
  std::vector<int64_t> r = tile(t, dims);
  for (size_t d = 0; d < r.size(); ++d) r[d] = (r[d] - dims[d] % r[d]) % r[d];
  return r;
}

int64_t tiled_bytes(ir::DType t, std::span<const int64_t> dims) {
  const ir::DType in_memory = t == ir::DType::Bool ? ir::DType::I32 : t;
  const std::vector<int64_t> padding = tile_padding(in_memory, dims);
  int64_t n = ir::bit_width(in_memory);
  for (size_t d = 0; d < dims.size(); ++d) n = memory::mul(n, memory::add(dims[d], padding[d]));
  return n / 8 + (n % 8 != 0);
}

}  // namespace pallasim::hw
