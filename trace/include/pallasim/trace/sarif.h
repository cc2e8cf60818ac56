// Findings as SARIF 2.1.0 (docs.oasis-open.org/sarif), which code hosts and editors show beside the lines.
#pragma once
#include <string>
#include <vector>

#include "pallasim/ir/diagnostic.h"

namespace pallasim::trace {

struct SarifResult {
  ir::Diagnostic finding;
  ir::SourceLine instead;  // where it is shown if it has no line itself: a file that was checked, a test
  std::string test;        // that found it, may be empty
  std::string expected;    // why it is no news: shown as suppressed; empty where it is
  bool fails = false;      // it is an error here, whatever its severity
};

// The file's text. Findings with one code, line and message (numbers aside) are one result. Paths below `root`
// (absolute) are relative to it, with the fingerprints made of them; `complete`: whether all was looked at that should
// be.
std::string sarif(const std::vector<SarifResult>&, const std::string& root, const std::string& version, bool complete);

// The folder that paths in reports for others are relative to: the workspace of GitHub Actions, else the nearest folder
// from `start` upwards that git knows, else `start`.
std::string source_root(const std::string& start);

}  // namespace pallasim::trace
