// Rotations, and bits under other types.
#include <algorithm>

#include "../plan/payload/array.h"
#include "array.h"

namespace pallasim::interp::ops {
namespace {

int64_t product(const Dims& dims, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= dims[i];
  return n;
}

int64_t integer(const std::byte* at, ir::DType t) {
  alignas(16) std::byte reg[16];
  kernels().load(t)(reg, at, 1, 1);
  switch (compute_type(t)) {
    case CType::I32: return *reinterpret_cast<const int32_t*>(reg);
    case CType::U32: return *reinterpret_cast<const uint32_t*>(reg);
    default: return *reinterpret_cast<const int64_t*>(reg);
  }
}

uint64_t bits_at(const std::byte* at, int bytes, int bits) {
  uint64_t v = 0;
  std::memcpy(&v, at, static_cast<size_t>(bytes));
  return bits >= 64 ? v : v & ((uint64_t{1} << bits) - 1);
}

// n elements that lie so many elements apart, in another type.
void convert_elements(std::byte* to, ir::DType t, int64_t to_apart, const std::byte* from, ir::DType f,
                      int64_t from_apart, int64_t n) {
  alignas(64) std::byte reg[kStrip * 16], made[kStrip * 16];
  const int to_step = ir::byte_size(t), from_step = ir::byte_size(f);
  for (int64_t at = 0; at < n; at += kStrip) {
    const int64_t some = std::min<int64_t>(kStrip, n - at);
    kernels().load(f)(reg, from + at * from_apart * from_step, some, from_apart);
    if (f != t) kernels().convert(f, t)(made, reg, some, {});
    kernels().store(t)(to + at * to_apart * to_step, f == t ? reg : made, some, to_apart);
  }
}

uint32_t f32_bits(const std::byte* at) {
  uint32_t v;
  std::memcpy(&v, at, 4);
  return v;
}

}  // namespace

ArrayBody roll(Dims dims, int axis, int64_t stride, int stride_axis, ir::DType dtype, ir::DType shift_type) {
  const int bytes = ir::byte_size(dtype);
  const auto a = static_cast<size_t>(axis);
  return ArrayBody(
      [=](const ArrayCall& c) {
        const int64_t n = dims[a];
        if (product(dims, 0, dims.size()) == 0) return;
        const int64_t shift = integer(c.in[1], shift_type) % n;
        // Elements behind both axes move together.
        const size_t last = std::max(a, stride_axis < 0 ? a : static_cast<size_t>(stride_axis));
        const int64_t chunk = product(dims, last + 1, dims.size()) * bytes;
        const int64_t outer = product(dims, 0, a), between = product(dims, a + 1, last + 1);
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t b = 0; b < between; ++b) {
            int64_t along = 0;
            if (stride_axis > axis) along = b % dims[last];
            else if (stride_axis >= 0)
              along =
                  o / product(dims, static_cast<size_t>(stride_axis) + 1, a) % dims[static_cast<size_t>(stride_axis)];
            const int64_t by = ((shift + along % n * (stride % n)) % n + n) % n;
            const int64_t base = (o * n * between + b) * chunk, step = between * chunk;
            if (between == 1) {
              std::memcpy(c.out[0] + base + by * step, c.in[0] + base, static_cast<size_t>((n - by) * step));
              std::memcpy(c.out[0] + base, c.in[0] + base + (n - by) * step, static_cast<size_t>(by * step));
              continue;
            }
            for (int64_t i = 0; i < n; ++i)
              std::memcpy(c.out[0] + base + (i + by) % n * step, c.in[0] + base + i * step, static_cast<size_t>(chunk));
          }
      },
      0b1);
}

ArrayBody regroup(int64_t outer, int64_t rows, int64_t inner, ir::DType from, ir::DType to) {
  const int fb = ir::bit_width(from), tb = ir::bit_width(to), fs = ir::byte_size(from), ts = ir::byte_size(to);
  return ArrayBody(
      [=](const ArrayCall& c) {
        const std::byte* src = c.in[0];
        std::byte* dst = c.out[0];
        if (fb == tb) {
          std::memcpy(dst, src, static_cast<size_t>(outer * rows * inner * fs));
          return;
        }
        const int ratio = fb > tb ? fb / tb : tb / fb, narrow = std::min(fb, tb);
        const int64_t words = fb > tb ? outer * rows : outer * rows / ratio;
        if (fb == fs * 8 && tb == ts * 8) {
          const int64_t dims[] = {words, ratio, inner}, wide[] = {ratio * inner, 1, ratio},
                        each[] = {ratio * inner, inner, 1};
          return copy_strided(dst, fb > tb ? each : wide, src, fb > tb ? wide : each, dims, 3, std::min(fs, ts));
        }
        for (int64_t w = 0; w < words; ++w)
          for (int64_t k = 0; k < inner; ++k) {
            if (fb > tb) {
              const uint64_t word = bits_at(src + (w * inner + k) * fs, fs, fb);
              for (int r = 0; r < ratio; ++r) {
                const uint64_t part = word >> (r * narrow) & ((uint64_t{1} << narrow) - 1);
                std::memcpy(dst + ((w * ratio + r) * inner + k) * ts, &part, static_cast<size_t>(ts));
              }
            } else {
              uint64_t word = 0;
              for (int r = 0; r < ratio; ++r)
                word |= bits_at(src + ((w * ratio + r) * inner + k) * fs, fs, narrow) << (r * narrow);
              std::memcpy(dst + (w * inner + k) * ts, &word, static_cast<size_t>(ts));
            }
          }
      },
      fb == fs * 8 && tb == ts * 8 ? 0b1 : 0);
}

