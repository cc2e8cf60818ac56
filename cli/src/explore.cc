// pallasim explore: one launch under many schedules.
#include "pallasim/interp/explore.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "commands.h"
#include "io.h"
#include "launches.h"
#include "pallasim/capsule/exploration.h"

namespace pallasim::cli {
namespace {

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
    for (const interp::ExploredOutcome& o : x.outcomes) {
      for (const ir::Diagnostic& d : o.report.findings) code_ = std::max(code_, out_.finding(d));
      if (o.stop) code_ = std::max(code_, out_.finding(*o.stop));
    }
    // Which result there is must not be a question of the schedule.
    const auto ended = std::count_if(x.outcomes.begin(), x.outcomes.end(), [](const auto& o) { return !o.stop; });
    if (ended > 1) code_ = std::max<int>(code_, kFinding);
    out_.object["launches"].push_back(capsule::to_json(x));
  }

  const ExploreCommand& command_;
  Out& out_;
  int code_ = kOk;
};

}  // namespace

int explore(const ExploreCommand& c, Out& out) { return Explore(c, out).run(); }

}  // namespace pallasim::cli
