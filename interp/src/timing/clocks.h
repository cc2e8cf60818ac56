// Virtual time of a launch: a clock per thread, units that are busy, transfers that are under way. It hears of what
// happens as Events do, and is asked when what comes next does.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../ops/events.h"
#include "../ops/execution.h"
#include "atomics.h"
#include "folds.h"
#include "packed.h"
#include "pallasim/hw/timing.h"
#include "pallasim/interp/timeline.h"
#include "picture.h"
#include "step_costs.h"

namespace pallasim::interp {

// What a second of the critical path was spent on: the units of a core, then these, then the resources of Transfers.
struct Causes {
  static constexpr int kLatency = hw::kUnits, kSync = kLatency + 1, kStep = kSync + 1, kLaunch = kStep + 1,
                       kResources = kLaunch + 1;
};

// Seconds by cause and by line on the way to a moment. One array, as whoever waits for something takes over its path.
class Path {
 public:
  Path() = default;
  Path(size_t causes, size_t lines) : causes_(causes), seconds_(causes + lines) {}
  void add(int cause, int line, double seconds) {
    seconds_[static_cast<size_t>(cause)] += seconds;
    seconds_[causes_ + static_cast<size_t>(line)] += seconds;
  }
  double cause(size_t i) const { return seconds_[i]; }
  double line(size_t i) const { return seconds_[causes_ + i]; }

 private:
  size_t causes_ = 0;
  std::vector<double> seconds_;
};

// Figures that clocks ask for again and again.
// clang-format off
#define PALLASIM_RATES(X)                                                                                      \
  X(atomic_latency) X(barrier_issue) X(barrier_latency) X(block_launch_rate) X(block_start) X(clock)           \
  X(dma_issue) X(dma_latency) X(hbm_bandwidth) X(hbm_read_bandwidth) X(hbm_write_bandwidth) X(ici_latency)     \
  X(kernel_end) X(kernel_time) X(l2_bytes) X(l2_load_bandwidth) X(l2_own_bandwidth) X(l2_read_bandwidth)       \
  X(l2_write_bandwidth) X(line_bytes) X(load_hbm_latency) X(load_latency) X(memory_line_bytes)                 \
  X(nvlink_latency) X(part_line_bytes) X(semaphore_latency) X(smem_read_rate) X(step_cycles) X(step_time)      \
  X(store_latency) X(tma_hbm_latency) X(tma_issue) X(tma_latency) X(tma_row_time) X(tma_sm_bandwidth)          \
  X(tmem_rate) X(wgmma_drain) X(wgmma_issue) X(wgmma_smem_rate)
// clang-format on
enum class Rate : uint8_t {
#define X(name) name,
  PALLASIM_RATES(X)
#undef X
};

struct ClockSettings {
  const hw::TimingFigures* figures;
  const hw::Profile* chip;
  double cores = 1;        // SMs, or TensorCores of a device, that take programs
  double per_core = 1;     // programs of an SM at a time
  int64_t programs = 0;    // of the whole launch; 0: no programs
  double lanes = 128;      // of a program
  int stages = 1;          // of loads in loops that Triton's compiler pipelines
  bool warm = true;        // what fits in a cache lies there, as when a launch is repeated
  Folds* folds = nullptr;  // null: all trips are run
  FoldedAxes axes = {};    // of the grid
  double filled = 0;       // of the device's SMs, those that have programs, at most 1
  double share = 1;        // of what SMs share, what those have that run
  Timeline* timeline = nullptr;
};

// Whether the launch before this one, if it was the same, left the arrays in a GPU's cache.
bool stays_in_cache(const Plan&, const hw::TimingFigures&);

class Clocks : public Events {
 public:
  int64_t core_of(const Thread&) const;  // of the launch: an SM, a TensorCore
  Clocks(Execution&, const StepCosts&, const ClockSettings&);

  // -- Events --
  void issued(const Thread&, const Step&, const memory::AsyncOperation&) override;
  void sync(const SyncEvent&) override;
  void thread(ThreadEvent::What, int32_t) override;
  void point(const Thread&) override;
  void completed(const memory::AsyncOperation&) override;
  void memory(const MemoryEvent&) override;

  // -- for the run loop --
  double at(int32_t thread) const { return clocks_[static_cast<size_t>(thread)].at; }
  void begin(int32_t thread, double earliest);
  // Whether the step needs a value that is still on its way; the thread then comes back when it is there.
  bool must_wait(Thread&, const Step&);
  void ran(Thread&, const Step&);  // charges it
  void runs(int32_t thread) {
    now_ = at(thread);
    source_ = thread;
  }
  double next() { return transfers_.next(); }
  // The next event of transfers and products. Operations that end by it are given by id, threads that it makes ready
  // too.
  struct Ended {
    std::vector<int64_t> operations;
    std::vector<int32_t> threads;
  };
  void step(Ended*);
  void program_ended(const Thread&);  // its last thread was this one, if it has ended
  void polled(int32_t thread);        // it looked in vain

