// --sarif FILE: what a command finds, for code hosts and editors.
#pragma once
#include <string>
#include <vector>

#include "pallasim/ir/diagnostic.h"
#include "pallasim/trace/sarif.h"

namespace pallasim::cli {

// Does nothing before `begin`.
class Sarif {
 public:
  // Findings without a line are shown at `about`, which each file that follows replaces.
  void begin(std::string file, std::string about);
  void about(const std::string& file) { about_ = file; }
  void add(const ir::Diagnostic&);
  // Throws PS-IO-002. `complete`: whether the command looked at all that it should.
  void write(const std::string& version, bool complete) const;

 private:
  std::string file_, about_;
  std::vector<trace::SarifResult> results_;
};

}  // namespace pallasim::cli
