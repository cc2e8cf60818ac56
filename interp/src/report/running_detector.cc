#include "running_detector.h"

#include <fmt/format.h>

#include "report.h"

namespace pallasim::interp {

// A line that two such stores share tells of the first.
RunningDetector::RunningDetector(const Plan& plan) {
  for (analysis::RunningStore& s : analysis::running_stores(plan)) stores_.try_emplace(s.loc, Counted{s, 0, 0, {}});
}

void RunningDetector::see(Seen& seen) {
  const Access& a = seen.access;
  if (!a.write || a.unwritten) return;
  const auto of = stores_.find(a.loc);
  if (of == stores_.end()) return;
  Counted& c = of->second;
  ++c.times;
  const auto [last, first] = c.last.try_emplace(a.thread, Counted::Place{a.buffer, a.offset});
  if (!first && last->second.buffer == a.buffer && last->second.offset == a.offset) ++c.over;
  last->second = {a.buffer, a.offset};
}

void RunningDetector::finish(std::vector<ir::Diagnostic>& findings) {
  for (const auto& [loc, c] : stores_) {
    if (c.over == 0) continue;
    const Execution& ex = this->ex();
    const ir::Module& m = ex.plan->module;
    const std::string& output = m.operands[static_cast<size_t>(c.store.operand)].name;
    const std::string sum = c.store.sum.empty() ? "the sum" : c.store.sum,
                      step = c.store.axes.empty() ? "trip" : "step";
    ir::Diagnostic d =
        ir::Diagnostic("PS-OUT-003",
                       c.store.early ? fmt::format("{} is stored before the {}'s part of {} is added: the last part "
                                                   "is never stored",
                                                   output, step, sum)
                                     : fmt::format("{} is stored at every {} before {} is final, and the last "
                                                   "store alone is kept",
                                                   output, step, sum))
            .of(m.name)
            .at(ir::site_of(*ex.locs, loc));
    d.numbers.push_back(fmt::format("{} of {} stores are stored over by the next one; nothing reads {} in between",
                                    c.over, c.times, output));
    std::vector<std::string> last;
    for (const int a : c.store.axes) last.push_back(fmt::format("pl.program_id({0}) == pl.num_programs({0}) - 1", a));
    if (last.empty()) {
      d.numbers.push_back(fmt::format("the loop is at {}", where(ex, c.store.loop)));
      d.hint = "store behind the loop";
    } else {
      d.hint = fmt::format("store at the last step{}: @pl.when({}{}{})", c.store.early ? ", behind what is added" : "",
                           last.size() > 1 ? "(" : "", fmt::join(last, ") & ("), last.size() > 1 ? ")" : "");
    }
    d.severity = ir::Severity::Note;
    findings.push_back(std::move(d));
  }
}

}  // namespace pallasim::interp
