#include "erf_inv_f32.h"
#include "strip_math.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {
struct ErfInv {
  static float f(float x) { return m32::erf_inv(x); }
};
}  // namespace

StripFn strip_math_f32(OpCode op) {
  return op == OpCode::erf_inv ? unary<ErfInv, float, float> : math_strip<float>(op);
}
}  // namespace pallasim::interp::PALLASIM_KNS
