// Memory form <-> register, register <-> register, bitcasts and iota.
#include "f16c.h"
#include "formats.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

// How the elements of a dtype lie in memory.
template <DType D>
struct MemOf {
  using type = std::conditional_t<
      bytes_of(D) == 16, C128,
      std::conditional_t<
          bytes_of(D) == 8, std::conditional_t<ctype_of(D) == CType::C64, C64, uint64_t>,
          std::conditional_t<bytes_of(D) == 4, uint32_t, std::conditional_t<bytes_of(D) == 2, uint16_t, uint8_t>>>>;
};
template <DType D>
using Mem = typename MemOf<D>::type;

template <DType D>
inline Reg<D> from_mem(Mem<D> m) {
  if constexpr (class_of(D) == DTypeClass::Float && bits_of(D) < 32) {
    return decode<Format<D>>(m);
  } else if constexpr (class_of(D) == DTypeClass::Bool) {
    return m != 0;
  } else if constexpr (class_of(D) == DTypeClass::Int && bits_of(D) < 32) {
    return static_cast<int32_t>(static_cast<uint32_t>(m) << (32 - bits_of(D))) >> (32 - bits_of(D));
  } else if constexpr (class_of(D) == DTypeClass::UInt && bits_of(D) < 32) {
    return static_cast<uint32_t>(m) & ((1u << bits_of(D)) - 1);
  } else {
    return std::bit_cast<Reg<D>>(m);
  }
}

// `Rounds`: NaNs as a conversion gives them; else their bits are kept.
template <DType D, bool Rounds>
inline Mem<D> to_mem(Reg<D> r) {
  if constexpr (class_of(D) == DTypeClass::Float && bits_of(D) < 32) {
    const bool nan = r != r;
    const float q = quantize<Format<D>>(r, false);
    if constexpr (Rounds && D == DType::BF16) return static_cast<Mem<D>>(as_bits(q) >> 16);
    else return static_cast<Mem<D>>(encode<Format<D>>(nan && !Rounds ? r : q));
  } else if constexpr (bits_of(D) < 8) {
    return static_cast<Mem<D>>(static_cast<uint32_t>(r) & ((1u << bits_of(D)) - 1));  // high bits 0, as ml_dtypes
  } else if constexpr (bits_of(D) < 32) {
    return static_cast<Mem<D>>(r);
  } else {
    return std::bit_cast<Mem<D>>(r);
  }
}

template <class M>
[[gnu::noinline]] void gather(M* d, const M* s, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) d[i] = s[i * stride];
}
template <class M>
[[gnu::noinline]] void scatter(M* d, const M* s, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) d[i * stride] = s[i];
}

template <DType D>
void load(void* dst, const void* src, int64_t n, int64_t stride) {
  auto* d = static_cast<Reg<D>*>(dst);
  auto* s = static_cast<const Mem<D>*>(src);
  if (stride == 1) {
    if constexpr (sizeof(Reg<D>) == sizeof(Mem<D>) && class_of(D) != DTypeClass::Bool) {
      std::memcpy(d, s, n * sizeof(Reg<D>));
    } else {
#ifdef PALLASIM_F16C
      if constexpr (D == DType::F16)
        while (n >= 8 && f16_load8(d, s)) d += 8, s += 8, n -= 8;
#endif
      PALLASIM_VLOOP(i, n) d[i] = from_mem<D>(s[i]);
    }
  } else if (stride == 0) {
    const Reg<D> v = from_mem<D>(*s);
    PALLASIM_VLOOP(i, n) d[i] = v;
  } else {
    for (int64_t at = 0; at < n; at += kStrip) {
      Mem<D> m[kStrip];
      const int64_t count = n - at < kStrip ? n - at : kStrip;
      gather(m, s + at * stride, count, stride);
      load<D>(d + at, m, count, 1);
    }
  }
}

template <DType D, bool Rounds = false>
void store(void* dst, const void* src, int64_t n, int64_t stride) {
  auto* d = static_cast<Mem<D>*>(dst);
  auto* s = static_cast<const Reg<D>*>(src);
  if (stride == 1) {
    if constexpr (sizeof(Reg<D>) == sizeof(Mem<D>)) {
      std::memcpy(d, s, n * sizeof(Reg<D>));
    } else {
#ifdef PALLASIM_F16C
      if constexpr (D == DType::F16)
        while (n >= 8 && f16_store8(d, s)) d += 8, s += 8, n -= 8;
#endif
      PALLASIM_VLOOP(i, n) d[i] = to_mem<D, Rounds>(s[i]);
    }
  } else if (n == 1) {
    *d = to_mem<D, Rounds>(*s);
  } else {
    for (int64_t at = 0; at < n; at += kStrip) {
      Mem<D> m[kStrip];
      const int64_t count = n - at < kStrip ? n - at : kStrip;
      store<D, Rounds>(m, s + at, count, 1);
      scatter(d + at * stride, m, count, stride);
    }
  }
}

