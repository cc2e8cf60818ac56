#include "strip_float.h"

namespace pallasim::interp::PALLASIM_KNS {
StripFn strip_f64(OpCode op) { return float_strip<double>(op); }
}  // namespace pallasim::interp::PALLASIM_KNS
