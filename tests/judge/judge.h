// The verdict on one program, and the smallest program with the same verdict.
#pragma once
#include "case.h"
#include "engine.h"

namespace pallasim::judge {

struct Verdict {
  enum class Kind : uint8_t {
    Same,        // every configuration gives the evaluator's bytes and prints, without findings
    Missing,     // the evaluator lacks an operation; the configurations agree with each other
    Different,   // bytes or prints
    Finding,     // a checked run reports something about a right program
    Refused,     // a configuration stops on a right program
    Accepted,    // a wrong program runs to its end
    Stopped,     // the evaluator stops on what should be a right program
    Invalid,     // the text does not parse or verify, or depends on memory that nobody wrote: the generator's mistake
  };
  Kind kind = Kind::Same;
  std::string text;    // one line
  std::string config;  // of the configuration that differs
  int runs = 0;        // of the engine
  std::map<std::string, int> operations;
};
const char* name_of(Verdict::Kind);

Verdict judge(const Case&);

// The smallest program found whose verdict has the same kind as `v`.
Case shrink(const Case&, const Verdict& v);

// The operands, one per line, as numbers.
std::string describe(const Case&);

}  // namespace pallasim::judge
