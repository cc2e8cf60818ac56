// An elementwise program, all at once and row by row.
#pragma once
#include "../plan/payload/arithmetic.h"
#include "execution.h"

namespace pallasim::interp::ops {

// All of it.
void compute(Thread&, const EltProgram&);

class RowProgram {
 public:
  RowProgram(Thread&, const EltProgram&);
  // Elements [begin, end) of the row at `index` (of the outer dims) to `dst` and behind it.
  void run(const int64_t* index, int64_t begin, int64_t end, std::byte* dst);

 private:
  const EltProgram& p_;
  void* entry_[kMaxEntries];    // strip registers, and where operands and the result of a row lie
  std::byte* at_[kMaxEntries];  // the operands' first elements
};

}  // namespace pallasim::interp::ops
