// One launch under many schedules: what may come of it, and a token for each outcome.
#pragma once
#include <functional>
#include <utility>

#include "pallasim/interp/launch.h"

namespace pallasim::interp {

// Schedules that end alike: what tells them from others, how many, and the first of them.
struct CountedOutcome {
  std::string key;
  int64_t count = 0, first = 0;
};

struct ExploreOptions {
  std::string policy = "pct";  // of policy_rows()
  int64_t schedules = 1000;    // at most
  int depth = 3;               // PolicyArguments
  uint64_t seed = 0;
  int jobs = 0;                 // OS threads; 0: one per core. What is found does not depend on it
  bool minimise = true;         // tokens have as few switches as a search for fewer leaves
  int64_t max_outcomes = 1000;  // what comes later is counted alone
  // Outcomes are one where nothing but floats a, b of outputs tells them apart, and |a - b| <= tolerance * max(1, |a|,
  // |b|), held against the first of them: sums whose order the schedule decides. 0: bytes.
  double tolerance = 0;
  // Of all schedules, added up from parts (count_outcomes): they are not run here again. Not for "exhaustive".
  std::optional<std::vector<CountedOutcome>> counted = {};
  // Told now and then, from one OS thread at a time: schedules so far.
  std::function<void(int64_t schedules)> progress = {};
};

// An output of one device.
struct ExploredArray {
  std::string name;
  int32_t device = 0;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
};

// Where the outputs of an outcome differ from those of the first one that ended.
struct OutputDifference {
  std::string name;
  int32_t device = 0;
  int64_t elements = 0;              // that differ
  std::vector<int64_t> first, last;  // their indices, row-major
};

struct ExploredOutcome {
  int64_t count = 0;                   // schedules that end like this
  int64_t first = 0;                   // the first of them, from 0
  std::string token;                   // replays one of them
  int64_t variants = 1;                // results of other bytes that are one within the tolerance
  double spread = 0;                   // how far a number of them is from that of `outputs`, at most
  size_t switches = 0;                 // in which it leaves running each thread until it waits
  std::vector<ExploredArray> outputs;  // empty where it stopped
  Report report;                       // prints and findings
  std::optional<ir::Diagnostic> stop;
  bool deadlock = false;  // nobody could go on, or all polled in vain
  std::vector<OutputDifference> differs;
  // Two lines that come in the other order in a run whose outcome is another: in this one as they stand here.
  std::optional<std::pair<ir::Site, ir::Site>> order;
};

struct Exploration {
  std::string kernel, policy;
  uint64_t seed = 0;
  int64_t schedules = 0;                  // that ran to an end
  int64_t given_up = 0;                   // exhaustive: parts of schedules that had run
  bool exhausted = false;                 // all schedules that differ were run
  bool interrupted = false;               // by request_interrupt()
  int64_t uncounted = 0;                  // schedules with outcomes beyond max_outcomes
  std::vector<ExploredOutcome> outcomes;  // in the order in which they were found
};

// Operations in flight move at any moment, whatever Options::copies says. Arrays are not written to. Throws
// DiagnosticError for options and arrays that cannot be; what stops a schedule is an outcome.
Exploration explore(const CachedPlan&, std::span<const DeviceCall> devices, const Options&, const ExploreOptions& = {});

// Of schedules `begin` to `end` - 1 of those that explore runs, for whoever adds up parts that run elsewhere.
std::vector<CountedOutcome> count_outcomes(const CachedPlan&, std::span<const DeviceCall> devices, const Options&,
                                           const ExploreOptions&, int64_t begin, int64_t end);

std::string to_text(const Exploration&);  // for people

}  // namespace pallasim::interp
