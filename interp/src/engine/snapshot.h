// All that a run is at a moment: state, bytes of memory, what was said, and what observers know.
#pragma once
#include <span>

#include "schedule.h"

namespace pallasim::interp {

struct Snapshot {
  State state;
  Log log;
  std::vector<Bytes> arenas, shared;
  std::vector<std::vector<std::byte>> operands;  // device by device
  ObserverStates observers;
};

// `operand_bytes`: of each operand of a device.
Snapshot take_snapshot(const Execution&, std::span<const int64_t> operand_bytes);
// The execution that it was taken of is as it was then, and so are observers that have a state.
void restore(const Snapshot&, Execution&, std::span<const int64_t> operand_bytes);
// What differs between two moments of one execution, in a word; empty: nothing. Arenas of programs do not count: they
// end, and what lies where nobody wrote is whatever was there.
std::string difference(const Snapshot&, const Snapshot&);

// As run_threads, but every `every` steps the rest is run twice from a snapshot and must end alike. Throws PS-BUG-003.
std::string run_restoring(Execution&, const Options&, int64_t every);

}  // namespace pallasim::interp
