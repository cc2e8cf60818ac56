// What a run said so far.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp {

struct Print {
  int64_t order;  // linear grid index, then sequence
  std::string text;
  std::shared_ptr<HostCall> call;  // instead of a text
};

struct Log {
  std::vector<Print> prints;
  std::vector<ir::Diagnostic> findings;        // that did not stop the run
  std::map<const Step*, size_t> noted;         // steps that report once: the places of their findings
  std::map<const Step*, std::string> outside;  // of checked runs: what a load read outside of its ref first
  struct Visits {
    std::vector<int64_t> now;                                   // the block's place
    std::map<std::vector<int64_t>, std::vector<int64_t>> seen;  // place -> grid point
    bool reported = false;
  };
  std::map<std::pair<int32_t, int>, Visits> visits;  // by thread and output: the blocks that output_visit saw

  void clear() {
    prints.clear();
    findings.clear();
    noted.clear();
    outside.clear();
    visits.clear();
  }
};
// Where two of them differ, in a word; empty: nowhere.
std::string difference(const Log&, const Log&);

}  // namespace pallasim::interp