ArrayBody pack(int64_t n, ir::DType from, ir::DType packed, int sources) {
  const int fs = ir::byte_size(from), width = ir::bit_width(packed), ps = ir::byte_size(packed);
  return ArrayBody::lanewise([=](const ArrayCall& c) {
    const bool round = from != packed && ir::is_float(from);
    if (width == ps * 8) {
      const int64_t apart = fs / ps;
      if (sources < apart) std::memset(c.out[0], 0, static_cast<size_t>(n * fs));
      for (int s = 0; s < sources; ++s) {
        std::byte* to = c.out[0] + s * ps;
        if (round) convert_elements(to, packed, apart, c.in[s], from, 1, n);
        else copy_strided(to, &apart, c.in[s], &apart, &n, 1, ps);
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      uint64_t word = 0;
      for (int s = 0; s < sources; ++s) {
        uint64_t v;
        if (round) {  // to nearest even, as a conversion
          alignas(16) std::byte reg[16], narrow[16], mem[16] = {};
          kernels().load(from)(reg, c.in[s] + i * fs, 1, 1);
          kernels().convert(from, packed)(narrow, reg, 1, {});
          kernels().store(packed)(mem, narrow, 1, 1);
          v = bits_at(mem, ps, width);
        } else {
          v = bits_at(c.in[s] + i * fs, fs, width);
        }
        word |= v << (s * width);
      }
      std::memcpy(c.out[0] + i * fs, &word, static_cast<size_t>(fs));
    }
  });
}

ArrayBody unpack(int64_t n, ir::DType word, ir::DType packed, ir::DType to, int index) {
  const int ws = ir::byte_size(word), width = ir::bit_width(packed), ts = ir::byte_size(to);
  return ArrayBody::lanewise([=](const ArrayCall& c) {
    if (const int ps = ir::byte_size(packed); width == ps * 8)
      return convert_elements(c.out[0], to, 1, c.in[0] + index * ps, packed, ws / ps, n);
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t part = bits_at(c.in[0] + i * ws, ws, 64) >> (index * width) & ((uint64_t{1} << width) - 1);
      alignas(16) std::byte mem[16] = {}, reg[16], wide[16];
      std::memcpy(mem, &part, 8);
      kernels().load(packed)(reg, mem, 1, 1);
      kernels().convert(packed, to)(wide, reg, 1, {});
      kernels().store(to)(c.out[0] + i * ts, wide, 1, 1);
    }
  });
}

// The magnitude lies between two neighbours of the narrow type; the part of the f32 below the narrow type's last bit is
// compared with as many random bits. Beyond the largest value, and NaN: an ordinary conversion.
ArrayBody stochastic_round(int64_t n, ir::DType to) {
  const int ts = ir::byte_size(to);
  return ArrayBody::lanewise([=](const ArrayCall& c) {
    auto narrow = [&](uint32_t bits, std::byte* mem) {
      alignas(16) std::byte reg[16];
      float v;
      std::memcpy(&v, &bits, 4);
      kernels().convert(ir::DType::F32, to)(reg, &v, 1, {});
      kernels().store(to)(mem, reg, 1, 1);
    };
    auto widen = [&](const std::byte* mem) {
      alignas(16) std::byte reg[16];
      uint32_t bits;
      kernels().load(to)(reg, mem, 1, 1);
      kernels().convert(to, ir::DType::F32)(&bits, reg, 1, {});
      return bits;
    };
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t x = f32_bits(c.in[0] + i * 4), random = f32_bits(c.in[1] + i * 4), mag = x & 0x7fffffffu;
      std::byte* out = c.out[0] + i * ts;
      alignas(8) std::byte mem[8] = {};
      narrow(x, mem);
      const uint32_t nearest = widen(mem);
      std::memcpy(out, mem, static_cast<size_t>(ts));
      if ((nearest & 0x7fffffffu) >= 0x7f800000u || nearest == x) continue;
      // The neighbour on the other side of x, by its code: codes of one sign are in order.
      uint64_t code = bits_at(mem, ts, ts * 8);
      const bool below = (nearest & 0x7fffffffu) < mag;
      const uint64_t other_code = below ? code + 1 : code - 1;
      std::memcpy(mem, &other_code, static_cast<size_t>(ts));
      const uint32_t other = widen(mem);
      if ((other & 0x7fffffffu) >= 0x7f800000u) continue;
      auto value = [](uint32_t b) {
        float v;
        std::memcpy(&v, &b, 4);
        return static_cast<double>(v);
      };
      const double lo = value((below ? nearest : other) & 0x7fffffffu),
                   hi = value((below ? other : nearest) & 0x7fffffffu);
      const double part = (value(mag) - lo) / (hi - lo);  // of the gap, in [0, 1)
      const bool up = static_cast<double>(random >> 16) < part * 65536.0;
      const uint64_t chosen = up == below ? other_code : code;
      std::memcpy(out, &chosen, static_cast<size_t>(ts));
    }
  });
}

}  // namespace pallasim::interp::ops
