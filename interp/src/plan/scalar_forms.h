// Scalar steps that follow each other run without the engine in between, and hand over what they made in a register.
#pragma once
#include <array>

#include "step.h"

namespace pallasim::interp {

// What a scalar step is to the plan compiler, besides StepForm::fn. A step that jumps is one, too.
struct ScalarForms {
  // Does the step's work and goes on to the next one's Step::threaded. By which of `operands` are `value`, not what
  // lies in their slots: bit 0 the first, bit 1 the second.
  std::array<ThreadedFn, 4> threaded;
  std::array<uint32_t, 2> (*operands)(const Step&);  // slots; Addr::kNoSlot: none
  std::array<uint8_t, 2> takes;                      // bytes that it reads of each
  uint8_t gives;  // bytes of Step::dst that are the value for whoever comes next, at most 8; 0: it has none
};

// The most steps of a run without jumps, and those that runs may jump over before the engine looks for requests to
// stop. Where a compiler makes calls of what ends a step's function they are that deep.
inline constexpr int kLongestRun = 64;
inline constexpr int64_t kJumpedSteps = 4096;

}  // namespace pallasim::interp
