// Running a kernel: compile a module once, launch the plan many times.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/ir/module.h"
#include "pallasim/memory/async.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::hw {
struct MachineModel;
}

namespace pallasim::interp {

struct Options {
  enum class Policy : uint8_t { RunToBlock, Random, Replay };
  Policy policy = Policy::RunToBlock;
  uint64_t seed = 0;                         // Random
  std::string replay;                        // Replay: the token of a report
  int workers = 0;                           // threads for independent grid units; 0 = one per core
  const hw::Profile* chip = &hw::generic();  // of hw::profiles(): sizes and rules of the machine
  enum class Rules : uint8_t { Off, Warn, Error };
  Rules rules =
      Rules::Error;       // what the chip's compiler refuses: not looked at, findings, or an error before anything runs
  bool checked = false;   // shadow state and listeners
  bool fuse = true;       // same bytes either way
  int64_t max_steps = 0;  // stop after so many steps in all; 0 = no limit
  int64_t livelock_steps = 1'000'000'000;  // steps of all threads without progress (a store, a signal, an exit)
  // An access outside its ref: stops; does what the machine does; or gives what memory holds that nobody wrote (writes
  // stop; so do copies, but for those that read on a TPU).
  enum class Oob : uint8_t { Error, Machine, Uninitialized };
  Oob out_of_bounds = Oob::Error;
  // Who may name the padding of a TPU's tiles, where nothing is kept: copies, as on the machine; nobody; loads and
  // stores too.
  enum class Padding : uint8_t { Copies, Nobody, All };
  Padding padding = Padding::Copies;
  // How the windows of a grid's blocks come about. Elided: refs show the arrays, which is fast. Modelled: windows lie
  // in memory of their own, blocks are fetched while the step before runs and written back while the step after does. A
  // program without findings has the same bytes either way.
  enum class Pipeline : uint8_t { Elided, Modelled };
  Pipeline pipeline = Pipeline::Elided;
  bool revisit_is_error =
      false;  // a block of an output that a TPU's grid comes back to stops the run; otherwise checked runs note it
  // Whether the units of a grid that may be split over workers are independent of each other: they run one after
  // another in one thread, as if each had a worker of its own, and every access is compared. Stops with PS-BUG-002
  // where they are not.
  bool verify_split = false;
  // Whether snapshots are whole: every so many steps the rest of a run is run twice from one, and must end alike
  // (PS-BUG-003). 0: not looked at. Unchecked runs only; the grid runs in one piece.
  int64_t verify_restore = 0;
  int cores = 0;  // TensorCores that share a grid with a `parallel` axis; 0: those of the chip's device
  using Fill = memory::Fill;
  Fill uninitialized = Fill::Nan;  // what memory holds that nobody wrote
  using Copies = memory::CopyCompletion;
  Copies copies = Copies::AtIssue;  // when the bytes of asynchronous copies move
  // docs/numerics.md. Ieee: the type's rounding after every operation. Reference: the same from bodies that compute one
  // element at a time. Device: products of matrices as the machine's units form them. Oracle: floats in f64 between
  // loads and stores.
  enum class Numerics : uint8_t { Ieee, Reference, Device, Oracle };
  Numerics numerics = Numerics::Ieee;
  int64_t max_memory = 8LL << 30;  // bytes of arenas and scratch that one launch may take

  // Per grid axis a permutation of its coordinates, empty for ascending ones; no entry at all: every axis ascends. The
  // grid then runs in one piece, in the order of the permuted axes. Programs of a GPU have no order.
  std::vector<std::vector<int32_t>> grid_order;
  int64_t record_grid = 0;   // not 0: Report::points, and the grid runs in one piece; the number is the caller's
  int64_t record_calls = 0;  // not 0: Report::calls; the number is the caller's
  // Not null: the machine that the kernel runs on instead of the one that its module names. It outlives the plans. For
  // machines that no module can name.
  const hw::MachineModel* model = nullptr;

  bool operator==(const Options&) const = default;
};

// One array of the caller. Row-major, sub-byte types one element per byte. Semaphores: i32 handles of the session's
// table. Never owned.
struct Buffer {
  void* data = nullptr;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
};

// What a checked run did to one operand.
struct Traffic {
  std::string name;
  int64_t reads = 0, writes = 0;  // accesses
  int64_t bytes_read = 0, bytes_written = 0;
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
  std::vector<HostCall> calls;           // in grid order, where asked for
  std::string token;                     // replays this schedule
  int64_t steps = 0;                     // executed plan steps
  int64_t grid_points = 0;
  int threads = 1;                 // emulated threads
  int units = 1;                   // parts of the grid that ran independently of each other
  std::string sequential_because;  // why the grid was not split; empty where it could be
  std::vector<Traffic> traffic;    // per operand and scratch, checked runs only
  struct Point {
    std::vector<int64_t> ids;
    int core = 0;
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;  // in the order of their execution, where asked for
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

class Progress;  // progress.h
class Plan;      // immutable; may be launched from several OS threads at once

// Verifies and compiles. Throws DiagnosticError: unsupported operations are refused here, by name, before anything
// runs. Modules with shape parameters are specialised at the first launch of each size.
std::shared_ptr<const Plan> compile(ir::Module module, const Options& = {});
// The same through the process-wide cache, keyed by text and plan options.
std::shared_ptr<const Plan> compile_cached(std::string_view text, const Options& = {});

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
// arguments cause. `progress`, if any, says meanwhile how far it is.
Outcome try_launch(const Plan&, Session&, std::span<const DeviceCall> devices, const Options& = {},
                   Progress* progress = nullptr);
// The same for callers who want no report of a run that stopped: throws DiagnosticError.
Report launch(const Plan&, Session&, std::span<const DeviceCall> devices, const Options& = {});
inline Report launch(const Plan& p, Session& s, std::span<const Buffer> args, std::span<const Buffer> results,
                     const Options& o = {}) {
  const DeviceCall one{0, args, results, 0};
  return launch(p, s, std::span(&one, 1), o);
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

}  // namespace pallasim::interp