  // -- what came of it --
  double end() const { return end_; }
  void end_picture() {
    if (picture_) picture_->ends(end_);
  }
  const Path& path() const { return path_; }
  const std::array<double, hw::kUnits>& busy() const { return busy_; }
  const hw::Transfers& transfers() const { return transfers_; }
  double flops() const { return flops_; }
  double bytes(bool written) const { return bytes_[written]; }
  double fast_bytes() const { return fast_bytes_; }  // that a cache had
  struct Wait {
    double seconds = 0, longest = 0;
    int64_t count = 0;
    int cause = Causes::kSync;
  };
  const std::map<std::pair<int32_t, int>, Wait>& waits() const { return waits_; }  // by step and cause
  std::vector<std::string> cause_names() const;
  std::vector<double> program_ends;  // in order
  double line_busy(size_t line) const { return line_busy_[line]; }

 private:
  struct Pending {
    const ir::Op* op;
    ir::ValueId value;
    int64_t tag;
  };
  struct Clock {
    double at = 0, blocked = 0;
    int32_t blocked_step = -1;
    Packed packed;
    Path path;
    std::vector<Pending> loads;                                     // whose values nobody used yet
    int32_t fetched = -1;                                           // the step whose loads began before it could run
    int64_t waits_for = -1;                                         // a tag
    std::unordered_map<const ir::Op*, std::vector<int64_t>> ahead;  // transfers of loads that come later in their loop
    struct Trips {
      int64_t all = 0, now = 0;  // how many, and which one it is
      Folds::Left left = {};
      struct Load {
        const StepLoad* load;
        uint64_t box;  // what it read last
      };
      std::vector<Load> loads = {};                  // that its compiler fetches ahead
      std::vector<int64_t> carried = {}, step = {};  // numbers that it carries, and what the last trip added
      std::vector<bool> steady = {};                 // each trip added the same
    };
    std::unordered_map<const ir::Op*, Trips> trips;  // of its loops
    // For how many trips one of those that are run stands: of the innermost loop, and of the one around it.
    double inner = 1, outer = 1;
    Folds::Left axes[2] = {};  // of the grid: the inner one, the outer one
  };
  struct Flight {
    int64_t operation = -1;  // id; -1: a load or store of a thread
    int32_t thread = -1;
    int line = 0;
    int cause = Causes::kLatency;
    double issued = 0, end = -1, latency = 0;
    bool asks = false;  // for the answer some thread waits
    Path path;
    int operand = -1;  // of a load or store, for pictures
    double bytes = 0;
    bool writes = false;
  };