// `r` and `s` are one register, or lie apart.
template <DType D>
void quantize_register(float* r, const float* s, int64_t n, bool sat) {
#ifdef PALLASIM_F16C
  if constexpr (D == DType::F16)
    while (n >= 8 && f16_round8(r, s)) r += 8, s += 8, n -= 8;
#endif
  if constexpr (may_saturate(D)) {
    if (sat) {
      PALLASIM_VLOOP(i, n) r[i] = quantize<Format<D>>(s[i], true);
      return;
    }
  }
  PALLASIM_VLOOP(i, n) r[i] = quantize<Format<D>>(s[i], false);
}

// Narrow results are reached through an f32 rounded to odd (inexact sets the last bit), which rounds again without
// harm.
inline float f32_odd(double d) {
  const float f = static_cast<float>(d);
  const uint32_t b = as_bits(f);
  const double back = f;
  const uint32_t toward = std::fabs(back) > std::fabs(d) ? b - 1 : b;
  return as_f32(back == d || d != d ? b : (toward | 1u));
}
inline float f32_odd(int32_t v) { return f32_odd(static_cast<double>(v)); }
inline float f32_odd(uint32_t v) { return f32_odd(static_cast<double>(v)); }
inline float f32_odd(uint64_t v) {
  const uint64_t jam = (v & ~uint64_t{0x7ff}) | ((v & 0x7ff) != 0 ? 0x800u : 0u);
  return f32_odd(static_cast<double>(v >> 53 ? jam : v));
}
inline float f32_odd(int64_t v) {
  const uint64_t u = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  const float f = f32_odd(u);
  return v < 0 ? -f : f;
}
inline float f32_odd(uint8_t v) { return v; }

// One loop per pair of register types; what is special about the destination's dtype happens in a second pass.
template <class T>
[[gnu::noinline]] void to_f32_odd(float* d, const T* s, int64_t n) {
  PALLASIM_VLOOP(i, n) d[i] = f32_odd(s[i]);
}

// Float to integer: truncates, saturates at [lo, hi], NaN gives 0. `limit` is hi + 1, `floor` the largest float that
// saturates to lo (signed) or 0.
template <class R, class T>
[[gnu::noinline]] void truncate(R* d, const T* s, int64_t n, R lo, R hi, T floor, T limit) {
  PALLASIM_VLOOP(i, n) {
    const T x = s[i];
    const bool in = x > floor && x < limit;
    const R v = static_cast<R>(in ? x : T{0});
    d[i] = in ? v : x >= limit ? hi : x <= floor ? lo : R{0};
  }
}
template <DType To, class T>
void truncate_to(Reg<To>* d, const T* s, int64_t n) {
  using R = Reg<To>;
  constexpr int bits = bits_of(To);
  if constexpr (class_of(To) == DTypeClass::Int) {
    constexpr R hi = static_cast<R>((uint64_t{1} << (bits - 1)) - 1);
    constexpr T limit = static_cast<T>(uint64_t{1} << (bits - 1));
    // -limit - 1 < x < -limit truncates to lo as well, so that values above -limit are the ones inside.
    truncate<R, T>(d, s, n, static_cast<R>(-hi - 1), hi, -limit, limit);
  } else {
    constexpr R hi = static_cast<R>(bits == 64 ? ~uint64_t{0} : (uint64_t{1} << (bits % 64)) - 1);
    truncate<R, T>(d, s, n, R{0}, hi, T{0}, static_cast<T>(uint64_t{1} << (bits - 1)) * 2);
  }
}

template <class T, class R>
[[gnu::noinline]] void cast(R* d, const T* s, int64_t n) {
  PALLASIM_VLOOP(i, n) d[i] = static_cast<R>(s[i]);
}
template <class T>
[[gnu::noinline]] void not_zero(uint8_t* d, const T* s, int64_t n) {
  PALLASIM_VLOOP(i, n) d[i] = s[i] != 0;
}

