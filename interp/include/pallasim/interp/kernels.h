// The arithmetic: strips of contiguous elements, reductions, scans, copies and contractions. One shared
// object per ISA implements this table (interp/kernels); no Eigen type and no template crosses it.
//
// Compute types: narrow elements (bf16, f8, i8, u4, …) are converted while a strip is loaded, computed on in
// their compute type, and rounded back to their own type after every operation, so bits do not depend on how
// operations are grouped. Nothing here allocates, except contractions that pack.
#pragma once
#include <cstdint>

#include "pallasim/ir/dtype.h"
#include "pallasim/ir/op_table.h"

namespace pallasim::interp {

// How an element lies in a strip register. Bool is one byte, 0 or 1.
enum class CType : uint8_t { Bool, I32, U32, I64, U64, F32, F64, C64, C128 };
CType compute_type(ir::DType);  // bf16 -> F32, i4 -> I32, u8 -> U32, bool -> Bool, f64 -> F64, …; keys -> U64
int byte_size(CType);

inline constexpr int kStrip = 512;  // elements per strip register, at most

// Semantics where machines differ (reference: hardware truth tables in docs/numerics.md).
struct Semantics {
  bool nan_propagates_in_minmax = true;  // Triton: false
  bool fp8_saturates = false;            // GPU: true
  bool int_rem_zero_is_x = true;         // GPU: x % 0 = -1
  bool sign_of_nan_is_one = false;       // Mosaic GPU
};

struct StripParams {
  ir::DType dtype = ir::DType::F32;  // the operation's element type: width of shifts, clz, rounding
  int64_t imm = 0;                   // integer_pow: y; round: 0 away from zero, 1 to even; reduce_precision: e<<8|m
  Semantics semantics;
  // Operands that are one element each, for all n: 1: a, 2: b, 4: c. Only where takes_scalars() says so.
  uint8_t scalars = 0;
};
// dst = op(a, b, c) over n <= kStrip elements. Operands are in the compute type of the operand dtype, dst in that of
// the result (Bool for comparisons and is_finite), already rounded to `dtype`. dst may equal an operand.
// select_n: a = predicate (Bool), b = false case, c = true case. clamp: a = lo, b = x, c = hi.
using StripFn = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams&);

// The operands of an operation on elements of `dtype` that may be StripParams::scalars.
uint8_t takes_scalars(ir::OpCode, ir::DType);

// Memory form to register and back: n elements of `dtype`, `stride` in elements (1, 0, negative, …).
using LoadFn = void (*)(void* dst, const void* src, int64_t n, int64_t stride);
using StoreFn = void (*)(void* dst, const void* src, int64_t n, int64_t stride);
// Register of `from` to register of `to`, with rounding, wrapping and saturation as lax.convert_element_type on the
// machine.
using ConvertFn = void (*)(void* dst, const void* src, int64_t n, const Semantics&);

// A dense operand seen as [outer][reduce][inner], row-major, elements in memory form.
using ReduceFn = void (*)(void* dst, const void* src, int64_t outer, int64_t reduce, int64_t inner, const Semantics&);
// dst: the index along `reduce`, as i32 or another integer memory dtype (`index`).
using ArgReduceFn = void (*)(void* dst, ir::DType index, const void* src, int64_t outer, int64_t reduce, int64_t inner);
using CumulativeFn = void (*)(void* dst, const void* src, int64_t outer, int64_t reduce, int64_t inner, bool reverse,
                              const Semantics&);

// C[m,n] (+)= A[m,k] B[k,n] for `batch` matrices; strides in elements, any sign of layout (row stride, column stride).
// Operands have dtype `in`, C has dtype `out` with unit column stride. Accumulates in f32 for bf16, f16, f8 and f32, in
// f64 for f64, in i32 for integers of at most 32 bits (wrapping), then rounds once to `out`.
struct Contraction {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  ir::DType in = ir::DType::F32, in_rhs = ir::DType::F32, out = ir::DType::F32;
  int64_t a_batch = 0, a_row = 0, a_col = 0;
  int64_t b_batch = 0, b_row = 0, b_col = 0;
  int64_t c_batch = 0, c_row = 0;
  bool accumulate = false;  // C = C + A B (f32, f64, i32 outputs only)
};
enum class GemmBackend : uint8_t { Auto, OneDnn, Eigen, Reference };
// Single-threaded; any thread may call it. Returns false when the dtypes have no meaning together.
bool contract(const Contraction&, void* c, const void* a, const void* b, GemmBackend backend = GemmBackend::Auto);

// Strided copy of elements of `size` bytes (1, 2, 4, 8, 16); dims and strides (in elements) outermost first, rank
// <= 16.
void copy_strided(void* dst, const int64_t* dst_strides, const void* src, const int64_t* src_strides,
                  const int64_t* dims, int rank, int size);
void fill_strided(void* dst, const int64_t* dst_strides, const void* element, const int64_t* dims, int rank, int size);

struct KernelTable {
  const char* isa;  // "avx512", "avx2", "baseline"
  // nullptr where the combination has no meaning (the plan compiler then refuses it by name).
  StripFn (*strip)(ir::OpCode, ir::DType operand);
  LoadFn (*load)(ir::DType);
  StoreFn (*store)(ir::DType);
  StoreFn (*rounding_store)(ir::DType);  // an f32 register as `convert` and `store` give it: bf16 and f16, else nullptr
  ConvertFn (*convert)(ir::DType from, ir::DType to);
  StripFn (*bitcast)(ir::DType from, ir::DType to);  // same width
  ReduceFn (*reduce)(ir::OpCode, ir::DType);
  ArgReduceFn (*arg_reduce)(ir::OpCode, ir::DType);
  CumulativeFn (*cumulative)(ir::OpCode, ir::DType);
  // dst[i] = first + i as `dtype` in memory form, for iota along the last axis.
  void (*iota)(void* dst, ir::DType, int64_t first, int64_t n);
};
// The best table for this CPU; PALLASIM_ISA=avx2|avx512|baseline chooses another that it can run. Loaded once.
const KernelTable& kernels();
// The table of one ISA by name, nullptr where the CPU cannot run it or its file is missing (tests, benchmarks).
const KernelTable* kernels_for(const char* isa);
// Plain bodies, one element at a time: what every fast body is tested against; bit-equal on every machine.
const KernelTable& reference_kernels();

}  // namespace pallasim::interp
