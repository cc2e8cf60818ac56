#include "verdict.h"

#include <fmt/format.h>

#include "pallasim/hw/machine.h"
#include "pallasim/hw/rules.h"
#include "pallasim/interp/launch.h"

namespace pallasim::cli {

std::string Verdict::why() const {
  for (const ir::Diagnostic& d : remarks)
    if (d.severity == ir::Severity::Error) return fmt::format("{}: {}", d.code.text(), d.message);
  return {};
}

std::string not_looked_at(const ir::Module& m, const hw::Profile& chip) {
  if (!m.params.empty()) return "shape parameters are open";
  if (chip.family != hw::Family::Generic && hw::model(m).family == hw::Family::Generic)
    return "the kernel is for no chip";
  return {};
}

Verdict hold_against(ir::Module m, const hw::Profile& chip) {
  Verdict v{&chip, hw::broken_rules(m, chip)};
  interp::Options options;
  options.chip = &chip;
  options.rules = interp::Options::Rules::Off;
  for (ir::Diagnostic& d : v.remarks) {
    if (d.code == ir::Code("PS-CHIP-001")) d.severity = ir::Severity::Error;
    ir::place(d, m);
  }
  try {
    placed(m, [&] { return interp::compile(std::move(m), options); });
  } catch (const ir::DiagnosticError& e) { v.remarks.push_back(e.diagnostic()); }
  for (const ir::Diagnostic& d : v.remarks) v.reasons += d.severity == ir::Severity::Error;
  return v;
}

std::vector<const hw::Profile*> chips_of(const std::vector<std::string>& names) {
  std::vector<const hw::Profile*> r;
  for (const std::string& name : names) r.push_back(hw::find_profile(name));
  return r;
}

}  // namespace pallasim::cli
