// Findings and stops: typed, with a stable code that has a page in docs/diagnostics.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "pallasim/ir/code.h"

namespace pallasim::ir {

struct SourceLine {
  std::string file;  // empty: unknown
  int line = 0;
  int column = 0;
  std::string function;
  std::string text;  // the quoted source line, may be empty
  bool operator==(const SourceLine&) const = default;
};

// One side of a finding: what was done and where.
struct Site {
  std::string what;  // "read", "write", "waits here"; empty for the main site
  SourceLine source;
  std::vector<SourceLine> callers;  // innermost first
  std::string scope;                // "attention/softmax": the kernel's named scopes around it, may be empty
  int32_t loc = -1;                 // its number in the module's table of locations; -1: it is not from there
};

// First line: what and where; then the numbers; then a hint. Made of a code and its message, and whatever else is
// known:
//   throw DiagnosticError(Diagnostic("PS-ARG-001", "...").of(kernel).with({"..."}).hinted("..."));
struct Diagnostic {
  // Its severity is that of the code.
  Diagnostic(Code c, std::string one_sentence) : code(c), severity(c.severity()), message(std::move(one_sentence)) {}

  Code code;
  Severity severity;
  std::string message;  // one sentence without a full stop
  std::string kernel;   // empty outside a launch
  std::string chip;     // "tpu-v5e", empty where no chip's sizes and rules hold
  std::string thread;   // "core 3", empty for a single thread
  std::vector<int64_t> grid_point;
  bool has_grid_point = false;
  Site site;
  std::vector<Site> also;            // the other sides
  std::vector<std::string> numbers;  // one fact per line
  std::string hint;
  // What it is about, for whoever tells causes from consequences: "ref acc_ref", "barrier 0", "axis 1". No part of the
  // report.
  std::vector<std::string> about;

  Diagnostic&& of(std::string kernel_name) &&;
  Diagnostic&& at(Site) &&;
  Diagnostic&& with(std::vector<std::string> facts) &&;  // adds lines of numbers
  Diagnostic&& hinted(std::string) &&;
  [[noreturn]] void raise() &&;  // throws it as a DiagnosticError
};

struct RenderOptions {
  bool escape_control = true;  // text from a kernel never reaches a terminal raw
};
// The complete report: several lines, each ends with \n.
std::string render(const Diagnostic&, const RenderOptions& = {});
// One object; keys: code severity message kernel thread grid_point file line …
std::string to_json(const Diagnostic&);

// Every user-visible failure inside the library is this exception. It never means a corrupt process.
class DiagnosticError : public std::exception {
 public:
  explicit DiagnosticError(Diagnostic d);
  const char* what() const noexcept override { return text_.c_str(); }
  const Diagnostic& diagnostic() const { return diagnostic_; }
  Diagnostic& diagnostic() { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
  std::string text_;
};

}  // namespace pallasim::ir
