// What a debugger says of a plan: operations by source line, and values by their Python names.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "../plan/plan.h"
#include "pallasim/interp/debug.h"

namespace pallasim::interp {

// A stop point: what stands there, and where a line begins.
struct StopPlace {
  static constexpr int kNowhere = 1 << 20;
  const ir::Op* op = nullptr;
  int32_t body = -1;              // -1: the step is no stop point
  int depth = 0;                  // of regions
  std::vector<ir::LocId> frames;  // the outermost first
  // Of the outermost function in which another line begins here than in the operation before; kNowhere: in none.
  int begins = kNowhere;
};

class DebugSymbols {
 public:
  DebugSymbols(const Plan&, const ir::LocTable&);
  const StopPlace& at(const Step& s) const { return places_[static_cast<size_t>(s.id)]; }
  // The stop point that a thread at the step came to last, or where it stands.
  const StopPlace& around(const Step& s) const;
  // Of a step that is none, the frames of its line.
  std::vector<ir::LocId> frames(const Step&) const;
  const ir::SourceLine& line(ir::LocId) const;

  struct Name {
    std::string text;
    const ValuePlace* place;
  };
  // What a frame knows at a step: the newest value of each name. `level`: of the frame, 0 the kernel's.
  std::vector<Name> names(const Step&, size_t level) const;
  const ValuePlace* find(const Step&, size_t level, const std::string& name) const;

  // The steps where a line begins, and the line itself: the asked one, or the next one that has operations.
  struct Line {
    std::string file;
    int line = 0;
    std::vector<std::pair<int32_t, int>> steps;  // and the level of the frame that it is in
  };
  Line find_line(const std::string& file, int line) const;  // throws DebugError
  std::vector<ir::SourceLine> lines() const;

 private:
  struct Named {
    std::string text;
    ir::LocId caller;          // of the function that has the name; -1: the kernel's
    bool is_ref, is_argument;  // of a region, by its number
    size_t place;              // among Plan::values
  };
  void walk(const ir::Region&, int32_t body, int depth, const std::vector<ir::LocId>& around);
  void name_values();
  bool sees(const Named&, const Step&, const std::vector<ir::LocId>& frames, size_t level) const;
  const Plan& plan_;
  const ir::LocTable& locs_;
  std::vector<StopPlace> places_;  // by step
  std::unordered_map<const ir::Op*, StopPlace> ops_;
  std::vector<Named> named_;
};

// The names that a source line assigns to: "a, b = f(x)" -> a, b; none where it does not.
std::vector<std::string> assigned_names(const std::string& line);

}  // namespace pallasim::interp
