#include "pallasim/memory/uninitialized.h"

namespace pallasim::memory {

Element uninitialized(ir::DType t, Fill fill) {
  using D = ir::DType;
  if (fill == Fill::Zero) return {};
  switch (t) {
    case D::Bool: return {{1, 0}};
    case D::BF16: return {{0x7fc0, 0}};
    case D::F16: return {{0x7e00, 0}};
    case D::F32: return {{0x7fc00000, 0}};
    case D::F64: return {{0x7ff8000000000000, 0}};
    case D::C64: return {{0x7fc000007fc00000, 0}};
    case D::C128: return {{0x7ff8000000000000, 0x7ff8000000000000}};
    case D::F8E3M4: return {{0x7c, 0}};
    case D::F8E4M3: return {{0x7c, 0}};
    case D::F8E4M3FN: return {{0x7f, 0}};
    case D::F8E5M2: return {{0x7e, 0}};
    case D::F8E4M3B11FNUZ:
    case D::F8E4M3FNUZ:
    case D::F8E5M2FNUZ: return {{0x80, 0}};
    case D::F8E8M0FNU: return {{0xff, 0}};
    default: break;
  }
  if (fill == Fill::Most && ir::is_int(t))
    return {{~uint64_t{0} >> (64 - ir::bit_width(t) + (ir::is_signed_int(t) ? 1 : 0)), 0}};
  // The minimum, sign-extended where a byte holds fewer bits.
  if (ir::is_signed_int(t)) return {{~uint64_t{0} << (ir::bit_width(t) - 1), 0}};
  return {};
}

}  // namespace pallasim::memory
