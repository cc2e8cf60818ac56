#define PALLASIM_KNS common
#include "body.h"

namespace pallasim::interp {

CType compute_type(ir::DType d) { return common::ctype_of(d); }

int byte_size(CType c) {
  switch (c) {
    case CType::Bool: return 1;
    case CType::I32:
    case CType::U32:
    case CType::F32: return 4;
    case CType::I64:
    case CType::U64:
    case CType::F64:
    case CType::C64: return 8;
    case CType::C128: return 16;
  }
  return 0;
}

uint8_t takes_scalars(ir::OpCode op, ir::DType d) {
  using C = ir::OpCode;
  const CType c = common::ctype_of(d);
  if (op == C::select_n) return 2 | 4;
  const bool floats = c == CType::F32 || c == CType::F64,
             ints = c == CType::I32 || c == CType::U32 || c == CType::I64 || c == CType::U64;
  switch (op) {
    case C::add:
    case C::sub:
    case C::mul:
    case C::max:
    case C::min:
    case C::eq:
    case C::ne:
    case C::lt:
    case C::le:
    case C::gt:
    case C::ge: return floats || ints ? 1 | 2 : 0;
    case C::div: return floats ? 1 | 2 : 0;
    case C::and_:
    case C::or_:
    case C::xor_: return ints ? 1 | 2 : 0;
    default: return 0;
  }
}

}  // namespace pallasim::interp
