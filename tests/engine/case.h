// A case of engine behaviour: a module as text whose comments say how it is run and what has to come of it. README.md
// of this folder's parent has the directives.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../interp/run.h"

namespace pallasim::interp::test {

// What one directive demands of every run of its section.
struct Expectation {
  enum class What { Output, Error, Finding, Print, PlanContains, PlanLacks, Rewrites, Pass, Units, Sequential, Steps };
  What what = What::Output;
  std::string name;  // of the output, step, rewrite or pass; the code of a finding
  std::string text;  // what a reason says; part of a report
  std::vector<std::string> prints;
  int64_t number = -1;         // how many; the line of a finding, -1 where it has none
  std::optional<Array> want;   // of an output; none: what the evaluator says
  size_t first = 0, last = 0;  // lines of the directive, from 0
};

struct Configuration {
  std::string name;
  Options options;
};

// A directive RUN with the expectations behind it, those of the whole file included.
struct Section {
  std::vector<Configuration> runs;
  std::vector<Expectation> expectations;
};

struct EngineCase {
  std::string text;
  std::vector<Array> args;
  std::vector<Section> sections;
};

// Throws std::runtime_error with line and reason for what is no case: an unknown directive, nothing that is expected,
// an expectation that could not fail.
EngineCase parse_case(const std::string& text);

// "1..4 nan*3 7.5" as elements of the type, and back; `of`: how many there have to be.
Array values_of(ir::DType, std::vector<int64_t> dims, std::string_view list);
std::string list_of(const Array&);
// Zeros, or what memory holds that nobody wrote: what a run that did nothing could leave.
bool untouched(const Array&);
// "" where all elements are equal, any NaN as good as another; else the first one that differs.
std::string difference(const Array& want, const Array& got);

}  // namespace pallasim::interp::test
