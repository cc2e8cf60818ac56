#include "sarif.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "pallasim/trace/sarif.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

template <typename T>
T value(const nb::dict& d, const char* key) {
  return nb::cast<T>(d[key]);
}

ir::SourceLine line_of(const nb::dict& d) {
  return {value<std::string>(d, "file"), value<int>(d, "line"), value<int>(d, "column"),
          value<std::string>(d, "function"), value<std::string>(d, "text")};
}

ir::Site site_of(const nb::dict& d) {
  ir::Site s{.what = value<std::string>(d, "what"), .source = line_of(d), .callers = {}, .scope = {}};
  for (nb::handle c : value<nb::list>(d, "callers")) s.callers.push_back(line_of(nb::cast<nb::dict>(c)));
  s.scope = value<std::string>(d, "scope");
  return s;
}

// The inverse of what `findings` gives; grid points may have become lists on their way.
ir::Diagnostic finding_of(const nb::dict& d) {
  const auto code = ir::Code::find(value<std::string>(d, "code"));
  if (!code) throw nb::value_error("there is no such code");
  ir::Diagnostic f(*code, value<std::string>(d, "message"));
  for (ir::Severity s : {ir::Severity::Error, ir::Severity::Warning, ir::Severity::Note})
    if (ir::name(s) == value<std::string>(d, "severity")) f.severity = s;
  f.kernel = value<std::string>(d, "kernel");
  f.chip = value<std::string>(d, "chip");
  f.thread = value<std::string>(d, "thread");
  if (const nb::object point = d["grid_point"]; !point.is_none()) {
    f.has_grid_point = true;
    for (nb::handle i : point) f.grid_point.push_back(nb::cast<int64_t>(i));
  }
  f.site = site_of(value<nb::dict>(d, "site"));
  for (nb::handle s : value<nb::list>(d, "also")) f.also.push_back(site_of(nb::cast<nb::dict>(s)));
  f.numbers = value<std::vector<std::string>>(d, "numbers");
  f.hint = value<std::string>(d, "hint");
  return f;
}

std::string sarif(const nb::list& results, const std::string& root, const std::string& version, bool complete) {
  std::vector<trace::SarifResult> all;
  for (nb::handle h : results) {
    const auto d = nb::cast<nb::dict>(h);
    all.push_back({.finding = finding_of(value<nb::dict>(d, "finding")),
                   .instead = {.file = value<std::string>(d, "file"), .line = value<int>(d, "line")},
                   .test = value<std::string>(d, "test"),
                   .expected = value<std::string>(d, "expected"),
                   .fails = value<bool>(d, "fails")});
  }
  return trace::sarif(all, root, version, complete);
}

}  // namespace

void define_sarif(nb::module_& m) {
  m.def("sarif", &sarif, "results"_a, "root"_a, "version"_a, "complete"_a,
        "A SARIF file of dictionaries: finding as `findings` gives it, file, line and test that found it, whether it "
        "fails "
        "that, and why it was expected.");
  m.def("source_root", &trace::source_root, "start"_a, "The folder that paths in reports for others are relative to.");
}

}  // namespace pallasim::python
