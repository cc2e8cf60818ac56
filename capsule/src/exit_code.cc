#include "pallasim/capsule/exit_code.h"

namespace pallasim::capsule {

int exit_code_of(const ir::Diagnostic& d) {
  if (d.severity != ir::Severity::Error) return kOk;
  switch (d.code.blame()) {
    case ir::Blame::Kernel:
    case ir::Blame::Chip: return kFinding;
    case ir::Blame::Input: return kBadInput;
    case ir::Blame::CommandLine: return kUsage;
    case ir::Blame::Unsupported: return kUnsupported;
    case ir::Blame::Interrupt: return kInterrupted;
    case ir::Blame::Pallasim: break;
  }
  return kInternal;
}

}  // namespace pallasim::capsule
