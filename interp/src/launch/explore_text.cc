// An exploration in words.
#include <fmt/format.h>

#include "pallasim/interp/explore.h"
#include "pallasim/ir/escape.h"

namespace pallasim::interp {
namespace {

std::string number(int64_t n) {  // 1,344
  std::string s = std::to_string(n);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, ",");
  return s;
}

std::string counted(int64_t n, const char* one, const char* more) {
  return fmt::format("{} {}", number(n), n == 1 ? one : more);
}

std::string verdict(const ExploredOutcome& o) {
  if (o.stop) return fmt::format("{}: {}", o.stop->code.text(), ir::escaped(o.stop->message));
  const auto n = static_cast<int64_t>(o.report.findings.size());
  return n == 0 ? "ends, no finding" : "ends, " + counted(n, "finding", "findings");
}

std::string index_text(const std::vector<int64_t>& index) { return fmt::format("[{}]", fmt::join(index, ", ")); }

std::string line_text(const ir::Site& s) {
  return ir::escaped(s.source.file.empty() ? s.source.text
                                           : fmt::format("{}:{}  {}", s.source.file, s.source.line, s.source.text));
}

std::string headline(const Exploration& x) {
  const std::string n = number(x.schedules);
  if (x.interrupted) return fmt::format("interrupted after {}", counted(x.schedules, "schedule", "schedules"));
  if (!x.exhausted)
    return fmt::format("{} of policy {}, seed {}", counted(x.schedules, "schedule", "schedules"), x.policy, x.seed);
  std::string r = x.schedules == 1 ? "no two schedules differ, one was run"
                                   : fmt::format("all {} schedules that differ were run", n);
  int64_t stops = 0, findings = 0, ends = 0;
  for (const ExploredOutcome& o : x.outcomes) {
    stops += o.stop.has_value();
    ends += !o.stop;
    findings += static_cast<int64_t>(o.report.findings.size());
  }
  if (stops == 0)
    r += fmt::format(": none stops, {}, {}", ends == 1 ? "one outcome" : counted(ends, "outcome", "outcomes"),
                     findings == 0 ? "no finding" : "with findings");
  return r + " (for these inputs, on this chip)";
}

}  // namespace

std::string to_text(const Exploration& x) {
  std::string r =
      fmt::format("explored {}: {}\n", x.kernel.empty() ? "the kernel" : ir::escaped(x.kernel), headline(x));
  constexpr size_t kMost = 5;
  size_t number_of = 0;
  for (const ExploredOutcome& o : x.outcomes) {
    if (number_of == kMost) {
      r += counted(static_cast<int64_t>(x.outcomes.size() - kMost), "further outcome", "further outcomes") + "\n";
      break;
    }
    r += fmt::format("outcome {}: {} of them: {}\n", ++number_of, number(o.count), verdict(o));
    if (o.variants > 1)
      r += fmt::format("  in {} within the tolerance, {:.3g} from this one at most\n",
                       counted(o.variants, "result", "results"), o.spread);
    for (const OutputDifference& d : o.differs) {
      r += fmt::format("  {}{} differs from the first outcome's in {}", ir::escaped(d.name),
                       d.device > 0 ? fmt::format(" of device {}", d.device) : "",
                       counted(d.elements, "element", "elements"));
      r += d.first == d.last ? fmt::format(": {}\n", index_text(d.first))
                             : fmt::format(", from {} to {}\n", index_text(d.first), index_text(d.last));
    }
    if (o.order)
      r += fmt::format("  here this comes first:  {}\n  and this behind it:     {}\n", line_text(o.order->first),
                       line_text(o.order->second));
    if (o.switches > 0)
      r += fmt::format("  with {}\n", counted(static_cast<int64_t>(o.switches), "switch", "switches"));
    r += fmt::format("  token {}\n", o.token);
  }
  if (x.uncounted > 0) r += fmt::format("{} ended in further ways\n", counted(x.uncounted, "schedule", "schedules"));
  return r;
}

}  // namespace pallasim::interp
