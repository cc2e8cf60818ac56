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

}  // namespace pallasim::interp
