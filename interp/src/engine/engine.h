// The engine: whose turn it is, and when a run is over.
#pragma once
#include <string>

#include "../ops/execution.h"
#include "pallasim/interp/policy.h"

namespace pallasim::interp {

class Touches;  // touches.h

// Who chooses turns instead of what the options say. Each may be null.
struct Guide {
  Policy* policy = nullptr;
  bool exact = true;  // threads that cannot go on are known as such (PolicyRow)
  Options::Copies copies = Options::Copies::Scheduled;
  Touches* touches = nullptr;             // one of the execution's observers
  std::vector<Choice>* record = nullptr;  // takes the choices
  std::string token = {};                 // that reports name
  // What became of the run, where somebody asks.
  struct End {
    bool abandoned = false;  // the policy gave it up
    bool over = false;       // it had no schedule left
  };
  End* end = nullptr;
};

// Runs all threads of `exec` to their end, as the guide says, or where it has no policy, the options. Returns the
// schedule token.
std::string run_threads(Execution& exec, const RunOptions& options, const Guide& = {});

// Runs `thread` for at most `budget` steps.
Stop run(Execution&, Thread& thread, int64_t budget);

}  // namespace pallasim::interp
