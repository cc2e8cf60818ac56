// Running a kernel: compile a module once, launch the plan many times.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pallasim/interp/options.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {

// One array of the caller. Row-major, sub-byte types one element per byte. Semaphores: i32 handles of the session's
// table. Never owned.
struct Buffer {
  void* data = nullptr;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
};

// What a checked run did to one operand: accesses of the kernel where it sees it, and of an operand that is given block
// by block in a memory of its core, the blocks that a pipeline moves from and to the device's memory. Grid points that
// follow each other with the same block share it.
struct Traffic {
  std::string name;
  std::string space;              // where the kernel sees it, as the IR names spaces
  int64_t reads = 0, writes = 0;  // accesses
  int64_t bytes_read = 0, bytes_written = 0;
  int64_t fetches = 0, write_backs = 0;  // blocks
  int64_t bytes_fetched = 0, bytes_written_back = 0;
};

// What a debug_callback was given.
struct HostCall {
  struct Array {
    ir::DType dtype;
    std::vector<int64_t> dims;
    std::vector<std::byte> bytes;  // row-major
  };
  int64_t callback = 0;  // attribute `index` of the operation
  std::vector<Array> arguments;
};

struct Report {
  std::vector<ir::Diagnostic> findings;  // warnings and notes of a run that ended; errors are thrown
  std::vector<std::string> prints;       // debug_print lines in grid order
  std::string token;                     // replays this schedule
  int64_t steps = 0;                     // executed plan steps
  int64_t grid_points = 0;
  int threads = 1;                 // emulated threads
  int units = 1;                   // parts of the grid that ran independently of each other
  std::string sequential_because;  // why the grid was not split; empty where it could be
  std::vector<Traffic> traffic;    // per operand and scratch, checked runs only
  // Of results, device by device: which elements are undefined; of none: empty. Checked runs only.
  std::vector<std::vector<bool>> undefined;
};

// A grid point that was entered, and the core that ran it.
struct GridPoint {
  std::vector<int64_t> ids;
  int core = 0;
  bool operator==(const GridPoint&) const = default;
};

// Who keeps more of a launch than its report does: says what, and holds it when the launch has ended. For one launch.
struct Recorder {
  bool keep_points = false, keep_calls = false;
  std::vector<GridPoint> points;  // in the order of their execution; the grid then runs in one piece
  std::vector<HostCall> calls;    // in grid order
};

// Somebody at the breakpoints of a kernel, which are debug_callbacks; the grid then runs in one piece.
class Breakpoints {
 public:
  virtual ~Breakpoints() = default;
  virtual bool has(int64_t callback) const = 0;  // HostCall::callback; others are recorded
  // The launch waits. `where`: kernel, line, thread and grid point. Returns why it is to end here; "": it goes on.
  virtual std::string stop(const HostCall&, const ir::Diagnostic& where) = 0;
};

class Observer;  // observer.h
class Progress;  // progress.h
// Who goes along with one launch, to its end. Each may be null.
struct Watch {
  Recorder* recorder = nullptr;
  Progress* progress = nullptr;  // says meanwhile how far it is
  Breakpoints* breakpoints = nullptr;
  std::span<Observer* const> observers = {};  // of the events that each wants; the grid then runs in one piece
};

// What outlives a launch: semaphores that live outside kernels. One per process and device set.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

class Plan;  // immutable; may be launched from several OS threads at once

// Verifies and compiles. Throws DiagnosticError: unsupported operations are refused here, by name, before anything
// runs. Modules with shape parameters are specialised at the first launch of each size.
std::shared_ptr<const Plan> compile(ir::Module module, const PlanOptions& = {});
// A plan, and the lines that reports of its launches name. Texts that differ in their tables of locations alone share
// one plan: a kernel that moved is not compiled anew.
struct CachedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const ir::LocTable> locs;  // of the text that asked for it
};
// The same through the process-wide cache, keyed by text and plan options.
CachedPlan compile_cached(std::string_view text, const PlanOptions& = {});

// The arrays of one device. `args`: dynamic grid bounds, prefetch, inputs. `results`: outputs, uninitialised unless an
// aliased output's buffer is its input's (same data pointer), which is how in-place calls arrive; an aliased output
// with a pointer of its own is first filled with the input.
struct DeviceCall {
  int32_t device = 0;  // its number among the devices around the kernel, the last axis fastest
  std::span<const Buffer> args, results;
  int64_t run =
      0;  // of the program that launches: what lies in the memory of its cores stays there for its later launches
};
// How many devices one launch runs: those around the kernel where they reach into each other, else 1.
int devices_of(const Plan&);
// What a launch saw, to its end or to where it stopped; buffers then hold a partial result.
struct Outcome {
  Report report;                       // prints, findings and traffic before the stop, too
  std::optional<ir::Diagnostic> stop;  // the error of the first grid point that has one
};
// `devices`: as many as devices_of says, by number; where that is one, any one. Throws nothing that a kernel or its
// arguments cause.
Outcome try_launch(const Plan&, Session&, std::span<const DeviceCall> devices, const Options& = {}, Watch = {});
Outcome try_launch(const CachedPlan&, Session&, std::span<const DeviceCall> devices, const Options& = {}, Watch = {});
// The same for callers who want no report of a run that stopped: throws DiagnosticError.
Report launch(const Plan&, Session&, std::span<const DeviceCall> devices, const Options& = {}, Watch = {});
Report launch(const CachedPlan&, Session&, std::span<const DeviceCall> devices, const Options& = {}, Watch = {});
template <typename AnyPlan>  // a Plan, or a CachedPlan
Report launch(const AnyPlan& p, Session& s, std::span<const Buffer> args, std::span<const Buffer> results,
              const Options& o = {}, Watch watch = {}) {
  const DeviceCall one{0, args, results, 0};
  return launch(p, s, std::span(&one, 1), o, watch);
}

// Ctrl-C: all launches that run now stop at their next step with PS-INT-001; those that begin later do not notice.
// Async-signal-safe.
void request_interrupt();
// How many requests there were; who waits for a launch to come about compares it.
uint64_t interrupt_epoch();

const ir::Module& module_of(const Plan&);
// Outputs' types, for callers that allocate them.
std::vector<const ir::Type*> result_types(const Plan&);
// The steps as text, for tests and `pallasim info --plan`.
std::string dump(const Plan&);
std::string dump(const CachedPlan&);

}  // namespace pallasim::interp
