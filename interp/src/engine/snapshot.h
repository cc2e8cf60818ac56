// All that a run is at a moment: state, bytes of memory, what was said, and what observers know.
#pragma once
#include "memory_image.h"
#include "schedule.h"

namespace pallasim::interp {

struct Snapshot {
  State state;
  Log log;
  MemoryImage memory;
  ObserverStates observers;
};

// Moments of one execution, and back to them. `written` (may be null) is one of its observers: what it is told of need
// not be compared.
class Snapshots {
 public:
  explicit Snapshots(Execution& ex, WrittenPages* written = nullptr) : ex_(ex), memory_(ex, written) {}
  Snapshot take();
  // The execution is as it was then, and so are observers that have a state.
  void restore(const Snapshot&);
  // Whether memory is what the snapshot says, byte by byte.
  bool holds(const Snapshot& s) const { return memory_.holds(s.memory); }

 private:
  Execution& ex_;
  MemoryKeeper memory_;
};

// What differs between two moments of one execution, in a word; empty: nothing. Arenas of programs do not count: they
// end, and what lies where nobody wrote is whatever was there.
std::string difference(const Snapshot&, const Snapshot&);

// As run_threads, but every `every` steps the rest is run twice from a snapshot and must end alike. Throws PS-BUG-003.
std::string run_restoring(Execution&, const Options&, int64_t every, WrittenPages* written = nullptr);

}  // namespace pallasim::interp
