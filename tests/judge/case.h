// One generated program with its operands, and what the judge expects of it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../oracle/evaluate.h"

namespace pallasim::judge {

struct Case {
  uint64_t seed = 0;
  std::string text;
  std::vector<oracle::Array> args;  // of each device one after another, as oracle::evaluate takes them
  int devices = 1;
  bool wrong = false;                // a mistake was put in: both sides must stop
  std::map<std::string, int> terms;  // how often each kind of situation was generated
};

// The same seed gives the same program in every run of one build.
Case generate(uint64_t seed);

}  // namespace pallasim::judge
