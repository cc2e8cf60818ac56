// Sorting along an axis.
#include <algorithm>
#include <numeric>

#include "../plan/payload/array.h"
#include "array.h"

namespace pallasim::interp::ops {
namespace {

// An unsigned key with the order of the elements. `total`: -0 before 0, NaNs by sign and payload; otherwise zeros are
// equal and every NaN comes last.
uint64_t order_key(const void* reg, CType t, bool total) {
  auto flip = [](uint64_t bits) { return bits >> 63 ? ~bits : bits | uint64_t{1} << 63; };
  auto real = [&](double v, bool negative_nan) {
    if (v != v) return total && negative_nan ? uint64_t{0} : ~uint64_t{0};
    if (v == 0 && !total) v = 0;
    uint64_t bits;
    std::memcpy(&bits, &v, 8);
    return flip(bits);
  };
  switch (t) {
    case CType::Bool: return *static_cast<const uint8_t*>(reg);
    case CType::I32:
      return static_cast<uint64_t>(static_cast<int64_t>(*static_cast<const int32_t*>(reg))) ^ uint64_t { 1 } << 63;
    case CType::U32: return *static_cast<const uint32_t*>(reg);
    case CType::I64: return *static_cast<const uint64_t*>(reg) ^ uint64_t { 1 } << 63;
    case CType::U64: return *static_cast<const uint64_t*>(reg);
    case CType::F32: {
      uint32_t bits;
      std::memcpy(&bits, reg, 4);
      return real(*static_cast<const float*>(reg), bits >> 31);
    }
    default: {
      uint64_t bits;
      std::memcpy(&bits, reg, 8);
      return real(*static_cast<const double*>(reg), bits >> 63);
    }
  }
}

// The keys of element `at`: two for a complex number (real part first).
void push_keys(std::vector<uint64_t>& keys, const std::byte* at, ir::DType d, bool total) {
  alignas(16) std::byte reg[16];
  kernels().load(d)(reg, at, 1, 1);
  const CType t = compute_type(d);
  if (t == CType::C64) {
    keys.push_back(order_key(reg, CType::F32, total));
    keys.push_back(order_key(reg + 4, CType::F32, total));
  } else if (t == CType::C128) {
    keys.push_back(order_key(reg, CType::F64, total));
    keys.push_back(order_key(reg + 8, CType::F64, total));
  } else {
    keys.push_back(order_key(reg, t, total));
  }
}

struct Lines {
  int64_t outer = 1, n = 1, inner = 1;
  Lines(const Dims& dims, int axis) {
    for (size_t i = 0; i < dims.size(); ++i)
      (static_cast<int>(i) < axis ? outer : static_cast<int>(i) == axis ? n : inner) *= dims[i];
  }
  // f(outer index, inner index, first element) of every line along the axis.
  template <typename F>
  void for_each(const F& f) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k) f(o, k, o * n * inner + k);
  }
};

}  // namespace

ArrayBody sort(Dims dims, int axis, std::vector<ir::DType> dtypes, int num_keys) {
  return [=, lines = Lines(dims, axis)](const ArrayCall& c) {
    std::vector<uint64_t> keys;
    std::vector<int64_t> order(static_cast<size_t>(lines.n));
    lines.for_each([&](int64_t, int64_t, int64_t first) {
      keys.clear();
      for (int64_t i = 0; i < lines.n; ++i)
        for (int j = 0; j < num_keys; ++j) {
          const auto at = static_cast<size_t>(j);
          push_keys(keys, c.in[at] + (first + i * lines.inner) * ir::byte_size(dtypes[at]), dtypes[at], false);
        }
      const size_t width = lines.n ? keys.size() / static_cast<size_t>(lines.n) : 0;
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const uint64_t *x = keys.data() + static_cast<size_t>(a) * width,
                       *y = keys.data() + static_cast<size_t>(b) * width;
        return std::lexicographical_compare(x, x + width, y, y + width);
      });
      for (size_t j = 0; j < dtypes.size(); ++j) {
        const int size = ir::byte_size(dtypes[j]);
        for (int64_t i = 0; i < lines.n; ++i)
          std::memcpy(c.out[j] + (first + i * lines.inner) * size,
                      c.in[j] + (first + order[static_cast<size_t>(i)] * lines.inner) * size,
                      static_cast<size_t>(size));
      }
    });
  };
}

ArrayBody top_k(Dims dims, int axis, int64_t count, ir::DType dtype, ir::DType index) {
  return [=, lines = Lines(dims, axis)](const ArrayCall& c) {
    const int size = ir::byte_size(dtype), index_size = ir::byte_size(index);
    std::vector<uint64_t> keys;
    std::vector<int64_t> order(static_cast<size_t>(lines.n));
    lines.for_each([&](int64_t o, int64_t k, int64_t first) {
      keys.clear();
      for (int64_t i = 0; i < lines.n; ++i) push_keys(keys, c.in[0] + (first + i * lines.inner) * size, dtype, true);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
      });
      for (int64_t i = 0; i < count; ++i) {
        const int64_t to = o * count * lines.inner + i * lines.inner + k, from = order[static_cast<size_t>(i)];
        std::memcpy(c.out[0] + to * size, c.in[0] + (first + from * lines.inner) * size, static_cast<size_t>(size));
        std::memcpy(c.out[1] + to * index_size, &from, static_cast<size_t>(index_size));
      }
    });
  };
}

}  // namespace pallasim::interp::ops
