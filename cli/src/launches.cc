#include "launches.h"

#include <fmt/format.h>

#include <algorithm>

#include "io.h"
#include "pallasim/capsule/capsule.h"
#include "verdict.h"

namespace pallasim::cli {

Launch kernel_launch(const RunOptions& o, const std::string& text, const interp::Options& options) {
  if (o.launch) fail("PS-CLI-001", "--launch is for capsules");
  ir::Module m = load_module(text, o.file);
  Launch l;
  l.options = options;
  l.in.push_back(make_arguments(&m, o));
  l.plan = placed(m, [&] { return interp::compile(std::move(m), l.options); });
  l.devices = {0};
  const auto n = static_cast<size_t>(interp::devices_of(*l.plan));
  for (size_t d = 1; d < n; ++d) l.in.push_back(l.in[0]), l.devices.push_back(static_cast<int64_t>(d));
  int64_t budget = l.options.max_memory;
  for (size_t d = 0; d < n; ++d) l.to.push_back(make_results(interp::module_of(*l.plan), &budget));
  return l;
}

namespace {

using Adapt = std::function<interp::Options(interp::Options)>;
using Then = std::function<void(Launch&)>;

// Schedules are the command line's: what is drawn or explored has none, or one of its own.
void of_capsule(const RunOptions& o, const std::string& bytes, const Adapt& adapt, const Then& then) {
  const int64_t budget = engine_options(o).max_memory - static_cast<int64_t>(bytes.size());
  const Capsule c(bytes, shown(o.file), budget);
  refuse_operands(o);
  require_launch(o, c);
  Launches launches(c, shown(o.file), budget, [&](interp::Options recorded) {
    return adapt(without_schedule(engine_options(o, std::move(recorded))));
  });
  const auto chosen = static_cast<size_t>(o.launch);
  for (size_t i = 0, n; i < launches.all().size(); i += n) {
    n = launches.devices(i);
    if (chosen && (chosen <= i || chosen > i + n)) continue;
    Launch l = launches.load(i);
    then(l);
  }
}

}  // namespace

void require_launch(const RunOptions& o, const Capsule& c) {
  if (o.launch > std::ssize(c.launches()))
    fail("PS-CLI-001",
         fmt::format("--launch {}: the launches of the capsule are 1 to {}", o.launch, c.launches().size()));
}

void each_launch(const RunOptions& o, const Adapt& adapt, const Then& then) {
  const std::string text = read_program(o.file, engine_options(o).max_memory);
  if (looks_like_zip(text)) return of_capsule(o, text, adapt, then);
  Launch l = kernel_launch(o, text, adapt(engine_options(o)));
  then(l);
}

}  // namespace pallasim::cli
