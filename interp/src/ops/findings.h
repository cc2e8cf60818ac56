// What bodies of steps and the engine find, as data. Who puts it into words (report/) is the launch's to say: a
// function without a result throws a DiagnosticError, or notes a finding of the run and returns, as it says.
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

// The first element of an integer result that does not fit its type, and how many there are.
struct Overflow {
  int64_t elements = 0;
  std::vector<int64_t> element;
  double exact = 0;  // what it would be
  std::vector<NanSource> sources;
};

class Diagnostics {
 public:
  virtual ~Diagnostics() = default;

  // -- bounds --
  // Stops with PS-OOB-001. `access`: "read", "write" or "masked swap". `block`: of a ref whose block reaches beyond its
  // array.
  [[noreturn]] virtual void out_of_bounds(const Thread&, const Step*, const IndexTerm&, int64_t index,
                                          const std::string& ref, const std::vector<int64_t>& shape, const char* access,
                                          const GatherDim* block = nullptr) const = 0;
  // The same access where the machine goes on: noted once per place. `used`: the index that it took instead, -1: it
  // read what nobody wrote, or wrote nothing.
  virtual void note_out_of_bounds(const Thread&, const Step*, const IndexTerm&, int64_t index, int64_t used,
                                  const std::string& ref, const std::vector<int64_t>& shape) const = 0;
  // PS-OOB-001 as a warning, once per step: a load that went on and gave what nobody wrote. A checked run remembers it
  // (Log::outside), and tells where the value is used.
  virtual void note_read_outside(const Thread&, const Step*, const IndexTerm&, int64_t index, const std::string& ref,
                                 const std::vector<int64_t>& shape) const = 0;
  // PS-OOB-003, once per step: a box that begins before its array, or of which no element exists.
  virtual void note_box_outside(const Thread&, const Step*, const IndexTerm&, int64_t start, const std::string& ref,
                                const std::vector<int64_t>& shape) const = 0;
  // PS-OOB-002: no element of the block that `index` names in dimension `d` lies in the array.
  [[noreturn]] virtual void block_outside(const Thread&, const Step*, const Window&, size_t d, int64_t index) const = 0;
  // PS-OOB-002 as a warning, once per step: of the block that `index` names in dimension `d` no element lies in the
  // array.
  virtual void note_block_outside(const Thread&, const Step*, const Window&, size_t d, int64_t index) const = 0;
  // PS-OOB-002: a bounded slice from element `start` on that its block cannot hold, or that begins outside the array.
  [[noreturn]] virtual void slice_outside(const Thread&, const Step*, const Window&, size_t d, int64_t start,
                                          int64_t size) const = 0;
  // PS-OUT-002: the grid is at `block` again, where it was at grid point `before`. Noted, or thrown where that is an
  // error.
  virtual void revisited(const Thread&, const Step*, const Window&, const std::vector<int64_t>& block,
                         const std::vector<int64_t>& before) const = 0;

  // -- synchronisation --
  // PS-SEM-001: `what` ("copy", "signal") goes to the `of` ("core", "device") `index`, of which there are `count`.
  [[noreturn]] virtual void no_such_unit(const Thread&, const Step*, const char* what, const char* of, int32_t index,
                                         int32_t count) const = 0;
  // PS-DMA-001; the shapes of both sides, in elements.
  [[noreturn]] virtual void copy_shapes_differ(const Thread&, const Step*, const DmaPayload&,
                                               std::span<const int64_t> src, std::span<const int64_t> dst) const = 0;
  // PS-OOB-001: a wait for `size` elements of dimension `d`, which has `most`; for more bytes than memory can have.
  [[noreturn]] virtual void wait_outside(const Thread&, const Step*, const DmaWaitPayload&, int64_t size, size_t d,
                                         int64_t most) const = 0;
  [[noreturn]] virtual void wait_too_large(const Thread&, const Step*, const DmaWaitPayload&) const = 0;
  // PS-SEM-002 where the semaphore is not zero, which it then becomes: noted on `generic`, thrown on machines.
  virtual void left_over(Thread&, const Step*, int64_t semaphore) const = 0;

  // PS-BAR-001 to PS-BAR-004, noted once per step: what a barrier has to say of what was done to it, or is left of it.
  virtual void barrier_misused(Thread&, const Step*, const memory::BarrierFinding&) const = 0;
  // What is left of a barrier when its life ends, as barrier_misused.
  virtual void barrier_left_over(Thread&, const Step*, int64_t barrier) const = 0;
  [[noreturn]] virtual void bytes_below_zero(const Thread&, const Step*, int64_t bytes) const = 0;  // PS-BAR-004

  // PS-CLU-001, noted: a cluster that a request took, whose answer nobody looked at, or a CTA too late.
  virtual void lost_cluster(Execution&, const ClusterClaim&) const = 0;
  // PS-CLU-002, noted once per step: the thread's CTA asks, and has read that there is none left.
  virtual void vain_request(const Thread&, const Step*) const = 0;

  // PS-PROM-001, once per step: an integer that was to be a multiple of `by`.
  virtual void broken_promise(const Thread&, const Step*, int64_t value, int64_t by) const = 0;
  // PS-CHK-001: the kernel's own check.
  [[noreturn]] virtual void check_failed(const Thread&, const Step*, const std::string& message) const = 0;

  // Waits for who is at the kernel's breakpoints; PS-INT-001 where they want the launch to end.
  virtual void at_breakpoint(const Thread&, const Step*, const HostCall&) const = 0;

  // -- values --
  // PS-NAN-001, PS-NAN-002, PS-NAN-003, noted once per step.
  virtual void not_finite(const Thread&, const Step*, const NanPayload&, const NonFinite&) const = 0;
  // PS-NAN-004, once per step.
  virtual void overflowed(const Thread&, const Step*, const NanPayload&, const Overflow&) const = 0;

  // -- ends of runs: why one cannot go on, or must not; `token` replays the schedule --
  [[noreturn]] virtual void deadlock(
      Execution&, const std::string& token) const = 0;  // PS-DEAD-001: threads wait, nothing else can happen
  [[noreturn]] virtual void waiting_programs(
      Execution&, const Thread&,
      const std::string& token) const = 0;  // PS-LIVE-003: for a value that nobody writes
  [[noreturn]] virtual void polling_threads(
      Execution&, const Thread&,
      const std::string& token) const = 0;  // PS-LIVE-001: for a signal that nobody sends
  [[noreturn]] virtual void no_progress(Execution&, const Thread&, int64_t idle_steps,
                                        const std::string& token) const = 0;  // PS-LIVE-001
  [[noreturn]] virtual void step_limit(Execution&, const Thread&, int64_t most,
                                       const std::string& token) const = 0;                              // PS-LIVE-002
  [[noreturn]] virtual void interrupted(Execution&, const Thread&, const std::string& token) const = 0;  // PS-INT-001
  [[noreturn]] virtual void restored_differs(const Execution&, int64_t step,
                                             const std::string& what) const = 0;  // PS-BUG-003
  // PS-BUG-004: `byte` of a buffer of the thread.
  [[noreturn]] virtual void footprint_differs(const Thread&, const Step*, const std::string& what,
                                              int64_t byte) const = 0;
  [[noreturn]] virtual void too_many_programs(const Execution&,
                                              int64_t bytes_each) const = 0;  // PS-SIZE-001: Options::max_memory
};
// Of the thread's launch.
inline const Diagnostics& diagnose(const Thread& t) { return *t.exec->diagnostics; }

}  // namespace pallasim::interp::ops
