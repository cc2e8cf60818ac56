// The CPU's own conversion between f32 and f16, eight at a time. It agrees with formats.h except in what it does to
// NaNs; from a group that holds one on, the caller takes the general way.
#pragma once
#include "body.h"

#if defined(__F16C__) && defined(__AVX2__)
#include <immintrin.h>
#define PALLASIM_F16C 1

namespace pallasim::interp::PALLASIM_KNS {

inline bool f16_load8(float* d, const uint16_t* s) {
  const __m256 r = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s)));
  if (_mm256_movemask_ps(_mm256_cmp_ps(r, r, _CMP_UNORD_Q))) return false;
  _mm256_storeu_ps(d, r);
  return true;
}
inline bool f16_store8(uint16_t* d, const float* s) {
  const __m256 x = _mm256_loadu_ps(s);
  if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))) return false;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(d), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  return true;
}
inline bool f16_round8(float* r, const float* s) {
  const __m256 x = _mm256_loadu_ps(s);
  if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))) return false;
  _mm256_storeu_ps(r, _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)));
  return true;
}

}  // namespace pallasim::interp::PALLASIM_KNS
#endif
