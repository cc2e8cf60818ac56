// How a run ends.
#pragma once
#include "pallasim/ir/diagnostic.h"

namespace pallasim::capsule {

// What a shell sees; docs/cli.md and --help list them.
enum ExitCode : int {
  kOk = 0,
  kFinding = 1,      // the kernel is wrong
  kUsage = 2,        // the command line is wrong
  kBadInput = 3,     // a file, the IR or an array is wrong
  kUnsupported = 4,  // an operation that this version cannot run
  kInternal = 70,    // Pallasim is wrong
  kInterrupted = 130
};
int exit_code_of(const ir::Diagnostic&);

}  // namespace pallasim::capsule
