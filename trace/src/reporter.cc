#include "pallasim/trace/reporter.h"

#include <algorithm>

namespace pallasim::trace {

namespace {
std::vector<ReporterRow>& rows() {
  static std::vector<ReporterRow> all;
  return all;
}
}  // namespace

Registered::Registered(ReporterRow row) { rows().push_back(std::move(row)); }

std::vector<ReporterRow> reporters() {
  std::vector<ReporterRow> r = rows();
  std::sort(r.begin(), r.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return r;
}

std::unique_ptr<Reporter> make_reporter(const std::string& name) {
  for (const ReporterRow& r : rows())
    if (r.name == name) return r.make();
  return nullptr;
}

}  // namespace pallasim::trace
