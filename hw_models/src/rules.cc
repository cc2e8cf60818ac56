#include "rules.h"

#include <algorithm>

namespace pallasim::hw {

bool knows_compiler(const ir::Module& m) { return m.machine == ir::Machine::Triton || m.machine == ir::Machine::Tpu; }

std::vector<ir::Diagnostic> broken_rules(const ir::Module& m, const Profile& p) {
  std::vector<ir::Diagnostic> r;
  if (p.family == Family::Gpu && m.machine == ir::Machine::Triton) {
    try {
      check_triton(m);
    } catch (ir::DiagnosticError& e) { r.push_back(std::move(e.diagnostic())); }
  }
  if (p.family == Family::Gpu && m.machine == ir::Machine::MosaicGpu) check_mosaic_gpu(m, p, &r);
  if (p.family == Family::Tpu && m.machine == ir::Machine::Tpu) {
    check_tpu_launch(m, p, &r);
    check_tpu_operations(m, p, &r);
    check_sparsecore(m, p, &r);
  }
  if (p.family != Family::Generic && p.family == model(m).family) check_capacity(m, p, &r);
  check_fit(m, p, &r);
  if (p.family != Family::Generic)
    for (ir::Diagnostic& d : r) d.chip = p.name;
  return r;
}

std::vector<ir::Diagnostic> check_rules(const ir::Module& m, const Profile& p, bool strict) {
  std::vector<ir::Diagnostic> all = broken_rules(m, p);
  for (ir::Diagnostic& d : all)
    if (strict && d.code.is("PS-MEM-002")) d.severity = ir::Severity::Error;
  const auto is_error = [](const ir::Diagnostic& d) { return d.severity == ir::Severity::Error; };
  const auto first = std::find_if(all.begin(), all.end(), is_error);
  if (first == all.end()) return all;
  if (const auto n = std::count_if(all.begin(), all.end(), is_error); n > 1)
    first->numbers.push_back(std::to_string(n - 1) + (n == 2 ? " more place breaks" : " more places break") +
                             " a rule; the option rules=warn lists them all");
  throw ir::DiagnosticError(std::move(*first));
}

}  // namespace pallasim::hw
