#include "log.h"

#include <algorithm>

namespace pallasim::interp {

std::string difference(const Log& a, const Log& b) {
  const auto same_print = [](const Print& x, const Print& y) { return x.order == y.order && x.text == y.text; };
  const auto same_finding = [](const ir::Diagnostic& x, const ir::Diagnostic& y) {
    return ir::render(x) == ir::render(y);
  };
  const auto same = [](const auto& x, const auto& y, const auto& f) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), f);
  };
  if (!same(a.prints, b.prints, same_print)) return "prints";
  if (!same(a.findings, b.findings, same_finding) || a.noted != b.noted) return "findings";
  return "";
}

}  // namespace pallasim::interp