template <class T, DType To>
void convert(void* dst, const void* src, int64_t n, const Semantics& sem) {
  using R = Reg<To>;
  auto* d = static_cast<R*>(dst);
  auto* s = static_cast<const T*>(src);
  constexpr DTypeClass c = class_of(To);
  if constexpr (c == DTypeClass::Bool) {
    not_zero<T>(d, s, n);
  } else if constexpr (c == DTypeClass::Complex) {
    for (int64_t i = n; i-- > 0;) d[i] = {static_cast<decltype(R::re)>(s[i]), 0};
  } else if constexpr (c == DTypeClass::Float && bits_of(To) < 32 && std::is_same_v<T, float>) {
    quantize_register<To>(d, s, n, sem.fp8_saturates);
  } else if constexpr (c == DTypeClass::Float && bits_of(To) < 32) {
    to_f32_odd<T>(d, s, n);
    round_register(To, d, n, sem);
  } else if constexpr (std::is_same_v<T, R> && bits_of(To) >= 32) {
    std::memmove(d, s, n * sizeof(T));
  } else if constexpr (c != DTypeClass::Float && std::is_floating_point_v<T>) {
    truncate_to<To>(d, s, n);
  } else {
    cast<T, R>(d, s, n);
    if constexpr (c != DTypeClass::Float && bits_of(To) < 32) round_register(To, d, n, sem);
  }
}

// A complex operand: another complex type, or its real part (bool: either part is not 0).
template <class P, DType To>
[[gnu::noinline]] void convert_complex(void* dst, const void* src, int64_t n, const Semantics& sem) {
  auto* s = static_cast<const Cx<P>*>(src);
  auto* d = static_cast<Reg<To>*>(dst);
  if constexpr (class_of(To) == DTypeClass::Complex) {
    using Q = decltype(Reg<To>::re);
    for (int64_t i = 0; i < n; ++i) d[i] = {static_cast<Q>(s[i].re), static_cast<Q>(s[i].im)};
  } else if constexpr (class_of(To) == DTypeClass::Bool) {
    for (int64_t i = 0; i < n; ++i) d[i] = s[i].re != 0 || s[i].im != 0;
  } else {
    P re[kStrip];
    for (int64_t i = 0; i < n; ++i) re[i] = s[i].re;
    convert<P, To>(dst, re, n, sem);
  }
}

template <DType To>
ConvertFn convert_to(CType from) {
  switch (from) {
    case CType::Bool: return convert<uint8_t, To>;
    case CType::I32: return convert<int32_t, To>;
    case CType::U32: return convert<uint32_t, To>;
    case CType::I64: return convert<int64_t, To>;
    case CType::U64: return convert<uint64_t, To>;
    case CType::F32: return convert<float, To>;
    case CType::F64: return convert<double, To>;
    case CType::C64: return convert_complex<float, To>;
    case CType::C128: return convert_complex<double, To>;
  }
  return nullptr;
}

template <int Size>
void copy_register(void* dst, const void* src, int64_t n, const Semantics&) {
  std::memmove(dst, src, n * Size);
}

// Registers of at most 32 bits <-> the raw bits of their dtype.
[[gnu::noinline]] void to_bits(DType d, uint32_t* dst, const void* src, int64_t n) {
  auto* s = static_cast<const uint32_t*>(src);
  const uint32_t mask = bits_of(d) == 32 ? ~0u : (1u << bits_of(d)) - 1;
  if (d == DType::Bool) {
    auto* b = static_cast<const uint8_t*>(src);
    for (int64_t i = 0; i < n; ++i) dst[i] = b[i];
  } else if (!with_narrow_float(d, [&](auto t) {
               PALLASIM_VLOOP(i, n) dst[i] = encode<Format<decltype(t)::value>>(as_f32(s[i]));
             })) {
    PALLASIM_VLOOP(i, n) dst[i] = s[i] & mask;
  }
}
[[gnu::noinline]] void from_bits(DType d, void* dst, const uint32_t* src, int64_t n) {
  auto* r = static_cast<uint32_t*>(dst);
  const int shift = 32 - bits_of(d);
  if (d == DType::Bool) {
    auto* b = static_cast<uint8_t*>(dst);
    for (int64_t i = 0; i < n; ++i) b[i] = src[i] & 1;
  } else if (!with_narrow_float(d, [&](auto t) {
               PALLASIM_VLOOP(i, n) r[i] = as_bits(decode<Format<decltype(t)::value>>(src[i]));
             })) {
    if (class_of(d) == DTypeClass::Int) {
      PALLASIM_VLOOP(i, n) r[i] = static_cast<uint32_t>(static_cast<int32_t>(src[i] << shift) >> shift);
    } else {
      std::memmove(r, src, n * 4);
    }
  }
}

