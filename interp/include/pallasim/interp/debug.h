// A debugger for one launch: stops at lines, looks into every memory, and goes back in time.
#pragma once
#include <functional>

#include "pallasim/interp/launch.h"

namespace pallasim::interp {

// What a person asked for that cannot be: an expression, a line, a name. Says what and why, in a sentence.
class DebugError : public std::exception {
 public:
  explicit DebugError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// A value, as it is now.
struct DebugValue {
  std::string name;  // "x", "acc_ref", "%7"; empty for a result of arithmetic
  std::string note;  // what else there is to say: "vmem", "a constant"
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;  // row-major; none where it cannot be looked at
  // By element: nobody wrote it (checked runs), or it lies outside of its array. Empty: none is.
  std::vector<bool> undefined, outside;
  bool is_ref = false;
};

// One of the functions around the place where a thread stands, the innermost first.
struct DebugFrame {
  std::string function;
  ir::SourceLine line;
  bool done = false;  // its last line has run: the kernel's end
};

struct DebugThread {
  int32_t number = 0;
  std::string name;   // as reports name it; empty for the only one
  std::string state;  // "stands here", "is ready", "waits for go to reach 1, it is 0", "has ended"
  bool live = true;   // it began and has not ended
  ir::SourceLine line;
  std::vector<int64_t> point;
};

struct DebugObject {  // a semaphore or a barrier
  std::string name, state;
  bool idle = false;  // as at the start
};

struct DebugAllocation {
  std::string space, name, type, owner;
  int64_t bytes = 0, count = 1;  // of one, and how many owners have it
};

struct DebugStop {
  enum class Why : uint8_t { Start, Step, Breakpoint, Watchpoint, LastWrite, Finding, Error, End, Interrupt };
  Why why = Why::Start;
  int number = 0;    // of the breakpoint or watchpoint
  std::string text;  // what there is to say: "o_ref[0]: 0 -> 1.5, written at k.py:7"
  std::optional<ir::Diagnostic> found;
};

struct DebugBreakpoint {
  int number = 0;
  bool watch = false;
  std::string text;  // "k.py:12 if i == 3", "watch o_ref[0, 0]"
  std::string file;
  int line = 0;  // where it stops: the line, or the next one that has operations
  int64_t hits = 0;
};

class Debugger {
 public:
  static constexpr int64_t kSnapshotBytes = 224LL << 20;  // of snapshots, beside the first one
  // The arrays are the run's: outputs hold what it has written so far. They and what else is given here outlive it.
  // It stands at the kernel's first line then. Throws DiagnosticError for what cannot be launched.
  Debugger(ir::Module, std::span<const DeviceCall> devices, const Options&, int64_t snapshot_bytes = kSnapshotBytes);
  ~Debugger();
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  // -- going on and back; each returns why it stopped --
  enum class How : uint8_t {
    Operation,  // the next one, whatever line it is of
    Into,       // the next line, of whatever function or region
    Over,       // the next line of this one or of those around it
    Out,        // the line behind this function or region
  };
  DebugStop step(How);
  DebugStop step_back(How);
  DebugStop go_on();
  DebugStop go_back();  // to where a breakpoint would have stopped, or to the start
  DebugStop last_write(const std::string& element);
  DebugStop restart();
  DebugStop finish();  // to the end, whatever there is on the way
  // Stops a run at its next operation. Async-signal-safe.
  void interrupt();
  bool at_end() const;                                 // the launch is over: it came to its end, or stopped at an error
  const std::optional<ir::Diagnostic>& error() const;  // that it stopped at
  int64_t moment() const;                              // operations that began so far
  const Report& report() const;                        // of a launch that is over
  std::vector<ir::Diagnostic> findings() const;
  std::vector<std::string> prints() const;  // so far

  // -- where to stop --
  // A file by its name or the end of its path; empty: the kernel's. Throws DebugError.
  DebugBreakpoint break_at(const std::string& file, int line, const std::string& condition = "");
  enum class Watch : uint8_t { Write, Read, Access, Nan, Undefined };
  DebugBreakpoint watch(const std::string& elements, Watch, const std::string& condition = "");
  bool remove(int number);
  const std::vector<DebugBreakpoint>& breakpoints() const;
  // Codes of findings, or their beginnings, that are stopped at; "" is all. Errors end a run and are stopped at anyway.
  void stop_on(std::vector<std::string> codes);

  // -- who --
  int32_t thread() const;       // that is looked at
  void choose_thread(int32_t);  // throws DebugError
  std::vector<DebugThread> threads() const;
  std::vector<DebugFrame> frames() const;  // of the chosen thread
  size_t frame() const;
  void choose_frame(size_t);  // throws DebugError

  // -- what --
  // Names in this frame; refs are those of the kernel. Values come without bytes: evaluate has them.
  std::vector<DebugValue> locals() const;
  std::vector<DebugValue> refs() const;
  // Names, numbers, slices, arithmetic, comparisons, and functions (docs/debugger.md). Throws DebugError.
  DebugValue evaluate(const std::string& expression) const;
  std::vector<DebugObject> objects() const;
  std::vector<std::string> in_flight() const;
  std::vector<DebugAllocation> memory() const;
  std::vector<int64_t> grid() const;
  const std::string& kernel() const;
  // Lines of the kernel that are known, by file and number.
  std::vector<ir::SourceLine> lines() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pallasim::interp
