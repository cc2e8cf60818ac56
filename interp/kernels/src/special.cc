#include "loops.h"

namespace pallasim::interp::PALLASIM_KNS {
StripFn strip_special(OpCode, bool) { return nullptr; }
}  // namespace pallasim::interp::PALLASIM_KNS
