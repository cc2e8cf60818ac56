// What bodies of steps find, as data. The words are in report/: a function without a result throws a DiagnosticError,
// or notes a finding of the run and returns, as it says.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "../plan/payload/copies.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/nans.h"
#include "../plan/payload/places.h"
#include "execution.h"

namespace pallasim::interp::ops {

// -- bounds --
// Stops with PS-OOB-001. `access`: "read", "write" or "masked swap". `block`: of a ref whose block reaches beyond its
// array.
[[noreturn]] void out_of_bounds(const Thread&, const Step*, const IndexTerm&, int64_t index, const std::string& ref,
                                const std::vector<int64_t>& shape, const char* access,
                                const GatherDim* block = nullptr);
// The same access where the machine goes on: noted once per place. `used`: the index that it took instead, -1: it read
// what nobody wrote, or wrote nothing.
void note_out_of_bounds(const Thread&, const Step*, const IndexTerm&, int64_t index, int64_t used,
                        const std::string& ref, const std::vector<int64_t>& shape);
// PS-OOB-002: no element of the block that `index` names in dimension `d` lies in the array.
[[noreturn]] void block_outside(const Thread&, const Step*, const Window&, size_t d, int64_t index);
// PS-OOB-002: a bounded slice from element `start` on that its block cannot hold, or that begins outside the array.
[[noreturn]] void slice_outside(const Thread&, const Step*, const Window&, size_t d, int64_t start, int64_t size);
// PS-OUT-002: the grid is at `block` again, where it was at grid point `before`. Noted, or thrown where that is an
// error.
void revisited(const Thread&, const Step*, const Window&, const std::vector<int64_t>& block,
               const std::vector<int64_t>& before);

// -- synchronisation --
// PS-SEM-001: `what` ("copy", "signal") goes to the `of` ("core", "device") `index`, of which there are `count`.
[[noreturn]] void no_such_unit(const Thread&, const Step*, const char* what, const char* of, int32_t index,
                               int32_t count);
// PS-DMA-001; the shapes of both sides, in elements.
[[noreturn]] void copy_shapes_differ(const Thread&, const Step*, const DmaPayload&, std::span<const int64_t> src,
                                     std::span<const int64_t> dst);
// PS-OOB-001: a wait for `size` elements of dimension `d`, which has `most`; for more bytes than memory can have.
[[noreturn]] void wait_outside(const Thread&, const Step*, const DmaWaitPayload&, int64_t size, size_t d, int64_t most);
[[noreturn]] void wait_too_large(const Thread&, const Step*, const DmaWaitPayload&);
// PS-SEM-002 where the semaphore is not zero, which it then becomes: noted on `generic`, thrown on machines.
void left_over(Thread&, const Step*, int64_t semaphore);

// PS-BAR-001 to PS-BAR-004, noted once per step: what a barrier has to say of what was done to it, or is left of it.
void barrier_misused(Thread&, const Step*, const memory::BarrierFinding&);
// What is left of a barrier when its life ends, as barrier_misused; then it is as at its start.
void barrier_left_over(Thread&, const Step*, int64_t barrier);
[[noreturn]] void bytes_below_zero(const Thread&, const Step*, int64_t bytes);  // PS-BAR-004

// PS-CHK-001: the kernel's own check.
[[noreturn]] void check_failed(const Thread&, const Step*, const std::string& message);

// Waits for who is at the kernel's breakpoints; PS-INT-001 where they want the launch to end.
void at_breakpoint(const Thread&, const Step*, const HostCall&);

// -- values --
// What an element was made of: one number or several. Of a complex one its parts.
struct NanSource {
  ir::DType dtype{};
  int64_t count = 0;
  double least = 0, greatest = 0;
};
// The first element that an operation made NaN or infinite, of operands that are not, and how many there are.
struct NonFinite {
  int64_t elements = 0;
  std::vector<int64_t> element;
  bool nan = false, negative = false;
  bool of_infinities = false;  // NaN of operands that are infinite
  std::vector<NanSource> sources;
};
// PS-NAN-001, PS-NAN-002, PS-NAN-003, noted once per step.
void not_finite(const Thread&, const Step*, const NanPayload&, const NonFinite&);

}  // namespace pallasim::interp::ops