template <DType From, DType To>
void bitcast(void* dst, const void* src, const void*, const void*, int64_t n, const StripParams&) {
  if constexpr (bits_of(From) >= 64 || (bits_of(From) == 32)) {
    std::memmove(dst, src, n * bytes_of(From));
  } else {
    uint32_t raw[kStrip];
    to_bits(From, raw, src, n);
    from_bits(To, dst, raw, n);
  }
}

template <DType From>
StripFn bitcast_from(DType to) {
  StripFn fn = nullptr;
  switch (to) {
#define X(e, t, c, b)                                                                                            \
  case DType::e:                                                                                                 \
    if constexpr (bits_of(From) == b && class_of(From) != DTypeClass::Sync && DTypeClass::c != DTypeClass::Sync) \
      fn = bitcast<From, DType::e>;                                                                              \
    break;
    PALLASIM_DTYPES(X)
#undef X
  }
  return fn;
}

// Elements that only move are loaded and stored by size.
constexpr DType carrier(DType d) {
  if (bits_of(d) < 32 && class_of(d) != DTypeClass::Key) return d;
  return bits_of(d) == 32                      ? DType::U32
         : bits_of(d) == 64 && d != DType::C64 ? DType::U64
         : bits_of(d) == 64                    ? DType::C64
                                               : DType::C128;
}

}  // namespace

void round_register(DType d, void* reg, int64_t n, const Semantics& sem) {
  if (with_narrow_float(d, [&](auto t) {
        quantize_register<decltype(t)::value>(static_cast<float*>(reg), static_cast<float*>(reg), n, sem.fp8_saturates);
      })) {
    return;
  }
  const int shift = 32 - bits_of(d);
  if (shift <= 0 || d == DType::Bool) return;
  if (class_of(d) == DTypeClass::Int) {
    auto* r = static_cast<int32_t*>(reg);
    PALLASIM_VLOOP(i, n) r[i] = static_cast<int32_t>(static_cast<uint32_t>(r[i]) << shift) >> shift;
  } else if (class_of(d) == DTypeClass::UInt) {
    auto* r = static_cast<uint32_t*>(reg);
    PALLASIM_VLOOP(i, n) r[i] = r[i] << shift >> shift;
  }
}

LoadFn load_fn(DType d) {
  switch (d) {
#define X(e, t, c, b)                                    \
  case DType::e:                                         \
    if constexpr (b > 0) return load<carrier(DType::e)>; \
    else return nullptr;
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

StoreFn store_fn(DType d) {
  switch (d) {
#define X(e, t, c, b)                                     \
  case DType::e:                                          \
    if constexpr (b > 0) return store<carrier(DType::e)>; \
    else return nullptr;
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

StoreFn rounding_store_fn(DType d) {
  return d == DType::BF16 ? store<DType::BF16, true> : d == DType::F16 ? store<DType::F16, true> : nullptr;
}

ConvertFn convert_fn(DType from, DType to) {
  const DTypeClass f = class_of(from), t = class_of(to);
  if (f == DTypeClass::Key || t == DTypeClass::Key || f == DTypeClass::Sync || t == DTypeClass::Sync) {
    if (from != to || bits_of(to) == 0) return nullptr;
    return bits_of(to) == 128 ? copy_register<16> : bits_of(to) == 64 ? copy_register<8> : copy_register<4>;
  }
  switch (to) {
#define X(e, tx, c, b)                                                                   \
  case DType::e:                                                                         \
    if constexpr (DTypeClass::c != DTypeClass::Key && DTypeClass::c != DTypeClass::Sync) \
      return convert_to<DType::e>(ctype_of(from));                                       \
    else return nullptr;
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

StripFn bitcast_fn(DType from, DType to) {
  switch (from) {
#define X(e, t, c, b) \
  case DType::e: return bitcast_from<DType::e>(to);
    PALLASIM_DTYPES(X)
#undef X
  }
  return nullptr;
}

void iota(void* dst, DType d, int64_t first, int64_t n) {
  const ConvertFn to = convert_fn(DType::I64, d);
  const StoreFn put = store_fn(d);
  if (!to || !put) return;
  const Semantics sem;
  alignas(64) int64_t index[kStrip];
  alignas(64) char reg[kStrip * 16];
  for (int64_t at = 0; at < n; at += kStrip) {
    const int64_t m = n - at < kStrip ? n - at : kStrip;
    PALLASIM_VLOOP(i, m) index[i] = first + at + i;
    to(reg, index, m, sem);
    put(static_cast<char*>(dst) + at * bytes_of(d), reg, m, 1);
  }
}

}  // namespace pallasim::interp::PALLASIM_KNS
