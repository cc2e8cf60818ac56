// What a debugger runs: a kernel of a file, or a launch of a capsule, with its arrays.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "pallasim/interp/debug.h"

namespace pallasim::cli {

class DebugTarget {
 public:
  explicit DebugTarget(const RunOptions&);  // throws DiagnosticError
  // Stands at the kernel's first line.
  std::unique_ptr<interp::Debugger> start() const;
  const std::vector<std::vector<Argument>>& results() const { return results_; }

 private:
  void of_text(const RunOptions&, const std::string& text);
  void of_capsule(const RunOptions&, const std::string& bytes);
  void take(Launch);
  std::string text_, file_;  // of the kernel
  interp::Options options_;
  mutable std::vector<std::vector<Argument>> args_, results_;  // by device
  std::vector<int32_t> devices_;
};

}  // namespace pallasim::cli
