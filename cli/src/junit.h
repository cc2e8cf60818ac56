// JUnit's XML, which servers of continuous integration read.
#pragma once
#include <string>
#include <vector>

namespace pallasim::cli {

struct JUnitCase {
  enum class Verdict : uint8_t { Passed, Failed, Error, Skipped };
  std::string name;
  Verdict verdict = Verdict::Passed;
  std::string kind, message, text;  // of what has not passed: a code, one line, the report
  double seconds = 0;
};

std::string junit(const std::string& suite, const std::vector<JUnitCase>&, double seconds);

}  // namespace pallasim::cli
