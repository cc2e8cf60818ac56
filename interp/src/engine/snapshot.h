// All that a run is at a moment, as bytes: threads with their arenas, memory, semaphores, copies in flight, what was
// printed and found, what observers know, and whose turn comes next.
#pragma once
#include <span>

#include "schedule.h"

namespace pallasim::interp {

struct Snapshot {
  std::vector<Bytes> arenas, shared;
  std::vector<std::vector<BufferAlias>> aliases;  // of each arena
  std::vector<std::vector<std::byte>> operands;   // device by device
  std::vector<Thread> threads;
  memory::Semaphores semaphores;
  memory::Barriers barriers;
  memory::Streams streams;
  size_t barriers_told = 0;
  memory::CopyQueue copies;
  int64_t copies_issued = 0;
  std::vector<int64_t> begun;
  std::vector<int32_t> woken, free_arenas;
  std::vector<Print> prints;
  std::vector<ir::Diagnostic> findings;
  std::vector<Execution::DeferredInit> deferred_init;
  std::vector<ElidedCopies> elided;
  std::map<const Step*, size_t> noted;
  std::map<std::pair<int32_t, int>, Execution::Visits> visits;
  int64_t steps = 0, spins = 0, points = 0, next_point = 0;
  bool progressed = false;
  ObserverStates observers;
  Scheduler::State turn;
};

// `operand_bytes`: of each operand of a device.
Snapshot take_snapshot(const Execution&, const Scheduler&, std::span<const int64_t> operand_bytes);
// The execution that it was taken of is as it was then, and so are observers that have a state.
void restore(const Snapshot&, Execution&, Scheduler&, std::span<const int64_t> operand_bytes);
// What differs between two moments of one execution, in a word; empty: nothing. Arenas of ended programs do not count.
std::string difference(const Snapshot&, const Snapshot&);

// As run_threads, but every `every` steps the rest is run twice from a snapshot and must end alike. Throws PS-BUG-003.
std::string run_restoring(Execution&, const Options&, int64_t every);

}  // namespace pallasim::interp
