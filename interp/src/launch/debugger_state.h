// What a debugger holds.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "debug_expression.h"
#include "debug_run.h"
#include "debug_symbols.h"

namespace pallasim::interp {

struct Debugger::State {
  State(ir::Module, std::span<const DeviceCall>, const Options&, int64_t snapshot_bytes);

  // -- stops --
  struct Line {  // a breakpoint
    int number;
    std::map<int32_t, int> steps;  // and the frame's level
    std::optional<DebugExpression> condition;
  };
  struct Element {
    Watched watched;
    std::optional<DebugExpression> condition;
  };
  struct Found {
    DebugStop stop;
    int level;  // of the frame that is shown; -1: where the line begins
  };
  std::optional<Found> breaks(const Thread&, const Step&);  // whether something stops it here
  std::optional<Found> fires(const Thread&, const Step&);   // a watchpoint, a finding
  DebugBreakpoint& of(int number);
  void watch_again();  // what elements are now
  std::string value_text(const Watched&, const std::vector<std::byte>&) const;
  std::vector<std::byte> bytes_of(const WatchedElements&) const;

  // -- going --
  using Judge = std::function<bool(const Thread&, const Step&)>;
  Judge stepping(How);  // where a step of the thread that stands ends, and where it is stopped before
  DebugStop stand(std::optional<Found>, DebugStop::Why otherwise);
  void conclude();
  void go_back_to(int64_t moment, bool over);
  DebugScope scope() const;  // throws DebugError where the chosen thread stands nowhere
  DebugScope scope(const Thread& t, const Step& s, size_t level) const {
    return {run->execution(), *symbols, t, s, level, run->checks()};
  }
  const Step* step_of(const Thread&) const;  // null: nowhere
  bool begun(const Thread&) const;

  Options options;
  Session session;
  std::shared_ptr<const Plan> plan;
  std::vector<DeviceCall> calls;
  std::unique_ptr<Bound> bound;
  std::unique_ptr<DebugSymbols> symbols;
  std::unique_ptr<DebugRun> run;
  std::vector<DebugBreakpoint> breakpoints;
  std::deque<Line> lines;
  std::deque<Element> elements;
  std::vector<std::string> codes;
  std::vector<size_t> seen;  // Checks::news
  int last_number = 0;
  std::optional<Found> found;  // by the judge that ran last
  int32_t chosen = 0;
  int shown = 0;     // the level of the innermost frame that is shown of the thread that stands
  size_t frame = 0;  // that was chosen; 0: the innermost
  Outcome outcome;   // of a launch that is over
  bool concluded = false;
};

}  // namespace pallasim::interp
