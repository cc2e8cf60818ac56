// One ISA's table and the C function by which the loader finds it.
#include "body.h"
#include "module.h"

#define PALLASIM_STR2(x) #x
#define PALLASIM_STR(x) PALLASIM_STR2(x)

namespace pallasim::interp::PALLASIM_KNS {

void small_gemm_f32(int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, float*, int64_t, bool);
void small_gemm_f64(int64_t, int64_t, int64_t, const double*, int64_t, const double*, int64_t, double*, int64_t, bool);
void small_gemm_u32(int64_t, int64_t, int64_t, const uint32_t*, int64_t, const uint32_t*, int64_t, uint32_t*, int64_t,
                    bool);
void small_gemm_u64(int64_t, int64_t, int64_t, const uint64_t*, int64_t, const uint64_t*, int64_t, uint64_t*, int64_t,
                    bool);
void eigen_gemm_f32(int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, float*, int64_t, bool);
void eigen_gemm_f64(int64_t, int64_t, int64_t, const double*, int64_t, const double*, int64_t, double*, int64_t, bool);
void transpose(void* dst, int64_t dst_row, const void* src, int64_t src_row, int64_t rows, int64_t cols, int size);
void aligned_sum(const AlignedRule&, int64_t, int64_t, int64_t, const float*, const float*, float*, float*);

namespace {
StripFn strip(OpCode op, DType d) {
  if (class_of(d) == DTypeClass::Key || class_of(d) == DTypeClass::Sync) return strip_any(op, d);
  if (StripFn fn = strip_any(op, d)) return fn;
  switch (ctype_of(d)) {
    case CType::F32: {
      if (StripFn fn = strip_f32(op)) return fn;
      if (StripFn fn = strip_math_f32(op)) return fn;
      if (StripFn fn = strip_complex(op, DType::F32)) return bits_of(d) == 32 ? fn : nullptr;
      return strip_special(op, false);
    }
    case CType::F64: {
      if (StripFn fn = strip_f64(op)) return fn;
      if (StripFn fn = strip_math_f64(op)) return fn;
      if (StripFn fn = strip_complex(op, DType::F64)) return fn;
      return strip_special(op, true);
    }
    case CType::C64:
    case CType::C128: return strip_complex(op, d);
    default: return strip_int(op, d);
  }
}
}  // namespace

const IsaModule kModule = {
    kAbi,
    {PALLASIM_STR(PALLASIM_KNS), strip, load_fn, store_fn, rounding_store_fn, convert_fn, bitcast_fn, reduce_fn,
     arg_reduce_fn, cumulative_fn, iota},
    small_gemm_f32,
    small_gemm_f64,
    small_gemm_u32,
    small_gemm_u64,
#ifdef PALLASIM_EIGEN
    eigen_gemm_f32,
    eigen_gemm_f64,
#else
    small_gemm_f32,
    small_gemm_f64,
#endif
    transpose,
    aligned_sum,
};

}  // namespace pallasim::interp::PALLASIM_KNS

#define PALLASIM_EXPORT __attribute__((visibility("default")))
extern "C" PALLASIM_EXPORT const pallasim::interp::IsaModule* PALLASIM_ENTRY() {
  return &pallasim::interp::PALLASIM_KNS::kModule;
}
