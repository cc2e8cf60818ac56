// pallasim explore: one launch under many schedules.
#include "pallasim/interp/explore.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "commands.h"
#include "io.h"
#include "launches.h"

namespace pallasim::cli {
namespace {

Json site_object(const ir::Site& s) {
  return {{"file", s.source.file}, {"line", s.source.line}, {"text", s.source.text}};
}

Json outcome_object(const interp::ExploredOutcome& o) {
  Json j = {{"count", o.count},          {"variants", o.variants},   {"spread", o.spread},
            {"token", o.token},          {"switches", o.switches},   {"deadlock", o.deadlock},
            {"prints", o.report.prints}, {"findings", Json::array()}};
  for (const ir::Diagnostic& d : o.report.findings) j["findings"].push_back(to_json_object(d));
  j["stop"] = o.stop ? to_json_object(*o.stop) : Json();
  j["outputs"] = Json::array();
  for (const interp::ExploredArray& a : o.outputs) {
    const Array values{a.dtype, a.dims, a.bytes};
    j["outputs"].push_back({{"name", a.name},
                            {"device", a.device},
                            {"dtype", ir::name(a.dtype)},
                            {"shape", a.dims},
                            {"fnv1a", fmt::format("{:016x}", summarize(values).hash)},
                            {"first", first_elements(values, 8)}});
  }
  j["differs"] = Json::array();
  for (const interp::OutputDifference& d : o.differs)
    j["differs"].push_back(
        {{"name", d.name}, {"device", d.device}, {"elements", d.elements}, {"first", d.first}, {"last", d.last}});
  j["order"] = o.order ? Json::array({site_object(o.order->first), site_object(o.order->second)}) : Json();
  return j;
}

class Explore {
 public:
  Explore(const ExploreCommand& c, Out& out) : command_(c), out_(out) {}

  int run() {
    each_launch(
        command_.run, [](interp::Options o) { return o; },
        [&](Launch& l) {
          if (l.of > 1) out_.text(fmt::format("launch {}\n", l.number));
          launch(l);
        });
    return code_;
  }

 private:
  void launch(Launch& l) {
    interp::ExploreOptions how{command_.policy, command_.schedules, command_.depth, command_.run.seed, command_.jobs};
    how.tolerance = command_.tolerance;
    const bool shown = command_.run.progress && ::isatty(STDERR_FILENO);
    if (shown) how.progress = [](int64_t n) { fmt::print(stderr, "\r{} schedules", n); };
    const interp::Exploration x = interp::explore(l.cached(), l.calls(), l.options, how);
    if (shown) fmt::print(stderr, "\r\x1b[K");
    out_.text(interp::to_text(x));
    Json j = {{"kernel", x.kernel},           {"policy", x.policy},       {"seed", x.seed},
              {"schedules", x.schedules},     {"given_up", x.given_up},   {"exhausted", x.exhausted},
              {"interrupted", x.interrupted}, {"uncounted", x.uncounted}, {"outcomes", Json::array()}};
    for (const interp::ExploredOutcome& o : x.outcomes) {
      j["outcomes"].push_back(outcome_object(o));
      for (const ir::Diagnostic& d : o.report.findings) code_ = std::max(code_, out_.finding(d));
      if (o.stop) code_ = std::max(code_, out_.finding(*o.stop));
    }
    // Which result there is must not be a question of the schedule.
    const auto ended = std::count_if(x.outcomes.begin(), x.outcomes.end(), [](const auto& o) { return !o.stop; });
    if (ended > 1) code_ = std::max<int>(code_, kFinding);
    out_.object["launches"].push_back(std::move(j));
  }

  const ExploreCommand& command_;
  Out& out_;
  int code_ = kOk;
};

}  // namespace

int explore(const ExploreCommand& c, Out& out) { return Explore(c, out).run(); }

}  // namespace pallasim::cli
