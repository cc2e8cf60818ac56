// What every kernel body includes. The sources of a table are compiled once per ISA, each time in a namespace of
// its own, so that no inline function of one ISA can replace that of another.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "pallasim/interp/kernels.h"

#ifndef PALLASIM_KNS
#error "PALLASIM_KNS names the namespace of the table being compiled"
#endif

// Iterations are independent although dst may be an operand: element i is read before element i is written.
#define PALLASIM_VLOOP(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); ++i)

namespace pallasim::interp::PALLASIM_KNS {

using ir::DType;
using ir::DTypeClass;
using ir::OpCode;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

constexpr DTypeClass kClass[] = {
#define X(e, t, c, b) DTypeClass::c,
    PALLASIM_DTYPES(X)
#undef X
};
constexpr int kBits[] = {
#define X(e, t, c, b) b,
    PALLASIM_DTYPES(X)
#undef X
};
constexpr DTypeClass class_of(DType t) { return kClass[static_cast<int>(t)]; }
constexpr int bits_of(DType t) { return kBits[static_cast<int>(t)]; }
// Bytes of one element in an unpacked buffer.
constexpr int bytes_of(DType t) { return (bits_of(t) + 7) / 8; }

// 32 and 64 bit integers.
constexpr bool is_word(DType t) {
  return (class_of(t) == DTypeClass::Int || class_of(t) == DTypeClass::UInt) && bits_of(t) >= 32;
}

constexpr CType ctype_of(DType t) {
  const int b = bits_of(t);
  switch (class_of(t)) {
    case DTypeClass::Bool: return CType::Bool;
    case DTypeClass::Int: return b == 64 ? CType::I64 : CType::I32;
    case DTypeClass::UInt: return b == 64 ? CType::U64 : CType::U32;
    case DTypeClass::Float: return b == 64 ? CType::F64 : CType::F32;
    case DTypeClass::Complex: return b == 64 ? CType::C64 : CType::C128;
    case DTypeClass::Key: return b == 128 ? CType::C128 : CType::U64;  // 16 bytes need a register of 16 bytes
    case DTypeClass::Sync: return b == 64 ? CType::U64 : CType::U32;
  }
  return CType::U32;
}

template <class T>
struct Cx {
  T re, im;
};
template <class T>
inline Cx<T> operator+(Cx<T> a, Cx<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
inline Cx<T> operator-(Cx<T> a, Cx<T> b) {
  return {a.re - b.re, a.im - b.im};
}
// GCC 12 turns vectors of complex products into vfmaddsub even under -ffp-contract=off: the products are hidden from
// it.
template <class T>
inline T rounded(T product) {
#if defined(__x86_64__)
  asm("" : "+x"(product));
#endif
  return product;
}
template <class T>
inline Cx<T> operator*(Cx<T> a, Cx<T> b) {
  return {rounded(a.re * b.re) - rounded(a.im * b.im), rounded(a.re * b.im) + rounded(a.im * b.re)};
}
using C64 = Cx<float>;
using C128 = Cx<double>;

template <CType C>
struct RegOf;
template <>
struct RegOf<CType::Bool> {
  using type = uint8_t;
};
template <>
struct RegOf<CType::I32> {
  using type = int32_t;
};
template <>
struct RegOf<CType::U32> {
  using type = uint32_t;
};
template <>
struct RegOf<CType::I64> {
  using type = int64_t;
};
template <>
struct RegOf<CType::U64> {
  using type = uint64_t;
};
template <>
struct RegOf<CType::F32> {
  using type = float;
};
template <>
struct RegOf<CType::F64> {
  using type = double;
};
template <>
struct RegOf<CType::C64> {
  using type = C64;
};
template <>
struct RegOf<CType::C128> {
  using type = C128;
};
template <DType D>
using Reg = typename RegOf<ctype_of(D)>::type;

inline float as_f32(uint32_t b) { return std::bit_cast<float>(b); }
inline uint32_t as_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline double as_f64(uint64_t b) { return std::bit_cast<double>(b); }
inline uint64_t as_bits(double x) { return std::bit_cast<uint64_t>(x); }

// Rounds n elements of a register in place to `d` (nothing to do for the types that fill their register).
void round_register(DType d, void* reg, int64_t n, const Semantics&);
inline bool needs_rounding(DType d) {
  const int b = bits_of(d);
  return b < 32 && class_of(d) != DTypeClass::Bool;
}

// The entries of the table, one file per family.
StripFn strip_f32(OpCode);
StripFn strip_f64(OpCode);
StripFn strip_math_f32(OpCode);
StripFn strip_math_f64(OpCode);
StripFn strip_special(OpCode, bool f64);
StripFn strip_int(OpCode, DType);
StripFn strip_complex(OpCode, DType);
StripFn strip_any(OpCode, DType);  // select_n, stop_gradient: by size
LoadFn load_fn(DType);
StoreFn store_fn(DType);
StoreFn rounding_store_fn(DType);
ConvertFn convert_fn(DType from, DType to);
StripFn bitcast_fn(DType from, DType to);
ReduceFn reduce_fn(OpCode, DType);
ArgReduceFn arg_reduce_fn(OpCode, DType);
CumulativeFn cumulative_fn(OpCode, DType);
void iota(void* dst, DType, int64_t first, int64_t n);

}  // namespace pallasim::interp::PALLASIM_KNS