  double rate(Rate r) {
    double& v = rates_[static_cast<size_t>(r)];
    return v >= 0 ? v : v = f_(kRateNames[static_cast<size_t>(r)]);
  }
  static const char* const kRateNames[];
  Clock& of(int32_t thread) { return clocks_[static_cast<size_t>(thread)]; }
  std::vector<int64_t> point_of(const Thread&) const;
  int64_t new_flight(Flight);
  void start(const Thread&, const Step&, const memory::AsyncOperation&);
  // Between a device's memory and a core: what the cache and the core's port are busy with is given in bytes, too.
  struct Far {
    int64_t core, device;
    double bytes, memory_bytes, cache_bytes, port_bytes;  // what is moved, and what it takes of each
    bool writes, misses;
    double latency, there = 0;
  };
  double from_memory(double now, int64_t device, double bytes);
  void far_transfer(int64_t flight, double now, const Far&);
  double issue_share(const Thread&) const;
  double throttled(const hw::Server&, double now) const;  // how much longer a product takes
  void advance(Clock&, int cause, int line, double seconds);
  void follow(const Thread&, Clock&, const hw::Work&, int line, int32_t step);
  void charge(const Thread&, Clock&, const hw::Work&, int line, int32_t step);
  void pack(const Thread&, Clock&, const hw::Work&, int line, int32_t step);
  void atomic(Thread&, Clock&, const Step&, int line);
  void next_loads(const Thread&, Clock&, const Clock::Trips&, int line);
  void load(Thread&, const Step&, Clock&, const StepLoad&, int line);
  int64_t start_load(const Thread&, Clock&, const StepLoad&, int line, uint64_t box);
  uint64_t box_of(Thread&, const Step&, const StepLoad&);  // what it reads; 0: nobody knows, or asks
  bool is_far(const memory::Place&) const;                 // in a device's memory
  int64_t device_of(const memory::Place&) const;
  bool in_tensor_memory(const memory::Place&) const;
  double multiply(const Thread&, const Step&, const memory::AsyncOperation&);
  const hw::Work& product_work(const memory::AsyncOperation&);
  void take_port(int64_t core, double now, double bytes);  // of its shared memory
  void move(const Thread&, const memory::AsyncOperation&, int64_t flight);
  void move_whole_arrays(const Thread&, Clock&, bool outputs);
  void count(int32_t step, int cause, double seconds);
  void begin_picture();
  void show_wait(int32_t thread, double until, int cause);
  int32_t step_word(int32_t step);
  void show_unit(const Thread&, int32_t step, hw::Unit, double begin, double end, int line);
  ir::LocId loc_of(int line) const { return costs_.lines()[static_cast<size_t>(line)]; }
  struct Source {
    bool memory;     // the device's, else its cache
    double latency;  // s
    double there;    // from when on it has the bytes
  };
  Source source_of(const Clock&, int64_t device, const StepLoad&, uint64_t box);
  void begin_loop(const Thread&, const Step&, const ir::Op* loop);
  void next_trip(Thread&, const Step&, const ir::Op* loop);
  void count_trip(Thread&, const Step&, const ir::Op* loop);
  void leave_out(Clock&, const ir::Op* loop, int64_t trips);
  void leave_out_points(Thread&, bool inner, int axis);
  void watch_carried(const Thread&, const ir::Op* loop, Clock::Trips*) const;
  void move_carried(Thread&, const ir::Op* loop, const Clock::Trips&);
  static void end_loop(Clock&, const Folds::Left&);
  static bool unrolled(const Clock&, const StepCost&);
  void wake(int32_t thread, double time, const Path&, int cause);

  Execution& ex_;
  const StepCosts& costs_;
  ClockSettings settings_;
  const hw::TimingFigures& f_;
  std::vector<int> programs_on_;  // by core, now: where they are in step
  bool gpu_, held_ = false;       // the arrays of the launch lie in the cache
  // Programs of Triton begin together, and an SM's units divide their time fairly among all that ask: so they stay in
  // step, each asks for what the others ask for, and no unit works while another one does.
  bool in_step_ = false;
  std::unordered_map<const ir::Op*, bool> stays_;  // a load of a loop that reads the same in each trip
  double power_ = 0;  // of tensor cores that never rest: how much longer products take, as their power lowers the clock
  double warp_issue_ = 1;                           // what one needs to issue of what a warpgroup needs
  std::vector<double> rates_;                       // by Rate; negative: nobody asked
  std::vector<int> resource_causes_;                // by resource of transfers_
  std::vector<std::string> resource_names_;         // of causes
  std::unordered_map<int32_t, hw::Work> products_;  // by step
  std::vector<Clock> clocks_;
  hw::Transfers transfers_;
  std::vector<std::array<hw::Server, hw::kUnits>> cores_;
  std::vector<int> ports_;            // resource by core
  std::vector<int> hbm_, l2_, link_;  // by device
  std::vector<hw::BoxCache> caches_;
  std::vector<AtomicUnits> atomics_;                                       // by device
  std::unordered_map<int64_t, Flight> flights_;                            // by tag
  std::unordered_map<int64_t, int64_t> by_operation_;                      // tag of an operation in flight
  std::map<std::pair<int64_t, int64_t>, std::pair<double, Path>> groups_;  // ends of products, by stream and group
  std::map<int64_t, int64_t> last_group_;
  int64_t next_tag_ = 0;
  double now_ = 0, end_ = 0;
  int32_t source_ = -1;                // thread that runs
  const Path* source_path_ = nullptr;  // of an operation that ended
  int source_cause_ = Causes::kSync;
  Path told_path_, path_;
  std::array<double, hw::kUnits> busy_{};
  double flops_ = 0, bytes_[2] = {}, fast_bytes_ = 0;
  std::map<std::pair<int32_t, int>, Wait> waits_;
  std::vector<double> line_busy_;
  std::vector<bool> near_;      // by operand: in the SM's cache, once it was read
  std::vector<bool> own_;       // operands of which no two programs have the same block
  std::vector<double> missed_;  // bytes of each operand that came from the device's memory
  std::unordered_map<int64_t, double> stream_ends_;
  std::unique_ptr<Picture> picture_;  // null: nobody wants one
  std::vector<int32_t> wait_words_;   // of the picture, by cause
  std::vector<int32_t> step_words_;   // by step; -1: not shown yet
};

}  // namespace pallasim::interp
