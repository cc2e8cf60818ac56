// What memory holds that nobody wrote.
#pragma once
#include <cstdint>

#include "pallasim/ir/dtype.h"

namespace pallasim::memory {

enum class Fill : uint8_t {
  Nan,  // a quiet NaN; the least signed integer; 0 for unsigned and formats without NaN; true
  Zero,
  Most  // as Nan, but integers are the greatest ones: what JAX's TPU interpreter has
};

// One element in memory form, at most 16 bytes.
struct Element {
  uint64_t bits[2] = {0, 0};
};
Element uninitialized(ir::DType, Fill);

}  // namespace pallasim::memory
