#include "loops.h"

namespace pallasim::interp::PALLASIM_KNS {
StripFn strip_complex(OpCode, DType) { return nullptr; }
}  // namespace pallasim::interp::PALLASIM_KNS
