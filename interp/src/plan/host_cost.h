// What steps cost the processor that runs them, in nanoseconds of one core: whether a grid is worth splitting among OS
// threads (PlanSplit::step_cost_ns), and whether a step is worth running in parts (ops/parts.h). Only the order of
// magnitude decides, and no value depends on it. Estimates, where a line does not say that it was measured. What a step
// costs the emulated machine is another thing, and not here.
#pragma once

namespace pallasim::interp::host_cost {

// `step` for its being there, `each` for every element, byte or product that it works on.
struct Cost {
  double step, each;
  constexpr double of(double n) const { return step + each * n; }
};

// Of steps, as the compiler charges them.
inline constexpr Cost kGridPoint{10, 0};       // of one body
inline constexpr Cost kCopy{20, 0.1};          // per byte
inline constexpr Cost kElementwise{30, 0.15};  // per element and operation, its store included
inline constexpr Cost kReduce{30, 0.2};        // per element of the operand
inline constexpr Cost kArgReduce{30, 0.5};     // per element of the operand
inline constexpr Cost kScan{30, 1};            // per element
inline constexpr Cost kArray{50, 10};          // per element: sorts, random numbers, gathers: plain bodies
inline constexpr Cost kReinterpret{50, 20};    // per element that is seen through another width
inline constexpr Cost kElement{50, 0};         // one element by index
inline constexpr Cost kElements{50, 5};        // per element by index, of the value and of the result
inline constexpr Cost kLookForNans{20, 0.2};   // per element of the result
// Per multiplication and addition. Measured on one core with AVX-512: 2^24 of them in f32 take 0.15 to 0.3 ms, that is
// 0.01 to 0.02 each; narrower types less (ops/products.cc).
inline constexpr Cost kProduct{0, 0.04};       // a library's, as charged for small ones
inline constexpr Cost kMatrixUnit{200, 0.02};  // of a modelled unit
inline constexpr Cost kLargeProduct{0, 0.01};  // f32, as asked for parts

// Of what may run in parts, as its body asks.
inline constexpr Cost kLargeCopy{0, 0.1};      // per byte
inline constexpr Cost kLargeReduce{0, 0.05};   // per byte of the operand
inline constexpr Cost kSlices{0, 10};          // per slice of a gather, beside its bytes
inline constexpr Cost kSliceBytes{0, 0.1};     // per byte
inline constexpr Cost kGatheredElement{0, 1};  // per element

// From where on it pays.
inline constexpr double kWorthParts = 6e3;        // a step, where helpers are awake
inline constexpr double kWorthWaking = 60e3;      // a step, or several of them together
inline constexpr double kWorthSplitting = 100e3;  // a launch

}  // namespace pallasim::interp::host_cost
