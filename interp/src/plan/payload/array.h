// Whole-array operations without a fast body: dense row-major operands in, dense results out, in memory form.
#pragma once
#include <concepts>
#include <functional>
#include <utility>
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
// What the operation does, and how definedness goes through it.
struct ArrayBody {
  std::function<void(const ArrayCall&)> run;
  uint32_t moves = 0;  // a bit per operand whose elements it only moves
  bool lanes = false;  // element i of a result is made of elements i of the operands
  ArrayBody() = default;
  template <typename F>
  requires std::invocable<F, const ArrayCall&> ArrayBody(F f, uint32_t moved = 0) : run(std::move(f)), moves(moved) {}
  static ArrayBody lanewise(std::function<void(const ArrayCall&)> f) {
    ArrayBody r(std::move(f));
    r.lanes = true;
    return r;
  }
  void operator()(const ArrayCall& c) const { run(c); }
};
struct ArrayPayload {
  std::vector<ArrayArg> in, out;
  ArrayBody body;
};

}  // namespace pallasim::interp
