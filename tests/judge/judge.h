// The verdict on one program, and the smallest program with the same verdict.
#pragma once
#include "case.h"
#include "engine.h"

namespace pallasim::judge {

// A module takes milliseconds, a rare one seconds; one that takes this long hangs.
constexpr unsigned kSecondsPerModule = 60;
// From now on this process may take so many seconds of the processor, or wait three times as long, until a signal ends
// it; 0: it may take any. On a busy machine what is slow does not hang.
void limit_time(unsigned seconds);
// Whether a process that ended like this was ended by that limit.
bool was_limited(int status);

struct Verdict {
  enum class Kind : uint8_t {
    Same,       // every configuration gives the evaluator's bytes and prints, without findings
    Missing,    // the evaluator lacks an operation; the configurations agree with each other
    Different,  // bytes or prints
    Finding,    // a checked run reports something about a right program
    Refused,    // a configuration stops on a right program
    Accepted,   // a wrong program runs to its end
    Stopped,    // the evaluator stops on what should be a right program
    Missed,     // a program with a race, of which a checked run reports none
    Invented,   // a report of a race between two accesses that are ordered
    Crash,      // the process breaks off, or the module hangs
    Invalid,    // the text does not parse or verify, or depends on memory that nobody wrote: the generator's mistake
  };
  Kind kind = Kind::Same;
  std::string text;    // one line
  std::string config;  // of the configuration that differs
  int runs = 0;        // of the engine
  std::map<std::string, int> operations;
};
const char* name_of(Verdict::Kind);

// `only`: of the configurations this one and, where the evaluator lacks an operation, the first; empty for all.
Verdict judge(const Case&, const std::string& only = "");
// Of a program with undefined data: whether checked runs know which elements of its results depend on it.
Verdict judge_undefined(const Case&, const std::string& only = "");
// The same in a process of its own, which may break off or hang.
Verdict judge_apart(const Case&, const std::string& only = "");

// Whether what the evaluator makes of the program depends on who of its threads runs first.
bool order_shows(const Case&);

// The smallest program found, with or without races as the given one, whose verdict has the same kind as `v`.
Case shrink(const Case&, const Verdict& v);

// The operands, one per line, as numbers.
std::string describe(const Case&);
// NAME.psir with the operands that `describe` wrote into NAME.txt; further lines of it are not looked at. Throws
// std::runtime_error.
Case read_case(const std::string& psir);

}  // namespace pallasim::judge
