// The engine's configurations, run on generated programs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "case.h"
#include "pallasim/interp/launch.h"

namespace pallasim::judge {

struct Config {
  std::string name;
  interp::Options options;
};

// Every configuration that has a meaning for the program, which the module is.
std::vector<Config> configurations(const ir::Module&, const Case&);

struct EngineOutcome {
  bool done = false;
  std::string code, message;           // of the error, where it stopped
  std::vector<oracle::Array> results;  // of each device one after another
  std::vector<std::string> prints, findings;
  std::vector<ir::Diagnostic> reports;       // the findings as they are
  std::vector<std::vector<bool>> undefined;  // by result; empty: none
  int units = 1;                             // parts of the grid that ran on their own
};

// Those that look for races, under several schedules.
std::vector<Config> race_configurations(uint64_t seed);

// Compiles once for the configurations that share a plan.
class Engine {
 public:
  explicit Engine(const Case& c) : case_(c) {}
  EngineOutcome run(const Config&);

 private:
  const Case& case_;
  struct Compiled {
    interp::Options options;
    std::shared_ptr<const interp::Plan> plan;
  };
  std::vector<Compiled> plans_;
};

// "" where all bytes and prints are equal, any NaN as good as another; else the first place that differs.
std::string difference(const std::vector<oracle::Array>& want, const std::vector<oracle::Array>& got);

}  // namespace pallasim::judge
