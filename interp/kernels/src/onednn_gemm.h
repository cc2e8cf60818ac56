// oneDNN behind plain functions, single-threaded whatever the application's OpenMP settings are.
#pragma once
#include <cstdint>

namespace pallasim::interp {

// A matrix operand in memory: element (i, j) at data[i * ld + j], or [j * ld + i] if transposed.
struct GemmOperand {
  const void* data;
  int64_t ld;
  bool transposed;
};
bool onednn_sgemm(int64_t m, int64_t n, int64_t k, GemmOperand a, GemmOperand b, float* c, int64_t ldc,
                  bool accumulate);
// Whether onednn_sgemm reads operands where they lie (AVX2 and less). What goes along k then steps from row to row, and
// rows that lie a multiple of 2 KiB apart share a few sets of the first-level cache: half the speed or less.
bool onednn_reads_in_place();
// bf16 operands, f32 result; false where the CPU has no bf16 units (then f32 is faster).
bool onednn_has_bf16();
bool onednn_bf16(int64_t m, int64_t n, int64_t k, GemmOperand a, GemmOperand b, float* c, int64_t ldc, bool accumulate);
// Bytes with or without a sign times bytes with one, sums of 32 bits that wrap around; false where the CPU has no units
// for them (there sums of two products would saturate).
bool onednn_has_int8();
bool onednn_int8(int64_t m, int64_t n, int64_t k, GemmOperand a, bool a_unsigned, GemmOperand b, int32_t* c,
                 int64_t ldc, bool accumulate);

}  // namespace pallasim::interp
