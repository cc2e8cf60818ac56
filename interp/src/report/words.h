// What bodies and the engine find, in words: stops.cc, semaphores.cc, barriers.cc, peers.cc, nans.cc, deadlock.cc,
// waiting.cc.
#pragma once
#include "../ops/findings.h"

namespace pallasim::interp {

class Words final : public ops::Diagnostics {
 public:
  static const Words& all();

  [[noreturn]] void out_of_bounds(const Thread&, const Step*, const IndexTerm&, int64_t index, const std::string& ref,
                                  const std::vector<int64_t>& shape, const char* access,
                                  const GatherDim* block) const override;
  void note_box_outside(const Thread&, const Step*, const IndexTerm&, int64_t start, const std::string& ref,
                        const std::vector<int64_t>& shape) const override;
  void broken_promise(const Thread&, const Step*, int64_t value, int64_t by) const override;
  void note_read_outside(const Thread&, const Step*, const IndexTerm&, int64_t index, const std::string& ref,
                         const std::vector<int64_t>& shape) const override;
  void note_out_of_bounds(const Thread&, const Step*, const IndexTerm&, int64_t index, int64_t used,
                          const std::string& ref, const std::vector<int64_t>& shape) const override;
  [[noreturn]] void block_outside(const Thread&, const Step*, const Window&, size_t d, int64_t index) const override;
  void note_block_outside(const Thread&, const Step*, const Window&, size_t d, int64_t index) const override;
  [[noreturn]] void slice_outside(const Thread&, const Step*, const Window&, size_t d, int64_t start,
                                  int64_t size) const override;
  void revisited(const Thread&, const Step*, const Window&, const std::vector<int64_t>& block,
                 const std::vector<int64_t>& before) const override;
  [[noreturn]] void no_such_unit(const Thread&, const Step*, const char* what, const char* of, int32_t index,
                                 int32_t count) const override;
  [[noreturn]] void copy_shapes_differ(const Thread&, const Step*, const DmaPayload&, std::span<const int64_t> src,
                                       std::span<const int64_t> dst) const override;
  [[noreturn]] void wait_outside(const Thread&, const Step*, const DmaWaitPayload&, int64_t size, size_t d,
                                 int64_t most) const override;
  [[noreturn]] void wait_too_large(const Thread&, const Step*, const DmaWaitPayload&) const override;
  void left_over(Thread&, const Step*, int64_t semaphore) const override;
  void barrier_misused(Thread&, const Step*, const memory::BarrierFinding&) const override;
  void barrier_left_over(Thread&, const Step*, int64_t barrier) const override;
  [[noreturn]] void bytes_below_zero(const Thread&, const Step*, int64_t bytes) const override;
  void lost_cluster(Execution&, const ClusterClaim&) const override;
  void vain_request(const Thread&, const Step*) const override;
  [[noreturn]] void check_failed(const Thread&, const Step*, const std::string& message) const override;
  void at_breakpoint(const Thread&, const Step*, const HostCall&) const override;
  void not_finite(const Thread&, const Step*, const NanPayload&, const ops::NonFinite&) const override;
  void overflowed(const Thread&, const Step*, const NanPayload&, const ops::Overflow&) const override;
  [[noreturn]] void deadlock(Execution&, const std::string& token) const override;
  [[noreturn]] void waiting_programs(Execution&, const Thread&, const std::string& token) const override;
  [[noreturn]] void polling_threads(Execution&, const Thread&, const std::string& token) const override;
  [[noreturn]] void no_progress(Execution&, const Thread&, int64_t idle_steps, const std::string& token) const override;
  [[noreturn]] void step_limit(Execution&, const Thread&, int64_t most, const std::string& token) const override;
  [[noreturn]] void interrupted(Execution&, const Thread&, const std::string& token) const override;
  [[noreturn]] void restored_differs(const Execution&, int64_t step, const std::string& what) const override;
  [[noreturn]] void footprint_differs(const Thread&, const Step*, const std::string& what, int64_t byte) const override;
  [[noreturn]] void too_many_programs(const Execution&, int64_t bytes_each) const override;
};

}  // namespace pallasim::interp
