// How this thread rounds while a kernel runs.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "say here how floating-point operations are set to round to nearest and to keep subnormals"
#endif

namespace pallasim::interp {

// XLA's threads flush subnormals to zero; the kernels keep them, on every thread. Nothing traps, and results are
// rounded to nearest.
class FloatEnvironment {
 public:
  FloatEnvironment() : before_(get()) { set(kDefault); }
  ~FloatEnvironment() { set(before_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word kDefault = 0x1f80;  // all exceptions masked, no flush, no denormals-are-zero
  static Word get() { return _mm_getcsr(); }
  static void set(Word w) { _mm_setcsr(w); }
#else
  using Word = uint64_t;
  static constexpr Word kDefault = 0;  // of FPCR: no traps, no flush, NaNs keep their payloads
  static Word get() {
    Word w;
    asm volatile("mrs %0, fpcr" : "=r"(w));
    return w;
  }
  static void set(Word w) { asm volatile("msr fpcr, %0" : : "r"(w)); }
#endif

  Word before_;
};

}  // namespace pallasim::interp
