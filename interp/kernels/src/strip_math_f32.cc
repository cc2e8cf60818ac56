#include "strip_math.h"

namespace pallasim::interp::PALLASIM_KNS {
StripFn strip_math_f32(OpCode op) { return math_strip<float>(op); }
}  // namespace pallasim::interp::PALLASIM_KNS
