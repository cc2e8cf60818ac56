// What happens in a launch, as events: for detectors, traces, debuggers, and whoever counts something. An observer says
// which events it wants; a launch without observers runs the same steps and makes none.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/memory/async.h"

namespace pallasim::interp {

// Numbers of threads, steps, semaphores and barriers are those of the launch; ask the functions below for
// what they stand for. `time` counts the steps of all threads so far.

// Before anything runs.
struct LaunchEvent {
  const Plan& plan;
  const ir::LocTable& locs;  // what lines are (ir::site_of); one plan serves texts whose tables differ
  std::span<const int64_t> grid;
  int32_t devices, threads;
};

// A thread begins, blocks (for `wait`), is woken, ends.
struct ThreadEvent {
  enum class What : uint8_t { Begins, Blocks, Wakes, Ends };
  What what;
  int32_t thread;
  int64_t time;
};

// A grid point begins.
struct PointEvent {
  int32_t thread, core;
  std::span<const int64_t> ids;
};

// The block that a thread sees of an operand from now on; `place` in elements, as index maps give it.
struct WindowEvent {
  int32_t thread;
  size_t operand;
  const int64_t* place;
};

// A step is about to run.
struct StepEvent {
  int32_t thread, step;
  int64_t time;
};

// Bytes that a step reads or writes: a box of elements. All of a step's come before it runs.
struct Access {
  int32_t thread;
  uint32_t buffer;
  bool write;
  int64_t offset;          // bytes from the buffer's base
  const int64_t* dims;     // elements
  const int64_t* strides;  // elements
  int rank;
  int element_bytes;
  int32_t step;
  int32_t owner = -1;      // the thread whose memory it is; -1: `thread`
  bool unwritten = false;  // a write of what nobody wrote: nothing of the access is traffic
  bool atomic = false;
  bool chosen = false;    // each element was asked for by itself: by a mask, an index of its own, a pointer
  bool internal = false;  // to what the compiler made: results of reductions, masks, index arrays, copies of blocks
  // Such boxes in as many places, by their offsets in the order of the accesses; null: the one at `offset`, which is
  // the first of several.
  const int64_t* places = nullptr;
  int64_t boxes = 1;
  // The line that asked for it: the step's, or that of a load whose value the step uses, or of a store of what it
  // makes.
  ir::LocId loc = -1;
};

// One element that a step reads or writes, beside which it touches nothing.
struct ElementAccess {
  int32_t thread, step;
  uint32_t buffer;
  bool write;
  int64_t offset;  // bytes from the buffer's base
  int element_bytes;
};

// An asynchronous operation is issued (its accesses come first), has moved its bytes, or has told those who wait.
struct OperationEvent {
  enum class What : uint8_t { Issued, Moved, Completed };
  What what;
  const memory::AsyncOperation& operation;
  int64_t time;
};

// Semaphores, barriers, streams, threads that spawn threads.
struct SyncEvent {
  enum class What : uint8_t {
    Signal,   // `object`: a semaphore, by `value`
    Taken,    // a wait took `value` of it
    Looked,   // somebody saw that it has `value`, and took nothing
    Arrive,   // at barrier `object`
    Phase,    // of barrier `object` ends; no thread
    Passed,   // the thread sees that phase `value` of the barrier has ended
    Commit,   // a group of stream `object` is closed
    Groups,   // all but `value` groups of stream `object` are awaited, up to number `last` (-1: none)
    Fence,    // of the asynchronous proxy
    Emptied,  // semaphore `object` holds nothing: the program that begins where its own ended knows it so
    Renewed,  // barrier `object` begins again at phase 0, for the same reason
    Spawn,    // `object`: the child
    Join,
    TripsBegin,  // of a loop whose trips have no order
    TripsNext,
    TripsEnd,
  };
  What what;
  int32_t thread = -1;
  int64_t object = -1, value = 0, last = -1;
  bool reads = false;  // Groups: of the reads alone
  int32_t step = -1;   // Signal, Taken, Looked of semaphores: that did so
};

// Memory of a thread's buffer: named and not yet written (Fresh), of a scope that begins or ends, or given to a program
// that begins.
struct MemoryEvent {
  enum class What : uint8_t { Fresh, Scope, Freed, Given };
  What what;
  int32_t thread;
  uint32_t buffer;
  int64_t offset, bytes;
  const std::string* name = nullptr;
};

class Observer {
 public:
  // Bits of wants().
  static constexpr uint32_t kLaunch = 1, kThread = 2, kPoint = 4, kWindow = 8, kStep = 16, kAccess = 32,
                            kOperation = 64, kSync = 128, kMemory = 256, kFinding = 512, kPrint = 1024, kAll = 2047;
  static constexpr uint32_t kInternal = 4096;  // accesses that are internal, too
  static constexpr uint32_t kTold = 2048;      // that all accesses of a step are told
  // Of steps those that touch memory, unless somebody knows() what they do, and others while all_steps() says so.
  static constexpr uint32_t kTouching = 8192;
  static constexpr uint32_t kPlaces = 16384;  // accesses to several places as one; else each place is one
  virtual ~Observer() = default;
  virtual uint32_t wants() const = 0;
  virtual bool wants_buffer(uint32_t) const { return true; }  // accesses to it; asked once
  virtual bool all_steps(int32_t /*thread*/) const { return false; }
  // Of the only observer that sees accesses to the buffer: whether it now has all that it wants of this one, by
  // nothing but the fact that it happens. Nobody is told of the step then.
  virtual bool knows(const ElementAccess&) { return false; }
  virtual void on_launch(const LaunchEvent&) {}
  virtual void on_thread(const ThreadEvent&) {}
  virtual void on_point(const PointEvent&) {}
  virtual void on_window(const WindowEvent&) {}
  virtual void on_step(const StepEvent&) {}
  virtual void on_access(const Access&) {}
  virtual void on_told(const StepEvent&) {}
  virtual void on_operation(const OperationEvent&) {}
  virtual void on_sync(const SyncEvent&) {}
  virtual void on_memory(const MemoryEvent&) {}
  virtual void on_finding(const ir::Diagnostic&) {}
  virtual void on_print(int32_t /*thread*/, const std::string&) {}
  // What it knows, as a value that a snapshot of the run keeps, and back to it. Who has none is told of what happens
  // behind a snapshot as often as it happens.
  virtual std::shared_ptr<const void> state() const { return nullptr; }
  virtual void restore(const std::shared_ptr<const void>&) {}
};

// -- what numbers stand for --
// What the kernel calls the memory at the place: an operand, an allocation; "" where it has no name.
std::string allocation_name(const Plan&, uint32_t buffer, int64_t offset);
uint32_t operand_buffer(size_t operand);
std::string_view step_kind(const Plan&, int32_t step);  // as docs/steps.md has it
ir::LocId step_line(const Plan&, int32_t step);         // of the last operation that the step stands for

}  // namespace pallasim::interp
