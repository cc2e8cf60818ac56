#include "passes.h"

#include <algorithm>

#include "pallasim/interp/options.h"

namespace pallasim::interp {

std::span<const PassRow> pass_rows() {
  static constexpr PassRow kRows[] = {
#define PALLASIM_MODULE_PASS(name, what) {#name, what},
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

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void rewrite(ir::Module& m, const PlanOptions& options, PassWatch* watch) {
  if (!options.fuse) return;
  std::vector<int64_t> changed(m.bodies.size(), 0);
  for (size_t i = 0; i < std::size(kModulePasses); ++i) {
    const std::string_view name = pass_rows()[i].name;
    if (has(options.without, name)) continue;
    PassWatch::Run run{name, 0, {}, {}};
    const bool printed = watch && has(watch->print, name);
    if (printed) run.before = ir::print(m);
    for (size_t b = 0; b < m.bodies.size(); ++b) {
      const int64_t n = kModulePasses[i]({m.bodies[b].graph, m.grid, changed[b]});
      changed[b] += n, run.changes += n;
    }
    if (printed) run.after = ir::print(m);
    if (watch) watch->runs.push_back(std::move(run));
  }
}

}  // namespace passes
}  // namespace pallasim::interp
