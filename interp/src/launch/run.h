// One execution runs a launch, or a part of it.
#pragma once
#include <memory>

#include "../engine/engine.h"
#include "session.h"

namespace pallasim::interp {

class WrittenPages;  // written_pages.h

// An execution for one run.
class Lease {
 public:
  explicit Lease(const Plan&);
  ~Lease();
  Execution& operator*() { return *exec_; }
  Execution* operator->() { return exec_.get(); }

 private:
  std::unique_ptr<Execution> exec_;
};

// Binds, and stands where the run begins; and what is left to do behind its end. Between the two, turns are given.
void begin_part(Execution&, const Call&, const Population& who, const GridBox& box);
void end_part(Execution&, const Call&);

// Binds and runs: the programs of `who`, or where it has none, `box` of the grid. Returns the schedule token. Throws
// DiagnosticError, and what observers throw.
// `written` (may be null): one of the execution's observers, for Options::verify_restore. `guide`: who chooses turns.
std::string run_part(Execution&, const Call&, const Population& who, const GridBox& box,
                     WrittenPages* written = nullptr, const Guide& guide = {});

}  // namespace pallasim::interp
