#include "replay.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "interrupt.h"
#include "pallasim/capsule/replay.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

Shown g_shown_of_replay;

// (the outcome as JSON, its findings). Options are those of the recording and, over them, those given.
nb::tuple replayed(const std::string& path, int64_t launch, double rtol, double atol,
                   const capsule::GivenOptions& options, bool compare, double time_rtol) {
  capsule::Outcome found;
  watch_interrupts(-1);
  {
    nb::gil_scoped_release unlocked;
    capsule::ReplayOptions how;
    how.launch = launch;
    how.tolerance = {rtol, atol};
    how.compare_findings = how.compare_times = compare;
    how.time_rtol = time_rtol;
    how.adapt = [&](interp::Options recorded) { return capsule::overridden(std::move(recorded), options); };
    found = capsule::run_capsule(path, capsule::overridden({}, options).max_memory, how);
  }
  nb::list findings;
  for (const ir::Diagnostic& d : found.findings) findings.append(g_shown_of_replay.finding(d));
  const std::string json =
      found.json.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  return nb::make_tuple(json, findings);
}

}  // namespace

void define_replay(nb::module_& m, const Shown& shown) {
  g_shown_of_replay = shown;
  m.def("replay", &replayed, "path"_a, "launch"_a, "rtol"_a, "atol"_a, "options"_a, "compare"_a, "time_rtol"_a,
        "Repeats the launches of a capsule, or one (0: all): the outcome as JSON, as `pallasim run --json` prints it, "
        "and "
        "its findings. compare: also findings and predicted times that were recorded.");
}

}  // namespace pallasim::python
