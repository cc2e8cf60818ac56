// Whole-array operations without a fast body: dense row-major operands in, dense results out, in memory form.
#pragma once
#include <functional>
#include <vector>

#include "../step.h"

namespace pallasim::interp {

struct ArrayArg {
  Addr addr;
  int64_t elements = 0;
  int element_bytes = 4;
};
struct ArrayCall {
  Thread& thread;
  const std::byte* const* in;
  std::byte* const* out;
};
using ArrayBody = std::function<void(const ArrayCall&)>;
struct ArrayPayload {
  std::vector<ArrayArg> in, out;
  ArrayBody body;
};

}  // namespace pallasim::interp
