#include "passes.h"

#include <algorithm>

#include "../plan/print.h"
#include "../plan/steps.h"
#include "pallasim/interp/options.h"

namespace pallasim::interp {

std::span<const PassRow> pass_rows() {
  static constexpr PassRow kRows[] = {
#define PALLASIM_MODULE_PASS(name, what) {#name, what},
#define PALLASIM_PLAN_PASS(name, what) {#name, what},
#include "passes.def"
  };
  return kRows;
}

namespace passes {
namespace {

constexpr int64_t (*kModulePasses[])(const Target&) = {
#define PALLASIM_MODULE_PASS(name, what) &name,
#include "passes.def"
};
constexpr int64_t (*kPlanPasses[])(Plan&) = {
#define PALLASIM_PLAN_PASS(name, what) &name,
#include "passes.def"
};

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Steps that go on to the next one by themselves are marked.
std::string text_of(const Plan& p) {
  std::string r;
  for (const Step& s : p.steps) {
    const bool goes_on =
        s.threaded && s.threaded != p.functions->end_threaded && s.threaded != p.functions->end_observed;
    r += (goes_on ? "> " : "  ") + interp::text_of(p, s) + "\n";
  }
  return r;
}

// Runs a pass, if nobody left it out, and tells what came of it.
template <typename Apply, typename Print>
void run(std::string_view name, const PlanOptions& options, PassObserver* watch, Apply apply, Print print) {
  if (has(options.without, name)) return;
  PassObserver::Run run{name, 0, {}, {}};
  const bool printed = watch && has(watch->print, name);
  if (printed) run.before = print();
  run.changes = apply();
  if (printed) run.after = print();
  if (watch) watch->runs.push_back(std::move(run));
}

}  // namespace

void rewrite(ir::Module& m, CopyForwarding* forwarding, const PlanOptions& options, PassObserver* watch) {
  if (!options.fuse) return;
  const bool forwards = options.rewrites() && m.bodies.size() == 1;
  std::vector<int64_t> changed(m.bodies.size(), 0);
  for (size_t i = 0; i < std::size(kModulePasses); ++i) {
    const auto apply = [&] {
      int64_t all = 0;
      for (size_t b = 0; b < m.bodies.size(); ++b) {
        const int64_t n = kModulePasses[i](
            {m.bodies[b].graph, m.grid, changed[b], m.scratch.size(), forwards ? forwarding : nullptr});
        changed[b] += n, all += n;
      }
      return all;
    };
    run(pass_rows()[i].name, options, watch, apply, [&] { return ir::print(m) + text_of(*forwarding); });
  }
}

void rewrite(Plan& p, PassObserver* watch) {
  if (!p.options.rewrites()) return;
  for (size_t i = 0; i < std::size(kPlanPasses); ++i)
    run(
        pass_rows()[std::size(kModulePasses) + i].name, p.options, watch, [&] { return kPlanPasses[i](p); },
        [&] { return text_of(p); });
}

}  // namespace passes
}  // namespace pallasim::interp
